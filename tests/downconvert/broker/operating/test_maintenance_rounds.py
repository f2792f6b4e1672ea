"""When maintenance works, on which logs, and what it leaves alone."""

import logging
import threading
import time
from contextlib import closing
from pathlib import Path
from typing import Any
from uuid import UUID, uuid5

import pytest

from downconvert.broker import Broker
from downconvert.broker.operating import maintenance
from downconvert.broker.operating.maintenance import (
    METADATA,
    SLEEP_MIN,
    Maintenance,
    MaintenanceThread,
    is_known,
    log_config,
)
from downconvert.broker.topics import OFFSETS_TOPIC, Topic
from downconvert.storage import Log, LogConfig
from downconvert.storage.names import CLEAN_SHUTDOWN
from records.units import KiB, MiB
from tests.downconvert.broker.late_lock import Late
from tests.downconvert.broker.writable import writable_broker
from tests.downconvert.storage.logs import batch, offsets

from .test_maintenance import LATER, SMALL, broker_with, fill, go_round, run

OURS = uuid5(UUID(int=7), "t").bytes
THEIRS = UUID(int=7, version=4).bytes
COMPACTED = {"cleanup.policy": "compact"}
UNCLEANABLE = "downconvert_broker_uncleanable_partitions"


def value(broker: Broker, name: str) -> float | None:
    return broker.metrics.registry.get_sample_value(name)


def damage(log: Log) -> bytes:
    """A batch of another format in the third segment. Returns what was there."""
    path = log.segments[2].path()
    whole = path.read_bytes()
    path.write_bytes(whole[:16] + b"\x09" + whole[17:])
    return whole


@pytest.mark.parametrize(
    ("name", "topic_id", "config", "known"),
    [
        ("t", OURS, {}, True),
        ("t", THEIRS, {}, False),
        ("t", THEIRS, {"segment.bytes": "1000"}, False),
        ("t", THEIRS, {"cleanup.policy": "delete"}, True),
        ("t", THEIRS, {"retention.ms": "1"}, True),
        ("t", THEIRS, {"retention.bytes": "1"}, True),
        (OFFSETS_TOPIC, THEIRS, {}, True),
        (METADATA, OURS, {"retention.ms": "1"}, False),
    ],
)
def test_data_is_removed_only_where_the_settings_of_its_topic_are_known(
    name: str, topic_id: bytes, config: dict[str, str], known: bool
) -> None:
    assert is_known(Topic(name, topic_id, config=config)) is known


def test_an_internal_topic_is_compacted_unless_its_own_settings_say_otherwise() -> None:
    defaults = LogConfig(segment_bytes=5_000)
    internal = log_config(Topic(OFFSETS_TOPIC, OURS), defaults)
    assert (internal.cleanup_policy, internal.segment_bytes) == ({"compact"}, 100 * MiB)
    own = {"segment.bytes": "1000", "cleanup.policy": "delete"}
    configured = log_config(Topic(OFFSETS_TOPIC, OURS, config=own), defaults)
    assert (configured.cleanup_policy, configured.segment_bytes) == ({"delete"}, 1000)
    other = log_config(Topic("t", OURS), defaults)
    assert (other.cleanup_policy, other.segment_bytes) == ({"delete"}, 5_000)


def test_rounds_begin_after_each_interval_and_when_the_clock_was_set_back(tmp_path: Path) -> None:
    with (
        writable_broker(tmp_path, "t", log_retention_check_interval_ms=300_000) as broker,
        closing(Maintenance(broker)) as work,
    ):
        for now in (1000.0, 1300.0, 10.0):  # a round, and the only log's turn in it
            assert [work.step(now) for _ in range(2)] == [SLEEP_MIN, SLEEP_MIN]
            assert work.step(now + 100) == 200.0


def test_producers_expire_at_intervals_of_their_own(tmp_path: Path) -> None:
    config = {
        "log_retention_check_interval_ms": 1_000,
        "producer_id_expiration_check_interval_ms": 10_000,
        "producer_id_expiration_ms": 1_000,
    }
    with writable_broker(tmp_path, "t", **config) as broker, closing(Maintenance(broker)) as work:
        log = broker.topics["t"].partitions[0].log

        def left(now: float) -> int:
            while work.step(now) <= SLEEP_MIN:
                pass
            return len(log.writer.producers)

        def produce(time_ms: int) -> None:
            options = {"producer_id": 1, "producer_epoch": 0, "base_sequence": log.end_offset}
            log.writer.append(batch(log.end_offset, timestamp=time_ms, **options))

        produce(0)
        assert [left(now) for now in (0.5, 5.0, 10.0, 11.0)] == [1, 1, 1, 0]
        assert left(1000.0) == 0
        produce(0)
        assert left(1002.0) == 1
        assert left(5.0) == 0, "the clock was set back"


