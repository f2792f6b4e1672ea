"""Leader epochs: where an epoch ends, where two logs part, and what is cut off."""

from pathlib import Path

import pytest

from downconvert.broker.replication.leader_epochs import (
    UNKNOWN,
    EpochEnd,
    divergence,
    end_of,
    epochs_of,
    from_start,
    truncation,
)
from downconvert.storage import Log
from downconvert.storage.checkpoints.checkpoint import EpochEntry
from tests.downconvert.storage.logs import batch

EPOCHS = [EpochEntry(2, 10), EpochEntry(4, 20), EpochEntry(5, 30)]
END = 35


@pytest.mark.parametrize(
    ("epoch", "expected"),
    [
        (-1, UNKNOWN),
        (1, (1, 10)),  # before all: everything is newer
        (2, (2, 20)),
        (3, (2, 20)),  # never had records
        (4, (4, 30)),
        (5, (5, 35)),  # the last one goes on
        (6, UNKNOWN),
    ],
)
def test_an_epoch_ends_where_the_next_begins(epoch: int, expected: tuple[int, int]) -> None:
    assert end_of(EPOCHS, epoch, END) == expected


@pytest.mark.parametrize(
    ("start", "expected"),
    [
        (10, EPOCHS),
        (11, [(2, 11), (4, 20), (5, 30)]),
        (19, [(2, 19), (4, 20), (5, 30)]),
        (20, [(4, 20), (5, 30)]),
        (34, [(5, 34)]),
    ],
)
def test_epochs_begin_where_the_log_begins(start: int, expected: list[tuple[int, int]]) -> None:
    assert from_start(EPOCHS, start) == expected
    assert from_start((), start) == ()


@pytest.mark.parametrize("epoch", [0, 1, -1, -2, -(2**31)])
def test_a_log_without_epochs_knows_of_none(epoch: int) -> None:
    assert end_of([], epoch, END) == UNKNOWN


@pytest.mark.parametrize(
    ("offset", "epoch", "expected"),
    [
        (35, 5, None),
        (32, 5, None),
        (30, 4, None),
        (31, 4, (4, 30)),  # has more of the epoch than there is
        (36, 5, (5, 35)),
        (20, 3, (2, 20)),  # an epoch that has no records here
        (40, 6, UNKNOWN),
    ],
)
def test_logs_part_where_the_leader_has_less_of_an_epoch(
    offset: int, epoch: int, expected: tuple[int, int] | None
) -> None:
    assert divergence(EPOCHS, END, offset, epoch) == expected


@pytest.mark.parametrize(
    ("diverging", "expected"),
    [
        (EpochEnd(4, 25), 25),
        (EpochEnd(4, 90), 30),  # no further than the epoch goes here
        (EpochEnd(5, 33), 33),
        (EpochEnd(3, 18), 20),  # not known here: to the end of the one before, then asked again
        (EpochEnd(5, 90), 35),
        (EpochEnd(1, 5), 5),
        (EpochEnd(1, 15), 10),  # before all that is known here
        (EpochEnd(9, 31), 31),
        (EpochEnd(9, 90), 35),  # never beyond the end
        (UNKNOWN, 12),  # nothing is known: what is committed stays
    ],
)
def test_a_replica_cuts_its_log_where_it_parts(diverging: EpochEnd, expected: int) -> None:
    assert truncation(EPOCHS, END, 12, diverging) == expected


@pytest.mark.parametrize(("end", "expected"), [(31, 31), (90, 35)])
def test_a_log_without_epochs_is_cut_at_the_leaders_end(end: int, expected: int) -> None:
    assert truncation([], END, 12, EpochEnd(4, end)) == expected


def test_epochs_are_read_beside_a_log_whoever_writes_it(tmp_path: Path) -> None:
    path = tmp_path / "t-0"
    path.mkdir()
    assert list(epochs_of(Log.open(path))) == []
    with Log.open(path, writable=True) as log:
        log.writer.begin_epoch(3)
        log.writer.append(batch(0, 1))
        log.writer.begin_epoch(7)
        assert list(epochs_of(log)) == [(3, 0), (7, 2)]
        assert list(epochs_of(Log.open(path))) == [(3, 0), (7, 2)]
    (path / "leader-epoch-checkpoint").write_text("what?")
    assert list(epochs_of(Log.open(path))) == []


@pytest.mark.parametrize("diverging", [UNKNOWN, EpochEnd(-1, 20), EpochEnd(4, -1)])
def test_a_leader_that_does_not_say_where_is_followed_from_the_high_watermark(
    diverging: EpochEnd,
) -> None:
    assert truncation(EPOCHS, END, 12, diverging) == 12
    assert truncation(EPOCHS, END, END + 5, diverging) == END
