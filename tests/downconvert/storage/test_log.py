"""The log of a partition: reads, searches, and committed records."""

from pathlib import Path
from typing import Any

import pytest

from downconvert.storage import Log, LogConfig, OffsetOutOfRangeError
from downconvert.storage.checkpoints.checkpoint import write_offsets
from downconvert.storage.disk.files import DISK
from downconvert.storage.names import TopicPartition
from downconvert.storage.segments.segment import Segment
from records import CorruptRecordsError
from records.batches.builder import build_marker
from records.batches.control import ControlRecordType
from records.formats import V0, V1, V2, Codec

from .logs import UNSYNCED, batch, indexed_segment, offsets, segment


@pytest.fixture
def log(path: Path) -> Log:
    """Three segments: 10-19, 20-29 (of which 24-29 are gone), 30-34; batches of two records."""
    for base, last in ((10, 19), (20, 23), (30, 33)):
        indexed_segment(path, base, *(batch(n, n + 1) for n in range(base, last, 2)), interval=100)
    return Log.open(path)


def read_offsets_of(log: Log, offset: int, max_bytes: int = 10**6, **options: int) -> list[int]:
    found = log.read(offset, max_bytes, **options)
    return [o for h in found.batches() for o in range(h.base_offset, h.last_offset + 1)]


def test_a_log_has_a_start_and_an_end_offset(log: Log) -> None:
    assert (log.start_offset, log.end_offset) == (10, 34)
    assert log.topic_partition == TopicPartition("topic", 0)
    assert [made.base_offset for made in log.segments] == [10, 20, 30]


def test_a_read_returns_one_segments_batches_from_the_offset_on(log: Log) -> None:
    assert read_offsets_of(log, 10) == list(range(10, 20))
    assert read_offsets_of(log, 15) == list(range(14, 20))
    assert read_offsets_of(log, 19) == [18, 19]
    assert read_offsets_of(log, 31) == list(range(30, 34))


def test_a_read_from_a_gap_continues_in_the_next_segment(log: Log) -> None:
    assert read_offsets_of(log, 24) == read_offsets_of(log, 29) == list(range(30, 34))


def test_a_read_at_the_end_is_empty(log: Log) -> None:
    found = log.read(34, 1000)
    assert (found.size, list(found.batches())) == (0, [])
    send = found.to_send()
    assert send.completed


@pytest.mark.parametrize("offset", [9, 35, -1, 2**63 - 1])
def test_a_read_from_outside_is_an_error(log: Log, offset: int) -> None:
    with pytest.raises(OffsetOutOfRangeError, match="has 10 up to 34") as caught:
        log.read(offset, 1000)
    assert (caught.value.offset, caught.value.start, caught.value.end) == (offset, 10, 34)
    with pytest.raises(OffsetOutOfRangeError):
        log.records(offset)


def test_a_read_of_a_negative_size_is_a_value_error(log: Log) -> None:
    with pytest.raises(ValueError, match="-1 bytes"):
        log.read(10, -1)


def test_a_read_has_at_least_one_batch(log: Log) -> None:
    assert read_offsets_of(log, 12, 0) == [12, 13]
    assert read_offsets_of(log, 12, 1) == [12, 13]


@pytest.mark.parametrize(
    ("offset", "up_to", "found"),
    [
        (10, 14, [10, 11, 12, 13]),
        (10, 15, [10, 11, 12, 13]),
        (14, 14, []),
        (16, 14, []),
        (10, 25, list(range(10, 20))),
        (20, 32, [20, 21, 22, 23]),
        (24, 32, [30, 31]),
        (30, 100, [30, 31, 32, 33]),
    ],
)
def test_a_read_returns_nothing_at_or_above_its_bound(
    log: Log, offset: int, up_to: int, found: list[int]
) -> None:
    """A high watermark, or the last stable offset."""
    assert read_offsets_of(log, offset, up_to=up_to) == found


