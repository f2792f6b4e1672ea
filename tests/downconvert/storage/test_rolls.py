"""When a new segment begins: the boundary of each limit, and what it is compared with.

Not here: the files of a new segment, and crashes while it begins (test_log_writer.py)."""

from pathlib import Path
from typing import Any

import pytest

from downconvert.storage import Log, LogConfig
from downconvert.storage.disk.files import WritableFile
from downconvert.storage.dump import dump_entries
from downconvert.storage.names import Kind, file_name
from records.formats import V0

from .logs import UNSYNCED, UnsyncedDisk, batch

ONE = len(batch(0))


def opened(path: Path, **config: Any) -> Log:
    return Log.open(path, writable=True, config=LogConfig(**config), files=UNSYNCED)


def bases(log: Log) -> list[int]:
    return [segment.base_offset for segment in log.segments]


@pytest.mark.parametrize(("room", "expected"), [(0, [0, 1]), (ONE - 1, [0, 1]), (ONE, [0])])
def test_an_append_that_just_fits_stays_in_the_segment(
    path: Path, room: int, expected: list[int]
) -> None:
    with opened(path, segment_bytes=3 * ONE + room) as log:
        log.writer.append(batch(0))
        log.writer.append(batch(1) + batch(2) + batch(3))
        assert bases(log) == expected


@pytest.mark.parametrize("reopens", [False, True])
def test_time_counts_from_the_first_batch_to_the_youngest(path: Path, reopens: bool) -> None:
    """Several batches are appended at once. Their times neither rise nor fall."""
    log = opened(path, segment_ms=1000)
    log.writer.append(batch(0, timestamp=5000) + batch(1, timestamp=5900))
    log.writer.append(batch(2, timestamp=6000) + batch(3, timestamp=4000))
    if reopens:
        log.close()
        log = opened(path, segment_ms=1000)
    assert bases(log) == [0]
    log.writer.append(batch(4, timestamp=6001) + batch(5, timestamp=10))
    assert bases(log) == [0, 4]
    log.writer.append(batch(6, timestamp=7001))  # the first one of this segment is of 6001
    log.writer.append(batch(7, timestamp=20) + batch(8, timestamp=7002) + batch(9, timestamp=30))
    assert bases(log) == [0, 4, 7]
    log.close()


def test_the_last_offset_of_an_append_must_fit_the_segment(path: Path) -> None:
    with opened(path) as log:
        log.writer.append(batch(0, timestamp=0))
        log.writer.append(batch(2**31 - 2, timestamp=0) + batch(2**31 - 1, timestamp=0))
        assert bases(log) == [0]
        log.writer.truncate_to(1)
        log.writer.append(batch(2**31 - 1, timestamp=0) + batch(2**31, timestamp=0))
        assert bases(log) == [0, 2**31 - 1]


def test_an_index_with_room_again_after_a_truncation_needs_no_new_segment(path: Path) -> None:
    """36 bytes are three entries of a time index, of which one is kept free."""
    with opened(path, segment_index_bytes=36, index_interval_bytes=0) as log:
        for offset in range(3):
            log.writer.append(batch(offset))
        log.writer.truncate_to(1)
        log.writer.append(batch(1))
        assert bases(log) == [0]


@pytest.mark.parametrize("reopens", [False, True])
def test_records_without_times_are_as_old_as_the_first_append_or_opening(
    path: Path, reopens: bool
) -> None:
    log = opened(path, segment_ms=1000)
    assert not log.writer.active.is_old(10**9)  # it is empty
    log.writer.append(batch(0, magic=V0), now=5000)
    log.writer.append(batch(1, magic=V0), now=5500)
    start = 5000
    if reopens:
        log.close()
        log = opened(path, segment_ms=1000)
        start = 7000
        assert not log.writer.active.is_old(start)
    assert not log.writer.active.is_old(start + 1000)
    assert log.writer.active.is_old(start + 1001)
    log.writer.append(batch(2, magic=V0), now=start + 1001)
    assert bases(log) == [0, 2]
    assert not log.writer.active.is_old(start + 2001)
    log.close()


def test_only_a_truncation_to_nothing_makes_a_segment_young_again(path: Path) -> None:
    with opened(path, segment_ms=1000) as log:
        log.writer.append(batch(0, magic=V0), now=5000)
        log.writer.append(batch(1, magic=V0), now=5500)
        log.writer.truncate_to(1)
        assert log.writer.active.is_old(6001)
        log.writer.truncate_to(0)
        log.writer.append(batch(0, magic=V0), now=6500)
        assert not log.writer.active.is_old(7500)
        assert log.writer.active.is_old(7501)


def test_the_first_record_of_equal_timestamps_is_found_after_a_truncation(path: Path) -> None:
    """The time index then gets its last entry from the batches that are left."""
    with opened(path) as log:
        for offset, time in enumerate((700, 700, 800)):
            log.writer.append(batch(offset, timestamp=time))
    with opened(path) as log:
        log.writer.truncate_to(2)
        log.writer.roll()
        assert log.offset_for(700) == 0
        assert log.offset_for(701) is None
    assert list(dump_entries(path / file_name(0, Kind.TIME_INDEX))) == [
        {"timestamp": 700, "offset": 0}
    ]


def test_a_segment_that_cannot_begin_leaves_no_files(path: Path) -> None:
    """As with too many open files. The log goes on in the old one, and a later attempt succeeds."""

    class Refusing(UnsyncedDisk):
        refused = ""

        def open(self, path: Path) -> WritableFile:
            if path.name == self.refused:
                raise OSError(24, "Too many open files", str(path))
            return super().open(path)

    disk = Refusing()
    with Log.open(path, writable=True, files=disk) as log:
        log.writer.append(batch(0))
        names = {one.name for one in path.iterdir()}
        for kind in (Kind.LOG, Kind.OFFSET_INDEX, Kind.TIME_INDEX):
            disk.refused = file_name(1, kind)
            with pytest.raises(OSError, match="Too many open files"):
                log.writer.roll()
            assert {one.name for one in path.iterdir() if one.suffix != ".snapshot"} == names
            assert (bases(log), log.end_offset) == ([0], 1)
        disk.refused = ""
        log.writer.append(batch(1))
        log.writer.roll()
        assert bases(log) == [0, 2]


def test_the_snapshot_of_producers_has_the_offset_of_the_new_segment(path: Path) -> None:
    """The same holds after a gap in the offsets: the gap is removed together with that segment."""
    producer = {"producer_id": 3, "producer_epoch": 0}
    with opened(path, segment_bytes=2 * ONE - 1) as log:
        log.writer.append(batch(0, base_sequence=0, **producer))
        log.writer.append(batch(10, base_sequence=1, **producer))
        assert (bases(log), log.writer.snapshots) == ([0, 10], [10])
        log.writer.append(batch(20, base_sequence=2, **producer))
        log.writer.remove_oldest(2)
        assert (bases(log), log.writer.snapshots) == ([20], [20])
