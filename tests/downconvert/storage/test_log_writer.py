"""A log that is written: appends, rolls, truncation and removal."""

from pathlib import Path

import pytest

from downconvert.storage import DiskFullError, Log, LogConfig
from downconvert.storage.checkpoints.checkpoint import EpochEntry, read_epochs, read_offsets
from downconvert.storage.disk.faulty_disk import FaultyDisk
from downconvert.storage.disk.files import Files
from downconvert.storage.names import Kind, TopicPartition, file_name
from downconvert.storage.producers.producer_state import read_snapshot
from records import CorruptRecordsError
from records.batches.builder import build_marker
from records.batches.control import ControlRecordType
from records.formats import V0, V1, Codec

from .logs import UNSYNCED, batch, offsets


def opened(path: Path, files: Files = UNSYNCED, **config: int) -> Log:
    return Log.open(path, writable=True, config=LogConfig(**config), files=files)


def bases(log: Log) -> list[int]:
    return [segment.base_offset for segment in log.segments]


def test_appended_records_are_read_before_and_after_closing(path: Path) -> None:
    with opened(path) as log:
        assert log.writer.append(batch(0, 1)) == 2
        assert log.writer.append(batch(5) + batch(6, 9, codec=Codec.LZ4)) == 10
        assert offsets(log.records()) == [0, 1, 5, 6, 9]
    with opened(path) as log:
        assert log.end_offset == 10
        log.writer.append(batch(10))
        assert offsets(log.records()) == [0, 1, 5, 6, 9, 10]


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (batch(4), "offset is below the end of the log"),
        (batch(3, 5), "offset is below the end of the log"),
        (batch(6) + batch(6), "offset is below the end of the log"),
        (batch(5)[:-1], "bytes left after the last batch"),
        (batch(5) + b"\0" * 17, "bytes left after the last batch"),
        (batch(5) + b"\0" * 18, "smaller than a message header"),
        (batch(5)[:-1] + b"\xff", "checksum does not match"),
        (batch(5, magic=V1)[:-1] + b"\xff", "checksum does not match"),
        (batch(5)[:16] + b"\x03" + batch(5)[17:], "unknown magic"),
    ],
)
def test_damaged_batches_are_refused_and_leave_nothing_behind(
    path: Path, data: bytes, reason: str
) -> None:
    with opened(path) as log:
        log.writer.append(batch(0, 4))
        size = log.segments[0].size
        with pytest.raises(CorruptRecordsError, match=reason):
            log.writer.append(data)
        assert (log.end_offset, log.segments[0].size) == (5, size)
        log.writer.append(batch(5))


def test_appending_nothing_changes_nothing(path: Path) -> None:
    with opened(path) as log:
        assert log.writer.append(b"") == 0


def test_a_log_rolls_by_size(path: Path) -> None:
    one = len(batch(0))
    with opened(path, segment_bytes=3 * one) as log:
        for offset in range(7):
            log.writer.append(batch(offset))
        assert bases(log) == [0, 3, 6]
        with pytest.raises(ValueError, match="larger than a segment"):
            log.writer.append(batch(*range(7, 50)))


def test_a_log_rolls_by_the_time_of_its_records(path: Path) -> None:
    with opened(path, segment_ms=1000) as log:
        for offset, time in enumerate((5000, 4000, 6000, 6001, 7001, 7002)):
            log.writer.append(batch(offset, timestamp=time))
        assert bases(log) == [0, 3, 5]


def test_a_log_of_records_without_times_rolls_by_its_age(path: Path) -> None:
    with opened(path, segment_ms=1000) as log:
        for offset, now in enumerate((10_000, 11_000, 11_001, 12_002)):
            log.writer.append(batch(offset, magic=V0), now=now)
        assert bases(log) == [0, 2, 3]


def test_a_log_rolls_when_an_index_is_full(path: Path) -> None:
    # 36 bytes are 4 entries of an offset index, and 3 of a time index, of which one is kept free.
    with opened(path, segment_index_bytes=36, index_interval_bytes=0) as log:
        for offset in range(9):
            log.writer.append(batch(offset))
        assert bases(log) == [0, 3, 6]


def test_a_log_rolls_if_offsets_no_longer_fit_an_index(path: Path) -> None:
    with opened(path) as log:
        for offset in (0, 2**31 - 1, 2**31, 2**40):
            log.writer.append(batch(offset, timestamp=0))
        log.writer.append(batch(2**41, codec=Codec.GZIP, magic=V0))
        assert bases(log) == [0, 2**31, 2**40, 2**41 - 2**31 + 1]


