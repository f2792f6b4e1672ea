"""Settings of topics take effect while a broker runs, and what that does to logs is in its log."""

import logging
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from downconvert.broker import Broker
from downconvert.broker.operating.maintenance import Maintenance
from downconvert.broker.topics import OFFSETS_TOPIC
from downconvert.storage import Log, LogConfig
from downconvert.storage.checkpoints.metadata import write_topic_id
from records.batches.builder import build
from records.formats import V2, TimestampType
from records.record import Record
from tests.downconvert.broker.offset_logs import commit_to, offsets_log
from tests.downconvert.broker.talking import serving_broker
from tests.downconvert.broker.writable import writable_broker
from tests.downconvert.storage.logs import UNSYNCED, batch, offsets

SMALL = {"segment.bytes": str(len(batch(0)))}
LATER = 10.0**9  # seconds: more than any limit after the records of these tests


@contextmanager
def broker_with(path: Path, own: dict[str, str], **config: Any) -> Iterator[tuple[Broker, Log]]:
    """A broker, and the log of a topic of ten segments with one batch of ten keys, by turns."""
    with writable_broker(path, **config) as broker:
        topic = broker.topics.create("t", 1, {**SMALL, **own}, 0)
        fill(topic.partitions[0].log)
        yield broker, topic.partitions[0].log


def fill(log: Log, count: int = 10, keys: int = 2) -> None:
    for _ in range(count):
        offset = log.end_offset
        key = b"%d" % (offset % keys)
        record = Record(offset, 10 * offset, TimestampType.CREATE, key, b"0123")
        log.writer.append(build([record], magic=V2), 10 * offset)


def go_round(maintenance: Maintenance, now: float) -> None:
    """Does the work that is due at that time."""
    for _ in range(10_000):
        if maintenance.step(now) > 10:
            return
    raise AssertionError("it does not come to an end")


def run(broker: Broker, now: float) -> None:
    with closing(Maintenance(broker)) as maintenance:
        go_round(maintenance, now)


def test_segments_are_as_large_as_the_topic_says_and_as_it_says_later(tmp_path: Path) -> None:
    with broker_with(tmp_path, {}) as (broker, log):
        assert len(log.segments) == 10
        broker.topics.configure("t", {"segment.bytes": "1000000"})
        fill(log)
        assert len(log.segments) == 10
    with writable_broker(tmp_path) as broker:
        log = broker.topics["t"].partitions[0].log
        broker.topics.configure("t", SMALL)
        fill(log, 3)
        assert len(log.segments) == 13
    with writable_broker(tmp_path) as broker:  # as it was kept
        log = broker.topics["t"].partitions[0].log
        fill(log, 3)
        assert len(log.segments) == 16


