"""Compaction at its bounds: in time, and where the log is no longer the pass's own."""

import os
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from downconvert.storage import Log, LogConfig, LogDir, TopicPartition
from downconvert.storage.cleaning.cleanable import cleanable
from downconvert.storage.cleaning.compact_log import Compaction, InterruptedPassError, compact
from downconvert.storage.cleaning.retention import youngest
from downconvert.storage.indexes.offset_index import RELATIVE_MAX
from records.batches.builder import build, build_marker
from records.batches.control import ControlRecordType
from records.formats import V1, V2, TimestampType
from records.record import Record
from tests.downconvert.storage.logs import UNSYNCED, batch

CONFIG = LogConfig(segment_bytes=1000, index_interval_bytes=10_000, delete_retention_ms=1000)
PARTITION = TopicPartition("table", 0)
CHANGED = 100_000  # milliseconds: when segments were changed last


def put(log: Log, key: bytes, value: bytes | None, magic: int = V2) -> None:
    record = Record(log.end_offset, 5, TimestampType.CREATE, key, value)
    log.writer.append(build([record], magic=magic))


@pytest.mark.parametrize(("older", "stays"), [(999, True), (1000, False), (1001, False)])
def test_a_tombstone_of_v1_is_removed_when_its_segment_is_as_old_as_the_retention(
    tmp_path: Path, older: int, stays: bool
) -> None:
    with LogDir.open(tmp_path, writable=True, config=CONFIG, files=UNSYNCED) as log_dir:
        log = log_dir.logs.create(PARTITION)
        put(log, b"gone", None, V1)
        for number in range(6):
            put(log, b"%d" % number, bytes(400), V1)
        log.writer.roll()
        compact(log, CONFIG, now=CHANGED, files=UNSYNCED)
        assert b"gone" in {record.key for record in log.records()}
        first, *others, _ = log.segments
        assert others
        for segment in others:
            os.utime(segment.path(), (CHANGED / 1000, CHANGED / 1000))
        os.utime(first.path(), ((CHANGED - older) / 1000,) * 2)
        put(log, b"7", b"", V1)
        log.writer.roll()
        compact(log, CONFIG, now=CHANGED, files=UNSYNCED)
        assert (b"gone" in {record.key for record in log.records()}) is stays


def test_a_pass_that_is_closed_after_its_log_touches_no_file(tmp_path: Path) -> None:
    log_dir = LogDir.open(tmp_path, writable=True, config=CONFIG, files=UNSYNCED)
    log = log_dir.logs.create(PARTITION)
    for number in range(8):
        put(log, b"%d" % (number % 3), bytes(400))
    part = cleanable(log, CONFIG, CHANGED)
    with closing(Compaction(log, CONFIG, part, now=CHANGED)) as one:
        while not list(log.path.glob("*.cleaned")):
            assert one.step(1)
        log_dir.close()
        before = sorted(path.name for path in log.path.iterdir())
    assert sorted(path.name for path in log.path.iterdir()) == before


def test_an_aborted_transaction_is_not_noted_in_another_log_of_that_name(tmp_path: Path) -> None:
    """Its topic is deleted and made again while the pass reads the segment."""
    open_one = {"producer_id": 5, "producer_epoch": 0, "transactional": True}
    with LogDir.open(tmp_path, writable=True, config=CONFIG, files=UNSYNCED) as log_dir:
        log = log_dir.logs.create(PARTITION)
        log.writer.append(batch(0, base_sequence=0, **open_one))
        put(log, b"1", b"")
        log.writer.append(
            build_marker(
                ControlRecordType.ABORT,
                offset=2,
                timestamp=1,
                producer_id=5,
                producer_epoch=0,
                coordinator_epoch=0,
            )
        )
        log.writer.roll()
        part = cleanable(log, CONFIG, CHANGED)
        with closing(Compaction(log, CONFIG, part, now=CHANGED)) as one:
            while not list(log.path.glob("*.log.cleaned")):
                assert one.step(1)
            log_dir.logs.delete(PARTITION)
            log_dir.logs.create(PARTITION)
            before = sorted(path.name for path in log.path.iterdir())
            with pytest.raises(InterruptedPassError):
                one.step(CONFIG.segment_bytes)
        assert sorted(path.name for path in log.path.iterdir()) == before


def test_the_youngest_record_of_another_writers_log_is_read_from_headers(
    tmp_path: Path,
) -> None:
    """Its index may lack the latest records."""
    config = LogConfig(index_interval_bytes=500)
    with LogDir.open(tmp_path, writable=True, config=config, files=UNSYNCED) as log_dir:
        log = log_dir.logs.create(PARTITION)
        log.writer.append(batch(0, timestamp=10, size=600))
        log.writer.append(batch(1, timestamp=20))
        log.writer.append(batch(2, timestamp=30))
        with Log.open(log.path) as reader:
            assert reader.segments[-1].max_timestamp() == 20
            assert youngest(reader, reader.segments[-1]) == 30


@pytest.mark.parametrize(
    ("room", "expected"), [(-1, [0, 1, 2, 3, 4]), (0, [0, 2, 4]), (1, [0, 2, 4])]
)
def test_segments_that_just_fit_into_one_become_one(
    tmp_path: Path, room: int, expected: list[int]
) -> None:
    with LogDir.open(tmp_path, writable=True, config=CONFIG, files=UNSYNCED) as log_dir:
        log = log_dir.logs.create(PARTITION)
        for number in range(4):
            put(log, b"%d" % number, bytes(400))
            log.writer.roll()
        size = log.segments[0].size
        config = replace(CONFIG, segment_bytes=2 * size + room)
        compact(log, config, now=CHANGED, files=UNSYNCED)
        assert [segment.base_offset for segment in log.segments] == expected


@pytest.mark.parametrize(("more", "expected"), [(0, [0]), (1, [0, 1])])
def test_offsets_that_just_fit_into_one_segment_are_in_one(
    tmp_path: Path, more: int, expected: list[int]
) -> None:
    with LogDir.open(tmp_path, writable=True, config=CONFIG, files=UNSYNCED) as log_dir:
        log = log_dir.logs.create(PARTITION)
        put(log, b"first", b"")
        log.writer.roll()
        last = RELATIVE_MAX + more
        log.writer.append(build([Record(last, 5, TimestampType.CREATE, b"last", b"")], magic=V2))
        log.writer.roll()
        compact(log, CONFIG, now=CHANGED, files=UNSYNCED)
        assert [segment.base_offset for segment in log.segments] == [*expected, last + 1]
        assert [record.offset for record in log.records()] == [0, last]
