"""When a batch gets an index entry: Kafka's rule."""

from pathlib import Path

import pytest

from downconvert.storage import LogConfig, OffsetIndex, TimeIndex
from downconvert.storage.disk.files import WritableFile
from downconvert.storage.errors import OffsetOverflowError
from downconvert.storage.indexes.index_builder import IndexBuilder, write_indexes
from downconvert.storage.indexes.offset_index import RELATIVE_MAX
from records import MemoryRecords
from tests.downconvert.storage.logs import UNSYNCED, UnsyncedDisk, UnsyncedFile, batch, segment

ONE = len(batch(0))


def builder(path: Path, interval: int, size_max: int = 1200) -> IndexBuilder:
    offsets = OffsetIndex.open_writable(path / "0.index", 0, UNSYNCED, size_max)
    times = TimeIndex.open_writable(path / "0.timeindex", 0, UNSYNCED, size_max)
    return IndexBuilder(lambda: (offsets, times), 0, interval)


def add(made: IndexBuilder, *batches: bytes) -> None:
    position = 0
    for data in batches:
        made.add(next(MemoryRecords(data).batches()), position)
        position += len(data)


def entries(index: OffsetIndex | TimeIndex) -> list[tuple[int, int]]:
    return [index.entry(slot) for slot in range(len(index))]


def test_batches_get_an_entry_after_more_than_the_interval(tmp_path: Path) -> None:
    made = builder(tmp_path, interval=2 * ONE)
    add(made, *(batch(n) for n in range(10)))
    assert entries(made.offsets) == [(3, 3 * ONE), (6, 6 * ONE), (9, 9 * ONE)]
    assert entries(made.times) == [(30, 3), (60, 6), (90, 9)]


def test_an_interval_of_zero_indexes_every_batch_but_the_first(tmp_path: Path) -> None:
    made = builder(tmp_path, interval=0)
    add(made, *(batch(n, n + 1) for n in range(0, 8, 2)))
    assert [offset for offset, _ in entries(made.offsets)] == [3, 5, 7]


def test_a_time_entry_is_the_highest_timestamp_and_its_first_batch(tmp_path: Path) -> None:
    made = builder(tmp_path, interval=0)
    add(made, *(batch(n, timestamp=t) for n, t in enumerate((5, 9, 9, 3, 12, 11))))
    assert entries(made.times) == [(9, 1), (12, 4)]
    made.finish()
    assert entries(made.times) == [(9, 1), (12, 4)]


def test_finishing_adds_the_highest_timestamp_and_trims_the_files(tmp_path: Path) -> None:
    made = builder(tmp_path, interval=10**6)
    add(made, *(batch(n, timestamp=t) for n, t in enumerate((5, 9, 3))))
    assert entries(made.times) == []
    made.finish()
    assert entries(made.times) == [(9, 1)]
    assert (tmp_path / "0.index").stat().st_size == 0
    assert (tmp_path / "0.timeindex").stat().st_size == 12


def test_records_without_timestamps_get_no_time_entries(tmp_path: Path) -> None:
    made = builder(tmp_path, interval=0)
    add(made, *(batch(n, magic=0) for n in range(4)))
    made.finish()
    assert (len(made.offsets), len(made.times)) == (3, 0)


def test_a_full_index_gets_no_more_entries_but_the_last_timestamp(tmp_path: Path) -> None:
    made = builder(tmp_path, interval=0, size_max=36)
    add(made, *(batch(n) for n in range(10)))
    assert made.is_full
    assert [offset for offset, _ in entries(made.offsets)] == [1, 2]
    made.finish()
    assert entries(made.times) == [(10, 1), (20, 2), (90, 9)]


def test_a_full_index_takes_entries_again_after_a_truncation(tmp_path: Path) -> None:
    made = builder(tmp_path, interval=0, size_max=36)
    add(made, *(batch(n) for n in range(10)))
    assert made.is_full
    made.truncate_to(2)
    assert not made.is_full
    made.continue_from(10, 1)
    add(made, batch(2), batch(3))
    assert [offset for offset, _ in entries(made.offsets)] == [1, 3]
    assert made.is_full


def test_a_segment_with_an_offset_that_does_not_fit_gets_no_indexes(tmp_path: Path) -> None:
    last = 100 + RELATIVE_MAX
    made = segment(tmp_path / "whole", 100, batch(100), batch(last))
    (tmp_path / "indexes").mkdir()
    records = made.slice(0, made.size)
    assert write_indexes(records, tmp_path / "indexes", 100, UNSYNCED, LogConfig()) == 2
    for base, offset in ((100, last + 1), (101, 100)):
        made = segment(tmp_path / f"bad-{base}", base, batch(offset))
        with pytest.raises(OffsetOverflowError):
            write_indexes(made.slice(0, made.size), tmp_path, base, UNSYNCED, LogConfig())


def test_the_first_batch_of_equal_timestamps_is_in_the_time_index(tmp_path: Path) -> None:
    """A search goes on from there, and must not go past the first record of that time."""
    made = builder(tmp_path, interval=0)
    add(made, *(batch(n, timestamp=50) for n in range(4)), batch(4, timestamp=40))
    made.finish()
    assert entries(made.times) == [(50, 0)]
    assert (made.max_timestamp, made.max_timestamp_offset) == (50, 0)


def test_bytes_that_were_cut_off_do_not_count_for_the_next_entry(tmp_path: Path) -> None:
    made = builder(tmp_path, interval=2 * ONE)
    add(made, *(batch(n) for n in range(6)))
    made.truncate_to(1)
    assert (entries(made.offsets), entries(made.times)) == ([], [])
    made.continue_from(0, 0)
    add(made, *(batch(n) for n in range(1, 6)))
    assert [offset for offset, _ in entries(made.offsets)] == [4]


def test_both_indexes_are_synced_and_only_after_a_change(tmp_path: Path) -> None:
    synced: list[str] = []

    class Noting(UnsyncedDisk):
        def open(self, path: Path) -> WritableFile:
            class File(UnsyncedFile):
                def sync(self) -> None:
                    synced.append(path.suffix)

            return File(path)

    offsets = OffsetIndex.open_writable(tmp_path / "0.index", 0, Noting(), 1200)
    times = TimeIndex.open_writable(tmp_path / "0.timeindex", 0, Noting(), 1200)
    made = IndexBuilder(lambda: (offsets, times), 0, 0)
    made.sync()
    assert synced == []
    changes = (
        lambda: add(made, batch(0), batch(1)),
        lambda: made.truncate_to(1),
        made.finish,
    )
    for change in changes:
        change()
        made.sync()
        made.sync()
        assert synced == [".index", ".timeindex"]
        synced.clear()
