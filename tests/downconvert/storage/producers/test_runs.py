"""Batches that are read as one, and the order in which damage is raised."""

from collections.abc import Hashable, Iterator
from itertools import chain
from pathlib import Path

import pytest

from downconvert.storage.producers.runs import Run, runs, runs_of
from downconvert.storage.producers.transactions import AbortedRanges
from records import BatchHeader, CorruptRecordsError, FileRecords, build_marker
from records.batches.control import ControlRecordType
from tests.downconvert.storage.logs import batch, segment

MARKER = build_marker(ControlRecordType.COMMIT, offset=4, timestamp=0, producer_id=1)


def found(path: Path, *batches: bytes) -> Iterator[tuple[FileRecords, BatchHeader]]:
    records = segment(path, 0, *batches).slice(0, sum(map(len, batches)))
    return ((records, header) for header in records.batches())


def kind_of(header: BatchHeader) -> Hashable:
    return None if header.is_control else header.magic


def firsts(those: Iterator[Run]) -> list[tuple[int, list[int]]]:
    return [
        (run.first.base_offset, [one.base_offset for one in run.records.batches()]) for run in those
    ]


def test_neighbours_of_one_kind_are_one_run(tmp_path: Path) -> None:
    batches = [batch(0), batch(1), batch(2, magic=1), batch(3), MARKER, batch(5), batch(6)]
    assert firsts(runs(found(tmp_path, *batches), kind_of)) == [
        (0, [0, 1]),
        (2, [2]),
        (3, [3]),
        (5, [5, 6]),
    ]


def test_batches_of_two_files_are_two_runs_wherever_they_are(tmp_path: Path) -> None:
    """The second begins in its file where the first one ends in its own."""
    assert len({len(one) for one in (batch(0), batch(1, magic=2), batch(2))}) == 1
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    aborted = batch(1, transactional=True, producer_id=1, producer_epoch=0, base_sequence=0)
    both = chain(found(tmp_path / "a", batch(0)), found(tmp_path / "b", aborted, batch(2)))
    those = runs(both, lambda header: None if header.is_transactional else True)
    assert firsts(those) == [(0, [0]), (2, [2])]


def test_damage_comes_after_the_good_batches_before_it(tmp_path: Path) -> None:
    those = runs(found(tmp_path, batch(0), batch(1), b"\xff" * 100), kind_of)
    assert next(those).size == len(batch(0) + batch(1))
    with pytest.raises(CorruptRecordsError):
        next(those)


def test_readers_get_records_below_an_offset_and_no_markers(tmp_path: Path) -> None:
    batches = [batch(0), MARKER, batch(5), batch(6)]
    pieces = list(runs_of(found(tmp_path, *batches), 6, AbortedRanges([])))
    assert [[one.base_offset for one in piece.batches()] for piece in pieces] == [[0], [5]]
