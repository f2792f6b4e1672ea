"""The active segment: the promises of Kafka's own tests of a segment, and ours."""

import shutil
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest

from downconvert.storage import LogConfig, OffsetOverflowError
from downconvert.storage.disk.faulty_disk import FaultyDisk
from downconvert.storage.disk.open_files import OpenFiles, WrittenFiles
from downconvert.storage.indexes.transaction_index import AbortedTransaction, read_transactions
from downconvert.storage.names import Kind
from downconvert.storage.segments.segment import Segment
from downconvert.storage.segments.segment_writer import SegmentWriter
from records import MemoryRecords
from records.formats import Codec
from tests.downconvert.storage.logs import UNSYNCED, append, batch, segment

CONFIG = LogConfig(index_interval_bytes=0)


def writer(path: Path, base_offset: int = 40, config: LogConfig = CONFIG) -> SegmentWriter:
    made = segment(path, base_offset)
    return SegmentWriter(made, 0, base_offset, config, UNSYNCED)


def offsets_in(made: SegmentWriter) -> list[int]:
    found = made.segment.slice(0, made.position)
    return [h.last_offset for h in found.batches()]


@pytest.mark.parametrize(
    ("base", "largest"), [(0, 2**31), (100, 100 + 2**31), (1, 2**32), (2**31, 2**33)]
)
def test_an_offset_that_does_not_fit_the_segment_is_an_error(
    tmp_path: Path, base: int, largest: int
) -> None:
    made = writer(tmp_path, base)
    with pytest.raises(OffsetOverflowError):
        append(made, batch(largest))
    assert made.position == 0
    append(made, batch(base + 2**31 - 1))


def test_an_offset_below_the_segments_is_an_error(tmp_path: Path) -> None:
    made = writer(tmp_path)
    with pytest.raises(OffsetOverflowError):
        append(made, batch(39))
    assert made.position == 0


def test_the_next_offset_is_after_the_last_batch(tmp_path: Path) -> None:
    made = writer(tmp_path)
    assert made.next_offset == 40
    append(made, batch(50, 51, 52, codec=Codec.GZIP))
    assert made.next_offset == 53


def test_appended_batches_are_found_at_once(tmp_path: Path) -> None:
    made = writer(tmp_path)
    for offset in range(40, 240):
        append(made, batch(offset))
        found = made.segment.find(offset, made.position)
        assert found is not None
        assert found[1].last_offset == offset


def test_truncation_removes_index_entries_and_timestamps(tmp_path: Path) -> None:
    """30 batches and an entry for every other; the highest timestamp is that of the first."""
    size = len(batch(40))
    made = writer(tmp_path, config=LogConfig(index_interval_bytes=2 * size - 1))
    for number in range(30):
        append(made, batch(40 + number, timestamp=1000 if number == 0 else 10 * number))
    assert made.max_timestamp == 1000
    made.truncate_to(41)
    assert (made.max_timestamp, made.next_offset, offsets_in(made)) == (1000, 41, [40])
    made.truncate_to(40)
    assert (made.max_timestamp, made.next_offset, offsets_in(made)) == (-1, 40, [])
    append(made, batch(40, timestamp=5))
    assert made.max_timestamp == 5
    made.close()
    assert made.segment.path(Kind.OFFSET_INDEX).stat().st_size == 0
    assert made.segment.path(Kind.TIME_INDEX).stat().st_size == 12


def test_truncation_may_begin_in_a_gap(tmp_path: Path) -> None:
    made = writer(tmp_path)
    append(made, batch(40, 41))
    append(made, batch(50, 51))
    made.truncate_to(45)
    assert (made.next_offset, offsets_in(made)) == (42, [41])
    append(made, batch(43))
    assert offsets_in(made) == [41, 43]


def test_a_reopened_segment_knows_its_highest_timestamp(tmp_path: Path) -> None:
    """The same holds if the time index has no entry for it."""
    made = writer(tmp_path, config=LogConfig())
    append(made, batch(40, timestamp=700))
    append(made, batch(41, timestamp=500))
    position = made.position
    made.abandon()
    for kind in (Kind.OFFSET_INDEX, Kind.TIME_INDEX):
        made.segment.path(kind).unlink()
    again = SegmentWriter(made.segment, position, 42, LogConfig(segment_ms=100), UNSYNCED)
    assert again.max_timestamp == 700
    again.close()
    assert made.segment.max_timestamp() == 700


def open_count(directory: Path) -> int:
    """How many descriptors there are of files below a directory."""
    found = 0
    for descriptor in Path("/proc/self/fd").iterdir():
        with suppress(OSError):  # that of this listing has gone
            found += directory in descriptor.readlink().parents
    return found