def test_rolling_trims_the_old_indexes_and_preallocates_new_ones(path: Path) -> None:
    with opened(path, index_interval_bytes=0, segment_index_bytes=1000) as log:
        for offset in range(4):
            log.writer.append(batch(offset))
        log.writer.roll()
        sizes = [
            path.joinpath(file_name(base, kind)).stat().st_size
            for base in (0, 4)
            for kind in (Kind.OFFSET_INDEX, Kind.TIME_INDEX)
        ]
        assert sizes == [24, 36, 0, 0]
        log.writer.roll()  # an empty segment is not rolled
        assert bases(log) == [0, 4]
        for offset in range(4, 6):
            log.writer.append(batch(offset))
        kinds = (Kind.OFFSET_INDEX, Kind.TIME_INDEX)
        sizes = [path.joinpath(file_name(4, kind)).stat().st_size for kind in kinds]
        assert sizes == [1000, 996]  # with the first entry
    assert (path / file_name(4, Kind.OFFSET_INDEX)).stat().st_size == 8


def test_snapshots_are_written_when_a_log_is_rolled_and_closed(path: Path) -> None:
    producer = {"producer_id": 3, "producer_epoch": 0}
    with opened(path) as log:
        log.writer.append(batch(0, base_sequence=0, transactional=True, **producer))
        log.writer.roll()
        assert read_snapshot(path / file_name(1, Kind.SNAPSHOT)).first_open_offset == 0
        log.writer.append(build_marker(ControlRecordType.ABORT, offset=1, timestamp=0, **producer))
    assert read_snapshot(path / file_name(2, Kind.SNAPSHOT)).first_open_offset is None
    assert (path / file_name(1, Kind.TRANSACTION_INDEX)).stat().st_size == 34


@pytest.mark.parametrize(
    ("to", "left"),
    [(100, 12), (12, 12), (11, 10), (10, 10), (9, 8), (7, 6), (6, 6), (5, 4), (1, 0), (0, 0)],
)
def test_truncation_keeps_earlier_batches(path: Path, to: int, left: int) -> None:
    size = 3 * len(batch(0, 1))
    with opened(path, segment_bytes=size, index_interval_bytes=0) as log:
        for offset in range(0, 12, 2):
            log.writer.append(batch(offset, offset + 1))
        log.writer.truncate_to(to)
        assert log.end_offset == left
        assert offsets(log.records()) == list(range(left))
        log.writer.append(batch(left, timestamp=1))
        assert offsets(log.records()) == list(range(left + 1))
        assert log.offset_for(2) == (1 if left > 1 else None)
    with opened(path) as log:
        assert offsets(log.records()) == list(range(left + 1))


def test_truncation_before_the_start_is_a_value_error(path: Path) -> None:
    with opened(path) as log:
        log.writer.append(batch(0, 1) + batch(2, 3))
        log.writer.delete_records(2)
        with pytest.raises(ValueError, match="before the start"):
            log.writer.truncate_to(1)


def test_truncation_lowers_the_recovery_point(path: Path) -> None:
    """Else what is written in its place would not be looked at after a crash."""
    points = path.parent / "recovery-point-offset-checkpoint"
    with opened(path) as log:
        log.writer.append(batch(0) + batch(1) + batch(2))
    assert read_offsets(points) == {TopicPartition("topic", 0): 3}
    with opened(path) as log:
        log.writer.truncate_to(1)
        assert read_offsets(points) == {TopicPartition("topic", 0): 1}
        assert log.writer.flushed_offset == 1


def test_transactions_are_truncated_too(path: Path) -> None:
    producer = {"producer_id": 3, "producer_epoch": 0}
    with opened(path) as log:
        log.writer.append(batch(0, base_sequence=0, transactional=True, **producer))
        log.writer.append(build_marker(ControlRecordType.ABORT, offset=1, timestamp=0, **producer))
        assert (log.last_stable_offset, len(log.aborted(0, 2))) == (2, 1)
        log.writer.truncate_to(1)
        assert (log.last_stable_offset, log.aborted(0, 1)) == (0, [])
        log.writer.append(build_marker(ControlRecordType.COMMIT, offset=1, timestamp=0, **producer))
        assert (log.last_stable_offset, log.aborted(0, 2)) == (2, [])