@pytest.mark.parametrize(
    ("offset", "up_to", "searched"), [(12, 34, 1), (12, 32, 1), (30, 34, 1), (30, 32, 2)]
)
def test_the_end_is_searched_only_if_the_bound_is_in_the_same_segment(
    log: Log, offset: int, up_to: int, searched: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[int] = []
    find = Segment.find

    def counted(self: Segment, offset: int, end: int) -> Any:
        found.append(offset)
        return find(self, offset, end)

    monkeypatch.setattr(Segment, "find", counted)
    log.read(offset, 1, up_to=up_to)
    assert len(found) == searched


def test_records_from_any_offset_on(log: Log) -> None:
    everything = [*range(10, 24), *range(30, 34)]
    assert offsets(log.records()) == everything
    for start in range(10, 35):
        assert offsets(log.records(start)) == [o for o in everything if o >= start]


def test_batches_come_with_the_range_that_they_are_in(log: Log) -> None:
    for records, header in log.batches(13):
        found = records.slice(header.position, header.size)
        assert next(found.batches()).base_offset == header.base_offset
    assert [header.base_offset for _, header in log.batches(13)] == [12, 14, 16, 18, 20, 22, 30, 32]


def test_no_batch_is_returned_twice_if_the_next_segment_is_deleted_meanwhile(
    log: Log, path: Path
) -> None:
    found: list[int] = []
    for _, header in log.batches():
        found.append(header.base_offset)
        if header.base_offset == 18:  # the last one of its segment
            for file in path.glob("*020.*"):
                file.unlink()
    assert found == [10, 12, 14, 16, 18, 30, 32]


def test_times_are_found_across_segments(log: Log) -> None:
    assert log.offset_for(0) == 10
    assert log.offset_for(151) == 16
    assert log.offset_for(231) == 30
    assert log.offset_for(330) == 33
    assert log.offset_for(331) is None


def test_a_log_starts_at_the_offset_in_the_checkpoint(log: Log, path: Path) -> None:
    starts = path.parent / "log-start-offset-checkpoint"
    write_offsets(DISK, starts, {TopicPartition("topic", 0): 13, TopicPartition("other", 0): 33})
    assert log.start_offset == 13
    assert offsets(log.records())[0] == 13
    assert log.offset_for(0) == 13
    with pytest.raises(OffsetOutOfRangeError):
        log.read(12, 1)
    starts.write_text("broken")  # as for a broker: the files say where
    assert log.start_offset == 10


def test_a_start_after_the_end_leaves_nothing(log: Log, path: Path) -> None:
    starts = path.parent / "log-start-offset-checkpoint"
    write_offsets(DISK, starts, {TopicPartition("topic", 0): 50})
    assert (log.start_offset, log.end_offset, list(log.records())) == (50, 50, [])


def test_a_directory_without_segments_is_an_empty_log(path: Path) -> None:
    log = Log.open(path)
    assert (log.start_offset, log.end_offset, list(log.records())) == (0, 0, [])
    assert log.offset_for(0) is None
    assert log.read(0, 100).size == 0


def test_a_missing_directory_is_an_os_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        Log.open(tmp_path / "none-0")


def test_a_log_for_reading_is_not_written_to(log: Log) -> None:
    with pytest.raises(ValueError, match="reading only"):
        log.writer.append(batch(34))


def test_all_good_records_come_before_the_damage(path: Path) -> None:
    data = bytearray(b"".join(batch(n) for n in range(5)))
    data[-3] ^= 1
    segment(path, 0, bytes(data))
    found = Log.open(path).records()
    assert [next(found).offset for _ in range(4)] == [0, 1, 2, 3]
    with pytest.raises(CorruptRecordsError, match="checksum") as caught:
        next(found)
    assert caught.value.position == len(data) // 5 * 4


def test_damage_at_the_end_ends_the_log_and_is_reported(path: Path) -> None:
    segment(path, 0, batch(0), b"x" * 100)
    log = Log.open(path)
    assert (log.end_offset, offsets(log.records())) == (1, [0])
    assert log.damage is not None
    assert log.damage.position == len(batch(0))


def test_damage_in_the_middle_comes_after_the_records_before_it(path: Path) -> None:
    segment(path, 0, batch(0), b"x" * 100)
    segment(path, 10, batch(10))
    log = Log.open(path)
    assert log.damage is None  # that would be the end
    found = log.records()
    assert next(found).offset == 0
    with pytest.raises(CorruptRecordsError, match=f"byte {len(batch(0))}"):
        next(found)


def test_formats_and_codecs_may_change_at_any_batch(path: Path) -> None:
    kinds = [(V0, Codec.GZIP), (V2, Codec.ZSTD), (V1, Codec.NONE), (V2, Codec.NONE)]
    batches = [
        batch(2 * n, 2 * n + 1, magic=magic, codec=codec)
        for n, (magic, codec) in enumerate(kinds * 3)
    ]
    segment(path, 0, *batches)
    assert offsets(Log.open(path).records()) == list(range(24))


# --- transactions


def transactional(*at: int, producer: int) -> bytes:
    options = {"producer_epoch": 0, "base_sequence": 0, "transactional": True}
    return batch(*at, producer_id=producer, **options)


def marker(at: int, producer: int, kind: ControlRecordType = ControlRecordType.ABORT) -> bytes:
    return build_marker(kind, offset=at, timestamp=0, producer_id=producer, producer_epoch=1)


COMMIT = ControlRecordType.COMMIT
STORY = [
    transactional(0, 1, producer=1),
    batch(2),
    transactional(3, producer=2),
    marker(4, producer=1),
    transactional(5, producer=1),
    marker(6, producer=2, kind=COMMIT),
    marker(7, producer=1, kind=COMMIT),
    transactional(8, producer=3),
    batch(9),
    transactional(10, producer=2),
    marker(11, producer=2),
    batch(12),
]


@pytest.mark.parametrize("written", [True, False])
def test_aborted_records_are_not_read_as_committed(path: Path, written: bool) -> None:
    """The same holds if a crash came before the transaction index was written."""
    if written:
        with Log.open(path, writable=True, files=UNSYNCED) as made:
            for data in STORY:
                made.writer.append(data)
    else:
        segment(path, 0, *STORY)
    log = Log.open(path)
    assert offsets(log.records()) == [0, 1, 2, 3, 5, 8, 9, 10, 12]
    assert log.last_stable_offset == 8
    assert offsets(log.records(isolation="read_committed")) == [2, 3, 5]
    assert offsets(log.records(1, isolation="read_committed")) == [2, 3, 5]
    found = [(t.producer_id, t.first_offset, t.last_offset) for t in log.aborted(0, 13)]
    assert found == [(1, 0, 4), (2, 10, 11)]


def test_an_open_transaction_that_ends_is_committed_from_then_on(path: Path) -> None:
    with Log.open(path, writable=True, files=UNSYNCED) as log:
        for data in STORY:
            log.writer.append(data)
        assert log.last_stable_offset == 8
        log.writer.append(marker(13, producer=3, kind=COMMIT))
        assert log.last_stable_offset == 14
        assert offsets(log.records(isolation="read_committed")) == [2, 3, 5, 8, 9, 12]


def test_an_unknown_isolation_is_a_value_error(log: Log) -> None:
    with pytest.raises(ValueError, match="read_anything"):
        log.records(isolation="read_anything")  # type: ignore[arg-type]


def test_transactions_across_segments(path: Path) -> None:
    config = LogConfig(segment_bytes=300)
    with Log.open(path, writable=True, config=config, files=UNSYNCED) as log:
        for data in STORY:
            log.writer.append(data)
        assert len(log.segments) > 3
        assert offsets(log.records(isolation="read_committed")) == [2, 3, 5]
    assert offsets(Log.open(path).records(isolation="read_committed")) == [2, 3, 5]


def test_reads_of_nothing_open_no_files(log: Log) -> None:
    first = log.read(34, 100)
    assert first.size == 0
    before = set(Path("/proc/self/fd").iterdir())
    found = [log.read(34, 100) for _ in range(50)]
    assert len(set(Path("/proc/self/fd").iterdir()) - before) <= 1  # of listing them
    found[0].close()
    assert log.read(34, 100).to_send().completed


def test_the_upper_bound_of_a_read_is_after_its_records_and_close_to_them(log: Log) -> None:
    for offset in range(10, 34):
        for size in (1, 150, 250, 10**6):
            found = log.read(offset, size)
            last = max(header.last_offset for header in found.batches())
            assert last < log.upper_bound(found) <= last + 9


def test_the_last_stable_offset_is_never_below_the_start(path: Path) -> None:
    producer = {"producer_id": 3, "producer_epoch": 0}
    with Log.open(path, writable=True, files=UNSYNCED) as log:
        log.writer.append(batch(0, base_sequence=0, transactional=True, **producer))
        log.writer.append(batch(1, 2) + batch(3))
        assert log.last_stable_offset == 0
        log.writer.delete_records(3)
        assert (log.last_stable_offset, log.look(stable=True)) == (3, (3, 4, 3))