def test_nothing_is_removed_above_the_high_watermark(tmp_path: Path) -> None:
    with broker_with(tmp_path, {"retention.ms": "50"}) as (broker, log):
        broker.topics["t"].partitions[0].committed_end = 3
        run(broker, now=0.100)
        assert log.start_offset == 3


def test_a_topic_that_is_made_again_begins_anew(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with (
        broker_with(tmp_path, COMPACTED) as (broker, log),
        closing(Maintenance(broker)) as work,
    ):
        damage(log)
        go_round(work, now=1.0)
        assert value(broker, UNCLEANABLE) == 1
        work.step(1000.0)  # a round begins, and then:
        broker.topics.delete("t")
        other = broker.topics.create("t", 1, SMALL | COMPACTED, 0).partitions[0].log
        fill(other)
        go_round(work, now=1000.0)
        assert len(offsets(other.records())) == 10
        go_round(work, now=2000.0)
        assert value(broker, UNCLEANABLE) == 0
        assert offsets(other.records()) == [7, 8, 9]
    assert caplog.text.count("is not cleaned any more") == 1


@pytest.mark.parametrize("step", [1, 2])  # producers are expired, records are removed
def test_a_topic_that_is_deleted_before_its_turn_is_no_failure(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, step: int
) -> None:
    with broker_with(tmp_path, {"retention.ms": "50"}):
        pass
    (tmp_path / CLEAN_SHUTDOWN).touch()
    for snapshot in tmp_path.glob("t-0/*.snapshot"):  # as an old broker leaves it
        snapshot.unlink()
    with writable_broker(tmp_path) as broker:
        partition = broker.topics["t"].partitions[0]
        lock: Any = Late(partition.lock, step, lambda: broker.topics.delete("t"))
        partition.lock = lock
        with caplog.at_level(logging.WARNING, "downconvert"):
            run(broker, LATER)
        assert "t" not in broker.topics
        assert [record.getMessage() for record in caplog.records] == []


def test_a_log_that_could_not_be_cleaned_waits_for_a_restart(tmp_path: Path) -> None:
    with broker_with(tmp_path, COMPACTED) as (broker, log):
        whole = damage(log)
        with closing(Maintenance(broker)) as work:
            go_round(work, now=1.0)
            log.segments[2].path().write_bytes(whole)
            go_round(work, now=1000.0)
            assert len(offsets(log.records())) == 10
        run(broker, now=2000.0)
        assert offsets(log.records()) == [7, 8, 9]


def test_bytes_that_the_cleaner_reads_and_writes_are_counted(tmp_path: Path) -> None:
    with broker_with(tmp_path, COMPACTED) as (broker, log), closing(Maintenance(broker)) as work:

        def inactive() -> int:
            return sum(segment.path().stat().st_size for segment in list(log.segments)[:-1])

        before = inactive()
        go_round(work, now=1.0)
        assert value(broker, "downconvert_broker_cleaner_read_bytes_total") == before
        assert value(broker, "downconvert_broker_cleaner_written_bytes_total") == inactive()
        assert inactive() < before


def test_the_log_of_a_controller_is_left_alone_without_a_word(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with broker_with(tmp_path, {}):
        pass
    (tmp_path / "topic-configs.json").unlink()
    (tmp_path / "t-0").rename(tmp_path / f"{METADATA}-0")
    with writable_broker(tmp_path) as broker:
        run(broker, now=10.0**9)
        assert broker.topics[METADATA].partitions[0].log.start_offset == 0
    assert "was not created here" not in caplog.text


def test_a_thread_that_was_not_started_can_be_stopped(tmp_path: Path) -> None:
    with writable_broker(tmp_path, "t") as broker:
        before = set(threading.enumerate())
        MaintenanceThread(broker).stop()
        assert set(threading.enumerate()) <= before  # those of earlier tests may have ended


def test_a_defect_is_logged_and_the_thread_continues_after_a_pause(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(maintenance, "AFTER_DEFECT", 0.05)
    calls: list[float] = []

    def clock() -> float:
        calls.append(time.monotonic())
        raise ValueError("a clock that fails")

    with writable_broker(tmp_path, "t", log_initial_task_delay_ms=0) as broker:
        thread = MaintenanceThread(broker, clock)
        caplog.set_level(logging.ERROR)
        thread.start()
        give_up = time.monotonic() + 30
        while len(calls) < 3 and time.monotonic() < give_up:
            time.sleep(0.01)
        thread.stop()
    assert "a defect in the maintenance of logs" in caplog.text
    assert calls[2] - calls[0] >= 0.09


def test_maintenance_without_reads_is_not_slowed_down(tmp_path: Path) -> None:
    rate = 64 * KiB
    own = {"retention.ms": "50"}
    with (
        broker_with(tmp_path, own, log_cleaner_io_max_bytes_per_second=rate) as (broker, log),
        closing(Maintenance(broker)) as work,
    ):
        assert [work.step(0.1) for _ in range(3)] == [SLEEP_MIN] * 3
        assert log.start_offset == 5
