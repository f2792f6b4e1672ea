"""Measuring from a file gives the same result as measuring all of it in memory."""

import os
from pathlib import Path
from types import ModuleType

import pytest

from records import Codec, Record, build
from records.formats import V1
from records.kernel import COUNTER, Outcome, Recodes
from records.units import KiB, MiB

from .kernels import each_kernel
from .long_log import CHUNK, DECISIONS, EVERYTHING, LOG, SHORT_LOG, converted, opened


@each_kernel
@pytest.mark.parametrize("mapped", [False, True])
@pytest.mark.parametrize("what", [None, *DECISIONS])
@pytest.mark.parametrize(("chunk_size", "budget"), [(CHUNK, EVERYTHING), (3000, 5000)])
def test_measuring_from_a_file_gives_the_result_of_measure(
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
            call = (source, position, len(log), chunk_size, COUNTER, False, EVERYTHING, budget)
            consumed, produced, ended, rest, _ = transcoder.advance(*call)
            position += consumed
            size += produced
            assert rest is None
            assert (transcoder.damage is not None) == (ended == Outcome.DAMAGE)
            if ended != Outcome.LIMIT:
                break
            assert budget <= max(consumed, produced)
            assert consumed < budget + chunk_size
    again = kernel.Transcoder(V1, 0, 1, False)
    end = len(log) if inside is None else len(SHORT_LOG) + inside
    assert (position, ended) == (end, outcome)
    assert size == again.measure(log, 0, end, end, EVERYTHING)[1]
    assert transcoder.totals == again.totals


@each_kernel
@pytest.mark.parametrize("less", [0, 1])
def test_measuring_from_a_file_stops_without_room(
    kernel: ModuleType, tmp_path: Path, less: int
) -> None:
    room = len(converted(kernel, LOG)) // 2 - less
    with opened(tmp_path / "log", LOG) as source:
        transcoder = kernel.Transcoder(V1, 0, 1, False)
        call = (source, 0, len(LOG), CHUNK, COUNTER, False, room, EVERYTHING)
        reached = transcoder.advance(*call)[:3]
    expected = kernel.Transcoder(V1, 0, 1, False).measure(LOG, 0, len(LOG), len(LOG), room)
    assert reached[:2] == expected[:2]
    assert reached[2] == (Outcome.LIMIT if reached[1] == room else Outcome.TARGET)


@each_kernel
def test_a_file_that_has_become_shorter_is_not_measured_further(
    kernel: ModuleType, tmp_path: Path
) -> None:
    with opened(tmp_path / "log", LOG) as source:
        os.truncate(tmp_path / "log", len(LOG) // 2)
        transcoder = kernel.Transcoder(V1, 0, 1, False)
        call = (source, 0, len(LOG), CHUNK, COUNTER, False, EVERYTHING, EVERYTHING)
        consumed, _, outcome, _, _ = transcoder.advance(*call)
    assert outcome == Outcome.SOURCE
    assert consumed <= len(LOG) // 2


@each_kernel
def test_compressed_batches_are_not_recoded_for_measuring(kernel: ModuleType) -> None:
    entry = build([Record(0, 0, value=b"v" * 99)], magic=2, codec=Codec.GZIP)
    recodes = Recodes(bytes([0, 3, 2, 3, 1]), body_size_max=128 * KiB, inner_size_max=MiB)
    transcoder = kernel.Transcoder(V1, 0, 1, False, recodes)
    log = SHORT_LOG + entry + SHORT_LOG
    call = (log, 0, len(log), CHUNK, COUNTER, False, EVERYTHING, EVERYTHING)
    consumed, size, outcome, _, _ = transcoder.advance(*call)
    assert (consumed, outcome) == (len(SHORT_LOG), Outcome.BATCH)
    assert size == len(converted(kernel, SHORT_LOG))
