"""What is measured from a file is what measuring all of it says."""

import os
from pathlib import Path
from types import ModuleType

import pytest

from records.formats import (
    V1,
)
from records.kernel import Outcome

from .kernels import each_kernel
from .long_log import CHUNK, DECISIONS, EVERYTHING, LOG, SHORT_LOG, converted, opened


@each_kernel
@pytest.mark.parametrize("mapped", [False, True])
@pytest.mark.parametrize("what", [None, *DECISIONS])
@pytest.mark.parametrize(("chunk_size", "budget"), [(CHUNK, EVERYTHING), (3000, 5000)])
def test_what_is_measured_from_a_file_is_what_measure_says(
    kernel: ModuleType,
    tmp_path: Path,
    mapped: bool,
    what: str | None,
    chunk_size: int,
    budget: int,
) -> None:
    entry, outcome, inside = DECISIONS[what] if what else (b"", Outcome.END, None)
    log = SHORT_LOG + entry
    position = size = 0
    with opened(tmp_path / "log", log, mapped=mapped) as source:
        transcoder = kernel.Transcoder(V1, 0, 1, False)
        while True:
            call = (source, position, len(log), chunk_size, EVERYTHING, budget)
            consumed, produced, ended = transcoder.measure_from(*call)
            position += consumed
            size += produced
            assert transcoder.damage is None
            if ended != Outcome.LIMIT:
                break
            assert budget <= consumed < budget + chunk_size
    again = kernel.Transcoder(V1, 0, 1, False)
    end = len(log) if inside is None else len(SHORT_LOG) + inside
    assert (position, ended) == (end, outcome)
    assert size == again.measure(log, 0, end, end, EVERYTHING)[1]
    assert transcoder.totals == again.totals


@each_kernel
def test_measuring_from_a_file_stops_where_there_is_no_room(
    kernel: ModuleType, tmp_path: Path
) -> None:
    room = len(converted(kernel, LOG)) // 2
    with opened(tmp_path / "log", LOG) as source:
        transcoder = kernel.Transcoder(V1, 0, 1, False)
        reached = transcoder.measure_from(source, 0, len(LOG), CHUNK, room, EVERYTHING)
    expected = kernel.Transcoder(V1, 0, 1, False).measure(LOG, 0, len(LOG), len(LOG), room)
    assert reached == expected
    assert reached[2] == Outcome.TARGET


@each_kernel
def test_a_file_that_has_become_shorter_is_not_measured_further(
    kernel: ModuleType, tmp_path: Path
) -> None:
    with opened(tmp_path / "log", LOG) as source:
        os.truncate(tmp_path / "log", len(LOG) // 2)
        transcoder = kernel.Transcoder(V1, 0, 1, False)
        call = (source, 0, len(LOG), CHUNK, EVERYTHING, EVERYTHING)
        consumed, _, outcome = transcoder.measure_from(*call)
    assert outcome == Outcome.SOURCE
    assert consumed <= len(LOG) // 2


@each_kernel
def test_what_cannot_be_measured_is_refused(kernel: ModuleType) -> None:
    good = (LOG, 0, len(LOG), CHUNK, 0, 0)
    for at, wrong in [
        *((0, -1), (0, "text"), (1, -1), (1, len(LOG) + 1), (2, len(LOG) + 1), (3, 0)),
        *((3, -1), (4, -1), (5, -1)),
    ]:
        with pytest.raises((ValueError, TypeError)):
            kernel.Transcoder(V1, 0, 1, False).measure_from(*good[:at], wrong, *good[at + 1 :])
    entered = kernel.Transcoder(V1, 0, 1, False)
    entered.enter_entries(V1, 0, None, False, False, False)
    with pytest.raises(ValueError, match="it stands in what was entered"):
        entered.measure_from(*good)