def test_deleted_records_are_no_longer_part_of_the_log(path: Path) -> None:
    with opened(path, segment_bytes=3 * len(batch(0))) as log:
        for offset in range(9):
            log.writer.append(batch(offset))
        assert log.writer.delete_records(4) == 4
        assert (log.start_offset, bases(log)) == (4, [3, 6])
        assert log.writer.delete_records(2) == 4  # they do not come back
        assert log.writer.delete_records(100) == 9
        assert (log.start_offset, bases(log), list(log.records())) == (9, [6], [])
        log.writer.append(batch(9))
    with opened(path) as log:
        assert (log.start_offset, offsets(log.records())) == (9, [9])


def test_the_oldest_segments_are_removed_after_rolling_the_last(path: Path) -> None:
    with opened(path, segment_bytes=3 * len(batch(0))) as log:
        for offset in range(8):
            log.writer.append(batch(offset))
        log.writer.remove_oldest(1)
        assert (log.start_offset, bases(log)) == (3, [3, 6])
        log.writer.remove_oldest(2)
        assert (log.start_offset, log.end_offset, bases(log)) == (8, 8, [8])
        log.writer.remove_oldest(1)
        assert bases(log) == [8]
        log.writer.append(batch(8))
    with opened(path) as log:
        assert offsets(log.records()) == [8]


def test_a_removed_segment_takes_no_start_back(path: Path) -> None:
    """Another broker has deleted records, and has left their segments for later."""
    size = 3 * len(batch(0))
    with opened(path, segment_bytes=size) as log:
        for offset in range(8):
            log.writer.append(batch(offset))
    (path.parent / "log-start-offset-checkpoint").write_text("0\n1\ntopic 0 7\n")
    with opened(path, segment_bytes=size) as log:
        assert (log.start_offset, bases(log)) == (7, [0, 3, 6])
        log.writer.remove_oldest(1)
        assert (log.start_offset, bases(log), offsets(log.records())) == (7, [3, 6], [7])
        log.writer.remove_oldest(2)
        assert (log.start_offset, bases(log)) == (8, [8])


def test_a_log_is_restarted_at_any_offset(path: Path) -> None:
    with opened(path, segment_bytes=3 * len(batch(0))) as log:
        for offset in range(8):
            log.writer.append(batch(offset))
        for offset in (100, 5, 5, 0):
            log.writer.truncate_fully_and_start_at(offset)
            assert (log.start_offset, log.end_offset, bases(log)) == (offset, offset, [offset])
            log.writer.append(batch(offset) + batch(offset + 1))
            assert offsets(log.records()) == [offset, offset + 1]


def test_a_log_with_a_start_after_its_end_starts_there(path: Path) -> None:
    starts = path.parent / "log-start-offset-checkpoint"
    with opened(path) as log:
        log.writer.append(batch(0))
    starts.write_text("0\n1\ntopic 0 7\n")
    with opened(path) as log:
        assert (log.start_offset, log.end_offset) == (7, 7)
        log.writer.append(batch(7))
    assert offsets(Log.open(path).records()) == [7]


@pytest.mark.parametrize("full_from", range(1, 60))
def test_an_append_to_a_full_disk_leaves_the_log_unchanged(path: Path, full_from: int) -> None:
    with opened(path) as log:
        log.writer.append(batch(0, leader_epoch=0))
    disk = FaultyDisk(path.parent, full_from=full_from, full_until=full_from + 1)
    producer = {"producer_id": 3, "producer_epoch": 0}
    story = [
        batch(1, leader_epoch=1, base_sequence=0, transactional=True, **producer),
        build_marker(ControlRecordType.ABORT, offset=2, timestamp=0, leader_epoch=1, **producer),
        batch(3, size=700, leader_epoch=2),
    ]
    config = {"segment_bytes": 900, "index_interval_bytes": 0}
    try:
        log = opened(path, disk, **config)
    except DiskFullError:
        log = opened(path, **config)
    for data in story:
        end = log.end_offset
        try:
            log.writer.append(data)
        except DiskFullError:
            assert log.end_offset == end
            assert offsets(log.records()) == [o for o in (0, 1, 3) if o < end]
            log.writer.append(data)
    assert offsets(log.records(isolation="read_committed")) == [0, 3]
    try:
        log.close()
    except DiskFullError:
        opened(path, **config).close()
    assert offsets(Log.open(path).records(isolation="read_committed")) == [0, 3]