def test_files_are_opened_only_for_writing(tmp_path: Path) -> None:
    size = len(batch(40))
    config = LogConfig(index_interval_bytes=2 * size)
    writer(tmp_path, config=config).close()
    made = SegmentWriter(segment(tmp_path, 40), 0, 40, config, UNSYNCED)
    assert (open_count(tmp_path), made.is_open) == (0, False)
    for offset in range(40, 43):
        append(made, batch(offset))
    assert (open_count(tmp_path), made.is_open) == (1, True)
    append(made, batch(43))  # gets an entry
    assert open_count(tmp_path) == 5
    made.release()
    made.segment.release()
    assert (open_count(tmp_path), made.is_open) == (0, False)
    assert made.segment.open_files.written.count == 0


def test_a_released_segment_continues_as_before(tmp_path: Path) -> None:
    size = len(batch(40))
    written = []
    for releases in (False, True):
        directory = tmp_path / str(releases)
        made = writer(directory, config=LogConfig(index_interval_bytes=2 * size - 1))
        for number in range(30):
            append(made, batch(40 + number, timestamp=1000 + (7 * number) % 30))
            if releases:
                made.release()
                found = made.segment.find(40 + number, made.position)
                assert found is not None
                assert found[1].last_offset == 40 + number
        made.truncate_to(60)
        if releases:
            made.release()
        append(made, batch(60))
        made.close()
        written.append({path.name: path.read_bytes() for path in directory.iterdir()})
    assert written[0] == written[1]


def test_files_are_closed_after_each_append_if_too_many_are_open(tmp_path: Path) -> None:
    shared = OpenFiles(written=WrittenFiles(6))
    many = []
    for number in range(5):
        place = tmp_path / str(number)
        segment(place, 0)
        made = SegmentWriter(Segment(place, 0, shared), 0, 0, CONFIG, UNSYNCED)
        append(made, batch(0))
        many.append(made)
    assert open_count(tmp_path) == shared.written.count == 5
    for made in many:
        append(made, batch(1))
        assert open_count(tmp_path) == shared.written.count <= 6
    for made in many:
        made.close()
        made.segment.release()
        assert len(made.segment.path(Kind.OFFSET_INDEX).read_bytes()) == 8
    assert open_count(tmp_path) == shared.written.count == 0


@pytest.mark.parametrize("releases", [False, True])
def test_flushed_data_is_synced_even_if_files_were_closed_before(
    tmp_path: Path, releases: bool
) -> None:
    place, left = tmp_path / "log", tmp_path / "left"
    config = LogConfig(index_interval_bytes=0, segment_index_bytes=1024)
    for seed in range(20):
        made = segment(place, 0)
        SegmentWriter(made, 0, 0, config, UNSYNCED).abandon()  # its files have their names
        disk = FaultyDisk(place, random=Random(seed))
        one = SegmentWriter(made, 0, 0, config, disk)
        data = batch(0, size=9000)
        append(one, data)
        aborted = AbortedTransaction(7, 0, 1, 2)
        one.append(batch(1), list(MemoryRecords(batch(1)).batches()), 2, [aborted])
        if releases:
            one.release()
        one.flush()
        left.mkdir(exist_ok=True)
        disk.sync_directory(place)  # as the log's writer does for the name of the last index
        disk.survivors(left)
        assert (left / made.path().name).read_bytes() == data + batch(1)
        assert (left / made.path(Kind.OFFSET_INDEX).name).read_bytes()[:8] != bytes(8)
        assert (left / made.path(Kind.TIME_INDEX).name).read_bytes()[:12] != bytes(12)
        assert read_transactions(left / made.path(Kind.TRANSACTION_INDEX).name, 0) == [aborted]
        one.abandon()
        shutil.rmtree(left)
        shutil.rmtree(place)


def test_a_truncation_is_synced_before_it_returns(tmp_path: Path) -> None:
    """A crash after it brings no truncated record back."""
    place, left = tmp_path / "log", tmp_path / "left"
    for seed in range(10):
        made = segment(place, 0)
        SegmentWriter(made, 0, 0, CONFIG, UNSYNCED).abandon()  # its files have their names
        disk = FaultyDisk(place, random=Random(seed))
        one = SegmentWriter(made, 0, 0, CONFIG, disk)
        for offset in range(3):
            append(one, batch(offset))
        one.flush()
        one.truncate_to(1)
        left.mkdir()
        disk.survivors(left)
        assert (left / made.path().name).read_bytes() == batch(0)
        one.abandon()
        shutil.rmtree(left)
        shutil.rmtree(place)


def test_bytes_after_the_end_are_cut_off(tmp_path: Path) -> None:
    made = segment(tmp_path, 40, batch(40), b"torn")
    SegmentWriter(made, len(batch(40)), 41, CONFIG, UNSYNCED).close()
    assert made.path().read_bytes() == batch(40)
