"""Fetch sessions: both sides in step, and no more of them than there is room for.

Not here: the same requests to Kafka's (test_differential.py)."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from downconvert.broker import Broker
from downconvert.broker.fetch.fetch_session import IDLE_MAX, FetchSessions, asked_in
from downconvert.protocol.errors import ErrorCode
from downconvert.protocol.schemas import ApiKey, Message
from tests.downconvert.broker.asking import answer, ask, begin
from tests.downconvert.broker.fetching import broker_of, request
from tests.downconvert.storage.logs import batch

ENDS = {"a": 2, "b": 1, "c": 1}
SINCE = (7, 11, 12)  # versions in which topics have names


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    segments = {"a": {0: [batch(0), batch(1)]}, "b": {0: [batch(0)]}, "c": {0: [batch(0)]}}
    with broker_of(tmp_path, segments, fetch_session_slots=3) as one:
        yield one


class Follower:
    """One side of a session."""

    def __init__(self, broker: Broker, version: int = 11) -> None:
        self.broker = broker
        self.version = version
        self.id = self.epoch = 0

    def ask(self, offsets: dict[str, int] | None = None, **fields: Any) -> Message:
        fields = {"session_id": self.id, "session_epoch": self.epoch} | fields
        now = fields.pop("now", 0.0)
        body = request(self.broker, offsets or {}, **fields)
        response = ask(self.broker, ApiKey.Fetch, self.version, body, now=now)
        if response.error_code == ErrorCode.NONE:
            self.id, self.epoch = response.session_id, self.epoch + 1
        return response


def told(response: Message) -> list[str]:
    return [topic.topic for topic in response.responses]


@pytest.mark.parametrize("version", SINCE)
def test_only_what_is_new_is_told(version: int, broker: Broker) -> None:
    one = Follower(broker, version)
    assert told(one.ask(dict.fromkeys(ENDS, 0))) == ["a", "b", "c"]
    assert one.id > 0
    assert told(one.ask(ENDS)) == []
    assert told(one.ask({"b": 0})) == ["b"]


def test_partitions_with_records_are_read_last_the_next_time(broker: Broker) -> None:
    one = Follower(broker)
    one.ask(dict.fromkeys(ENDS, 0))
    assert told(one.ask({"b": 1, "c": 1})) == ["a"]
    assert told(one.ask({"b": 0, "c": 0})) == ["b", "c", "a"]


def test_an_error_is_told_until_it_is_over(broker: Broker) -> None:
    one = Follower(broker)
    one.ask(ENDS | {"a": 99})
    assert [topic.partitions[0].error_code for topic in one.ask().responses] == [1]
    assert told(one.ask({"a": 2})) == ["a"], "the high watermark is right again"
    assert told(one.ask()) == []


def test_forgotten_partitions_are_not_told_any_more(broker: Broker) -> None:
    one = Follower(broker)
    one.ask(dict.fromkeys(ENDS, 0))
    forgotten = [Message(topic="a", partitions=[0]), Message(topic="x", partitions=[9])]
    assert told(one.ask(forgotten_topics_data=forgotten)) == ["b", "c"]
    all_others = [Message(topic=name, partitions=[0]) for name in "bc"]
    assert one.ask(forgotten_topics_data=all_others).session_id == 0
    assert len(broker.fetch_sessions) == broker.fetch_sessions.partitions == 0


def test_who_is_out_of_step_is_told_so(broker: Broker) -> None:
    one = Follower(broker)
    one.ask(ENDS)
    wrong = one.ask(session_epoch=7)
    assert wrong.error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH
    nobody = one.ask(session_id=one.id ^ 1)
    assert nobody.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    one.version = 13
    by_ids = one.ask()
    assert by_ids.error_code == ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR


def test_a_request_for_all_ends_the_session_before(broker: Broker) -> None:
    one = Follower(broker)
    one.ask(ENDS)
    first = one.id
    one.ask(ENDS, session_epoch=0)
    assert one.id != first
    assert len(broker.fetch_sessions) == 1
    assert one.ask(ENDS, session_epoch=-1).session_id == 0
    assert len(broker.fetch_sessions) == 0


def test_a_request_that_waited_while_the_session_went_on_is_refused(broker: Broker) -> None:
    one = Follower(broker)
    one.ask(ENDS)
    body = request(broker, {}, session_id=one.id, session_epoch=1, max_wait_ms=500, min_bytes=1)
    waiting = begin(broker, ApiKey.Fetch, 11, body, now=0.0)
    assert not waiting.is_done
    one.epoch = 2
    one.ask({"a": 0})
    broker.tick(1.0)
    assert answer(waiting).error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH


def test_a_request_that_waits_while_its_client_begins_a_new_session_is_out_of_step(
    broker: Broker,
) -> None:
    one = Follower(broker)
    one.ask(ENDS)
    body = request(broker, {}, session_id=one.id, session_epoch=1, max_wait_ms=500, min_bytes=1)
    waiting = begin(broker, ApiKey.Fetch, 11, body, now=0.0)
    assert not waiting.is_done
    one.epoch = 0
    one.ask(ENDS)
    broker.tick(1.0)
    assert answer(waiting).error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH


def test_there_are_no_more_sessions_than_slots(broker: Broker) -> None:
    ids = [Follower(broker).ask(ENDS).session_id for _ in range(4)]
    assert [bool(id_) for id_ in ids] == [True, True, True, False]
    assert Follower(broker).ask(ENDS, now=IDLE_MAX + 1).session_id, "the oldest was idle"
    assert len(broker.fetch_sessions) == 3


def test_a_follower_takes_the_place_of_a_consumer() -> None:
    sessions = FetchSessions(1)
    body = Message(
        topics=[
            Message(
                topic="a",
                partitions=[
                    Message(
                        partition=0,
                        fetch_offset=0,
                        partition_max_bytes=1,
                        current_leader_epoch=-1,
                        last_fetched_epoch=-1,
                        log_start_offset=-1,
                    )
                ],
            )
        ],
        session_id=0,
        session_epoch=0,
    )

    def created(*, is_follower: bool) -> int:
        context = sessions.begin(11, body, 0.0, is_follower=is_follower)
        result = Message(key=("a", 0), high_watermark=0, records=b"")
        return int(context.answer([result], 0.0).session_id)

    assert created(is_follower=False)
    assert not created(is_follower=False)
    assert created(is_follower=True)
    assert not created(is_follower=True)


def test_sessions_hold_no_more_partitions_than_there_is_room_for(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("downconvert.broker.fetch.fetch_session.PARTITIONS_MAX", 4)
    one = Follower(broker)
    one.ask(ENDS)
    assert Follower(broker).ask(ENDS).session_id == 0
    grown = one.ask({"x": 0, "y": 0})
    assert grown.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert broker.fetch_sessions.partitions == 0


def test_epochs_begin_again_behind_the_last(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("downconvert.broker.fetch.fetch_session.EPOCH_MAX", 2)
    one = Follower(broker)
    one.ask(ENDS)
    one.ask()
    one.ask()
    one.epoch = 1
    assert one.ask().error_code == ErrorCode.NONE


def test_a_partition_that_is_named_twice_counts_as_it_was_named_last() -> None:
    def one(max_bytes: int) -> Message:
        return Message(
            partition=0,
            fetch_offset=max_bytes,
            partition_max_bytes=max_bytes,
            current_leader_epoch=-1,
            last_fetched_epoch=-1,
            log_start_offset=-1,
        )

    topic = Message(topic="t", topic_id=bytes(16), partitions=[one(5), one(-7)])
    for version, name in ((12, "t"), (13, bytes(16))):
        (found,) = asked_in(version, [topic]).values()
        # A negative number of bytes is none.
        assert (found.topic, found.offset, found.max_bytes) == (name, -7, 0)
