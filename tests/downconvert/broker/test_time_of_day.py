"""Written times follow the system's clock when it is set, and deadlines do not."""

import time
from pathlib import Path

import pytest

from downconvert.broker.time_of_day import TimeOfDay
from downconvert.internal_topics.group_records import NO_TIME
from downconvert.protocol.schemas import ApiKey, Message
from records import Record, TimestampType, build
from records.formats import V2

from .asking import ask
from .offset_logs import offsets_log
from .talking import serving_broker
from .writable import writable_broker

NOW, HOUR = 1_700_000_000.0, 3600.0


def test_the_time_of_day_may_be_before_or_after_the_brokers_clock() -> None:
    day = TimeOfDay()
    assert (day.at(NOW), day.ms(NOW)) == (NOW, NOW * 1000)
    day.shift = -HOUR
    assert (day.at(NOW), day.ms(NOW)) == (NOW - HOUR, (NOW - HOUR) * 1000)


def test_appends_and_commits_have_the_time_of_day(tmp_path: Path) -> None:
    with writable_broker(tmp_path) as broker:
        broker.topics.create("t", 1, {"message.timestamp.type": "LogAppendTime"}, 0)
        broker.time_of_day.shift = HOUR
        data = build([Record(0, 1, TimestampType.CREATE, None, b"v")], magic=V2)
        partitions = [Message(index=0, records=data)]
        topics = [Message(name="t", partition_data=partitions)]
        ask(broker, ApiKey.Produce, 7, Message(acks=1, timeout_ms=0, topic_data=topics), now=NOW)
        (record,) = broker.topics["t"].partitions[0].log.records()
        assert record.timestamp == (NOW + HOUR) * 1000
        at = Message(
            partition_index=0, committed_offset=1, committed_metadata="", commit_timestamp=NO_TIME
        )
        topics = [Message(name="t", partitions=[at])]
        body = Message(
            group_id="g",
            generation_id_or_member_epoch=-1,
            member_id="",
            retention_time_ms=-1,
            topics=topics,
        )
        ask(broker, ApiKey.OffsetCommit, 2, body, now=NOW)
        (committed,) = offsets_log(broker).records()
        assert committed.timestamp == (NOW + HOUR) * 1000
        # An hour's step brings what was committed no nearer to its end.
        broker.groups.manager.expire(NOW + broker.config.offsets_retention_minutes * 60 - 1)
        assert offsets_log(broker).end_offset == 1
        broker.groups.manager.expire(NOW + broker.config.offsets_retention_minutes * 60)
        assert offsets_log(broker).end_offset > 1


def test_a_server_finds_out_that_the_clock_was_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with writable_broker(tmp_path, "t") as broker, serving_broker(broker) as server:
        before, real = server.clock(), time.time
        monkeypatch.setattr(time, "time", lambda: real() + HOUR)
        give_up = time.monotonic() + 60
        while abs(broker.time_of_day.shift - HOUR) > 1:
            assert time.monotonic() < give_up
            time.sleep(0.01)
        assert server.clock() - before < HOUR