def test_a_marker_and_its_data_are_in_the_index_of_their_own_segment(path: Path) -> None:
    with opened(path, segment_bytes=200) as log:
        for producer in (1, 2, 3):
            options = {"producer_id": producer, "producer_epoch": 0}
            end = log.end_offset
            log.writer.append(batch(end, base_sequence=0, transactional=True, **options))
            log.writer.append(
                build_marker(ControlRecordType.ABORT, offset=end + 1, timestamp=0, **options)
            )
    log = Log.open(path)
    assert len(log.segments) > 1
    for segment in log.segments:
        markers = [h.last_offset for h in segment.slice(0, segment.size).batches() if h.is_control]
        assert [entry.last_offset for entry in segment.aborted()] == markers


def test_after_a_crash_only_the_active_segment_is_read_again(path: Path) -> None:
    """The number of bytes that were written since the last clean stop does not matter."""
    log = opened(path, segment_bytes=3 * len(batch(0)))
    for offset in range(27):
        log.writer.append(batch(offset))
    assert len(log.segments) == 9
    log.abandon()
    with opened(path) as log:
        assert [report.base_offset for report in log.writer.recovery.checked] == [24]
        assert log.end_offset == 27


def test_a_segment_that_begins_after_a_gap_is_the_only_one_that_is_read_again(path: Path) -> None:
    log = opened(path, segment_bytes=len(batch(0)))
    log.writer.append(batch(0))
    log.writer.append(batch(7))
    assert (bases(log), log.writer.flushed_offset) == ([0, 7], 7)
    points = read_offsets(path.parent / "recovery-point-offset-checkpoint")
    assert points == {TopicPartition("topic", 0): 7}
    log.abandon()
    with opened(path) as log:
        assert [report.base_offset for report in log.writer.recovery.checked] == [7]


def test_a_recovery_does_not_repeat_the_previous_one(path: Path) -> None:
    points = path.parent / "recovery-point-offset-checkpoint"
    log = opened(path, segment_bytes=3 * len(batch(0)))
    for offset in range(9):
        log.writer.append(batch(offset))
    log.abandon()
    points.unlink()
    for bases_read in ([0, 3, 6], [6]):
        log = opened(path)
        assert [report.base_offset for report in log.writer.recovery.checked] == bases_read
        log.abandon()


def test_rolling_does_not_need_the_recovery_point_to_be_noted(path: Path) -> None:
    disk = FaultyDisk(path.parent)
    points = path.parent / "recovery-point-offset-checkpoint.tmp"
    with opened(path, disk) as log:
        log.writer.append(batch(0))
        disk.fill_for(points)
        log.writer.roll()
        log.writer.append(batch(1))
        assert bases(log) == [0, 1]
        disk.fill(is_full=False)


def test_records_are_deleted_on_a_full_disk(path: Path) -> None:
    disk = FaultyDisk(path.parent)
    log = opened(path, disk, segment_bytes=3 * len(batch(0)))
    for offset in range(9):
        log.writer.append(batch(offset))
    disk.fill(is_full=True)
    assert log.writer.delete_records(4) == 4
    assert (log.start_offset, bases(log)) == (4, [3, 6])
    disk.fill(is_full=False)
    log.close()  # the new start is noted when there is room
    with opened(path) as log:
        assert log.start_offset == 4


@pytest.mark.parametrize("full_from", range(1, 40))
def test_a_truncation_on_a_full_disk_can_be_repeated(path: Path, full_from: int) -> None:
    disk = FaultyDisk(path.parent)
    producer = {"producer_id": 3, "producer_epoch": 0, "transactional": True}
    log = opened(path, disk, segment_bytes=250)
    for offset in range(8):
        data = batch(offset, leader_epoch=offset, base_sequence=offset, **producer)
        log.writer.append(data)
    disk.fill_in(full_from)
    try:
        log.writer.truncate_to(1)
        disk.fill(is_full=False)
    except DiskFullError:
        disk.fill(is_full=False)
        assert not [offset for offset in log.writer.snapshots if offset > log.end_offset]
        assert all(entry.start_offset <= log.end_offset for entry in log.writer.epochs)
        log.writer.truncate_to(1)
    assert (log.end_offset, log.writer.epochs) == (1, (EpochEntry(0, 0),))
    assert read_epochs(path / "leader-epoch-checkpoint") == [EpochEntry(0, 0)]
    assert log.writer.producers[3].last_offset == 0
    log.close()