def test_old_records_go_and_the_log_says_which(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with broker_with(tmp_path, {"retention.ms": "50"}) as (broker, log):
        caplog.set_level(logging.INFO, logger="downconvert.broker")
        run(broker, now=0.100)
        assert (log.start_offset, log.end_offset) == (5, 10)
        assert "t-0: 5 segments of " in caplog.text
        assert " removed, up to offset 5 (retention.ms=50)" in caplog.text
        broker.topics.configure("t", {"retention.bytes": SMALL["segment.bytes"]})
        with closing(Maintenance(broker)) as maintenance:
            go_round(maintenance, now=0.100)
            registry = broker.metrics.registry
            assert registry.get_sample_value("downconvert_broker_removed_segments_total") == 3
        assert log.start_offset == 8


def test_a_compacted_topic_keeps_the_last_record_of_each_key(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    own = {"cleanup.policy": "compact", "retention.ms": "1"}
    with broker_with(tmp_path, own) as (broker, log):
        caplog.set_level(logging.INFO, logger="downconvert.broker")
        run(broker, now=0.100)
        assert offsets(log.records()) == [7, 8, 9]
        assert "t-0: cleaned up to offset 9, 9 records to 2, " in caplog.text


def test_a_segment_is_rolled_by_age_without_an_append(tmp_path: Path) -> None:
    with broker_with(tmp_path, {"segment.ms": "1000"}) as (broker, log):
        run(broker, now=1.0)
        assert len(log.segments) == 10
        run(broker, now=2.0)
        assert [segment.base_offset for segment in log.segments][-2:] == [9, 10]


def test_nothing_goes_from_a_topic_whose_settings_nobody_knows(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A directory of another broker: whether its topics were to be kept is not written there."""
    with broker_with(tmp_path, {}):
        pass
    (tmp_path / "topic-configs.json").unlink()
    (tmp_path / "t-0" / "partition.metadata").unlink()
    write_topic_id(UNSYNCED, tmp_path / "t-0", uuid4())
    small = LogConfig(segment_bytes=int(SMALL["segment.bytes"]))
    with writable_broker(tmp_path, log_config=small) as broker:
        log = broker.topics["t"].partitions[0].log
        with closing(Maintenance(broker)) as maintenance:
            go_round(maintenance, now=LATER)
            go_round(maintenance, now=2 * LATER)
        assert log.start_offset == 0
        assert caplog.text.count("t was not created here") == 1
        broker.topics.configure("t", {"retention.ms": "1000"})
        run(broker, now=LATER)
        assert log.start_offset == 10


def test_committed_offsets_are_compacted_and_never_deleted(tmp_path: Path) -> None:
    small = {"segment.bytes": "500", "min.cleanable.dirty.ratio": "0.1"}
    with writable_broker(tmp_path, "t") as broker:
        broker.topics.create(OFFSETS_TOPIC, 1, small, 0)
        log = offsets_log(broker)
        for offset in range(100):
            commit_to(log, offset, group=f"g{offset % 3}")
        run(broker, now=LATER)
        run(broker, now=LATER)
        found = {record.key: record.offset for record in log.records()}
        assert sorted(found.values()) == [97, 98, 99]
        assert len(offsets(log.records())) < 15


def test_producers_that_are_silent_for_long_are_forgotten(tmp_path: Path) -> None:
    with writable_broker(tmp_path, "t", producer_id_expiration_ms=1000) as broker:
        log = broker.topics["t"].partitions[0].log
        for producer, transactional in ((1, False), (2, True), (3, False)):
            options = {"producer_id": producer, "producer_epoch": 0, "base_sequence": 0}
            time_ms = 500 * producer
            data = batch(log.end_offset, timestamp=time_ms, transactional=transactional, **options)
            log.writer.append(data)
        run(broker, now=1.5)
        assert set(log.writer.producers) == {2, 3}
        run(broker, now=2.6)
        assert set(log.writer.producers) == {2}  # whose transaction is open


def test_a_log_that_cannot_be_cleaned_is_left_alone_and_the_others_are_not(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    own = {"cleanup.policy": "compact"}
    with broker_with(tmp_path, own) as (broker, log):
        fill(broker.topics.create("u", 1, {**SMALL, **own}, 0).partitions[0].log)
        with log.segments[2].path().open("r+b") as file:
            file.seek(16)
            file.write(b"\x09")
        with closing(Maintenance(broker)) as maintenance:
            go_round(maintenance, now=1.0)
            go_round(maintenance, now=LATER)
            registry = broker.metrics.registry
            assert registry.get_sample_value("downconvert_broker_uncleanable_partitions") == 1
        assert caplog.text.count("t-0 is not cleaned any more: ") == 1
        assert len(offsets(broker.topics["u"].partitions[0].log.records())) == 3


def test_the_cleaner_pauses_in_proportion_to_the_bytes_it_reads(tmp_path: Path) -> None:
    own, rate = {"cleanup.policy": "compact"}, 1024
    with broker_with(tmp_path, own, log_cleaner_io_max_bytes_per_second=rate) as (broker, _):
        maintenance = Maintenance(broker)
        rests = [maintenance.step(1.0) for _ in range(4)]
        assert max(rests) == 256 * 1024 / rate


def test_a_server_that_writes_looks_after_its_logs(tmp_path: Path) -> None:
    own = {"retention.ms": "1"}
    config = {"log_initial_task_delay_ms": 1, "log_retention_check_interval_ms": 10}
    with broker_with(tmp_path, own, **config) as (broker, log), serving_broker(broker):
        give_up = time.monotonic() + 60
        while broker.topics["t"].partitions[0].start_offset < 10:
            assert time.monotonic() < give_up
            time.sleep(0.01)
    assert log.end_offset == 10


def test_a_pass_of_the_cleaner_that_is_abandoned_leaves_no_unfinished_file(tmp_path: Path) -> None:
    with writable_broker(tmp_path) as broker:
        own = {"cleanup.policy": "compact", "segment.bytes": "300000"}
        log = broker.topics.create("t", 1, own, 0).partitions[0].log
        for offset in range(6):
            record = Record(offset, 0, TimestampType.CREATE, b"%d" % offset, bytes(200_000))
            log.writer.append(build([record], magic=V2), 0)
        maintenance = Maintenance(broker)
        while not (left := list(log.path.glob("*.cleaned"))):
            assert maintenance.step(1.0) < 10, "the pass is over"
        maintenance.close()  # the object still exists, so no destructor has removed the file
        assert [path for path in left if path.exists()] == []
        assert len(offsets(log.records())) == 6
