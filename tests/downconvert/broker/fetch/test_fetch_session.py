"""Fetch sessions: both sides in step, and no more of them than there is room for.

Not here: the same requests to Kafka's (test_differential.py)."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from downconvert.broker import Broker
from downconvert.broker.fetch.fetch_session import FetchSessions, asked_in
from downconvert.broker.fetch.session import IDLE_MAX, Asked, Cached, Session
from downconvert.protocol.errors import ErrorCode
from downconvert.protocol.schemas import ApiKey, Message
from tests.downconvert.broker.asking import ask, begin, frame, response_of
from tests.downconvert.broker.fetching import broker_of, request
from tests.downconvert.broker.writable import writable_broker
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


def topics_in(response: Message) -> list[str]:
    return [topic.topic for topic in response.responses]


@pytest.mark.parametrize("version", SINCE)
def test_only_partitions_with_news_are_in_the_response(version: int, broker: Broker) -> None:
    one = Follower(broker, version)
    assert topics_in(one.ask(dict.fromkeys(ENDS, 0))) == ["a", "b", "c"]
    assert one.id > 0
    assert topics_in(one.ask(ENDS)) == []
    assert topics_in(one.ask({"b": 0})) == ["b"]


def test_partitions_with_records_are_read_last_the_next_time(broker: Broker) -> None:
    one = Follower(broker)
    one.ask(dict.fromkeys(ENDS, 0))
    assert topics_in(one.ask({"b": 1, "c": 1})) == ["a"]
    assert topics_in(one.ask({"b": 0, "c": 0})) == ["b", "c", "a"]


def test_an_error_is_told_until_it_is_over(broker: Broker) -> None:
    one = Follower(broker)
    one.ask(ENDS | {"a": 99})
    assert [topic.partitions[0].error_code for topic in one.ask().responses] == [1]
    assert topics_in(one.ask({"a": 2})) == ["a"], "the high watermark is right again"
    assert topics_in(one.ask()) == []


def test_forgotten_partitions_are_not_told_any_more(broker: Broker) -> None:
    one = Follower(broker)
    one.ask(dict.fromkeys(ENDS, 0))
    forgotten = [Message(topic="a", partitions=[0]), Message(topic="x", partitions=[9])]
    assert topics_in(one.ask(forgotten_topics_data=forgotten)) == ["b", "c"]
    all_others = [Message(topic=name, partitions=[0]) for name in "bc"]
    assert one.ask(forgotten_topics_data=all_others).session_id == 0
    assert len(broker.fetch_sessions) == broker.fetch_sessions.partitions == 0


def test_a_fetch_that_forgets_all_partitions_ends_the_session_and_reads_what_it_names(
    broker: Broker,
) -> None:
    one = Follower(broker)
    one.ask({"a": 2})
    response = one.ask({"a": 0}, forgotten_topics_data=[Message(topic="a", partitions=[0])])
    assert topics_in(response) == ["a"]
    assert response.responses[0].partitions[0].records
    assert response.session_id == len(broker.fetch_sessions) == 0


def test_a_client_with_the_wrong_session_epoch_gets_an_error(broker: Broker) -> None:
    one = Follower(broker)
    one.ask(ENDS)
    wrong = one.ask(session_epoch=7)
    assert wrong.error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH
    nobody = one.ask(session_id=one.id ^ 1)
    assert nobody.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    one.version = 13
    by_ids = one.ask()
    assert by_ids.error_code == ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR


@pytest.mark.parametrize("version", [7, 11])
def test_an_older_version_is_refused_where_its_response_cannot_say_that_logs_diverge(
    version: int, tmp_path: Path
) -> None:
    """As by Kafka. The session goes on."""
    with writable_broker(tmp_path, "a") as broker:
        one = Follower(broker, 12)
        began = one.ask({"a": 1}, last_fetched_epoch=0)
        assert began.responses[0].partitions[0].diverging_epoch.end_offset == 0
        one.version = version
        refused = one.ask()
        assert refused.error_code == ErrorCode.UNSUPPORTED_VERSION
        assert (refused.session_id, refused.responses) == (one.id, [])
        one.version, one.epoch = 12, 2
        assert topics_in(one.ask()) == ["a"]


def test_a_request_for_all_ends_the_session_before(broker: Broker) -> None:
    one = Follower(broker)
    one.ask(ENDS)
    first = one.id
    one.ask(ENDS, session_epoch=0)
    assert one.id != first
    assert len(broker.fetch_sessions) == 1
    assert one.ask(ENDS, session_epoch=-1).session_id == 0
    assert len(broker.fetch_sessions) == 0


@pytest.mark.parametrize(("epoch", "ends"), [(2, {"a": 0}), (0, ENDS)])  # goes on, begins anew
def test_a_request_that_waits_while_its_client_asks_again_is_refused(
    broker: Broker, epoch: int, ends: dict[str, int]
) -> None:
    one = Follower(broker)
    one.ask(ENDS)
    body = request(broker, {}, session_id=one.id, session_epoch=1, max_wait_ms=500, min_bytes=1)
    waiting = begin(broker, ApiKey.Fetch, 11, body, now=0.0)
    assert not waiting.is_done
    one.epoch = epoch
    one.ask(ends)
    broker.tick(1.0)
    assert response_of(waiting).error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH


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
        return int(context.response([result], 0.0).session_id)

    assert created(is_follower=False)
    assert not created(is_follower=False)
    assert created(is_follower=True)
    assert not created(is_follower=True)


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


# --- the sessions of several clients


def sessions_of(slots: int, *ids: int) -> FetchSessions:
    """Sessions that get these ids, one after the other."""
    left = list(ids)
    return FetchSessions(slots, lambda _low, _high: left.pop(0))


def create(
    sessions: FetchSessions, *topics: str, now: float = 0.0, is_follower: bool = False
) -> int:
    cached = [Cached(Asked(topic, 0, 0, 1, -1, -1, -1)) for topic in topics]
    return sessions.create(cached, by_id=False, is_follower=is_follower, now=now)


def use(sessions: FetchSessions, id_: int, epoch: int, now: float) -> None:
    body = Message(session_id=id_, session_epoch=epoch, topics=[], forgotten_topics_data=[])
    assert sessions.begin(11, body, now, is_follower=False).is_session


def result(topic: str, records: bytes = b"", **fields: Any) -> Message:
    return Message(key=(topic, 0), records=records, **{"high_watermark": 5} | fields)


def test_an_id_is_given_out_once() -> None:
    sessions = sessions_of(3, 7, 7, 7, 8)
    assert [create(sessions, "a"), create(sessions, "b")] == [7, 8]
    assert (len(sessions), sessions.partitions) == (2, 2)


def test_the_session_that_was_used_last_stays() -> None:
    """Whenever it began."""
    sessions = sessions_of(2, 1, 2, 3, 4)
    assert [create(sessions, "a"), create(sessions, "b", now=1.0)] == [1, 2]
    use(sessions, 1, 1, now=100.0)
    assert create(sessions, "c", now=121.0) == 0
    assert create(sessions, "c", now=121.5) == 3  # the second one was idle for too long
    use(sessions, 1, 2, now=122.0)
    assert create(sessions, "d", now=200.0) == 0


def test_a_session_is_idle_since_its_last_request_and_not_since_it_began() -> None:
    sessions = sessions_of(1, 1, 2)
    assert create(sessions, "a") == 1
    use(sessions, 1, 1, now=100.0)
    assert create(sessions, "b", now=100.0 + IDLE_MAX) == 0
    assert create(sessions, "b", now=100.1 + IDLE_MAX) == 2


def test_a_follower_takes_the_place_of_the_consumer_that_was_idle_for_longest() -> None:
    sessions = sessions_of(3, 1, 2, 3, 4)
    create(sessions, "a", is_follower=True)
    create(sessions, "b")
    create(sessions, "c")
    use(sessions, 2, 1, now=1.0)
    assert create(sessions, "d", now=2.0, is_follower=True) == 4
    use(sessions, 1, 1, now=3.0)
    use(sessions, 2, 2, now=3.0)  # the third one is gone
    assert len(sessions) == 3


def test_a_larger_session_takes_the_place_of_the_smallest_that_is_old() -> None:
    """Old is a session that was used two minutes after it began."""
    sessions = sessions_of(3, 1, 2, 3, 4, 5)
    for topics in ("abc", "ab", "a"):
        create(sessions, *topics)
    for id_ in (1, 2, 3):
        use(sessions, id_, 1, now=IDLE_MAX)
    assert create(sessions, *"abcd", now=IDLE_MAX + 1) == 0  # none is old
    for id_ in (1, 2):
        use(sessions, id_, 2, now=IDLE_MAX + 1)
    assert create(sessions, *"ab", now=IDLE_MAX + 2) == 0  # as large as the smallest old one
    assert create(sessions, *"abc", now=IDLE_MAX + 2) == 4
    for id_, epoch in ((1, 3), (3, 2), (4, 1)):  # the second one is gone
        use(sessions, id_, epoch, now=IDLE_MAX + 3)
    assert create(sessions, *"abcd", now=IDLE_MAX + 4) == 5
    use(sessions, 1, 4, now=IDLE_MAX + 5)  # the third one is gone
    assert len(sessions) == 3


def test_a_followers_session_makes_room_for_a_larger_followers_only() -> None:
    sessions = sessions_of(1, 1, 2, 3)
    create(sessions, "a", is_follower=True)
    use(sessions, 1, 1, now=IDLE_MAX + 1)
    assert create(sessions, *"abc", now=IDLE_MAX + 2) == 0
    assert create(sessions, "b", now=IDLE_MAX + 2, is_follower=True) == 0
    assert create(sessions, *"ab", now=IDLE_MAX + 2, is_follower=True) == 2


def test_a_follower_takes_the_place_of_the_smallest_consumer() -> None:
    sessions = sessions_of(2, 1, 2, 3)
    create(sessions, "a", "b")
    create(sessions, "c")
    assert create(sessions, "d", now=1.0, is_follower=True) == 3
    use(sessions, 1, 1, now=2.0)


def test_all_sessions_together_may_use_all_the_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("downconvert.broker.fetch.fetch_session.PARTITIONS_MAX", 3)
    sessions = sessions_of(3, 1, 2, 3)
    assert create(sessions, "a") == 1
    assert create(sessions, "b", "c", "d") == 0
    assert create(sessions, "b", "c") == 2
    assert create(sessions) == 0
    assert sessions.partitions == 3


def test_only_partitions_with_records_are_read_last_the_next_time() -> None:
    session = Session(
        1,
        [Cached(Asked(topic, 0, 0, 1, -1, -1, -1)) for topic in "abc"],
        by_id=False,
        is_privileged=False,
        now=0.0,
    )
    sessions = FetchSessions(1)
    due = sessions.changed_results(session, 1, [result("a"), result("b", b"records"), result("c")])
    assert [one.key[0] for one in due] == ["a", "b", "c"]  # their high watermarks are news
    assert [topic for topic, _ in session.partitions] == ["a", "c", "b"]


def of_many(count: int, session: tuple[int, int], forgotten: int = 0) -> Message:
    """A fetch that adds so many partitions to a session, or forgets them."""
    asked = [
        Message(partition=index, fetch_offset=0, partition_max_bytes=1) for index in range(count)
    ]
    return Message(
        replica_id=-1,
        max_bytes=100,
        session_id=session[0],
        session_epoch=session[1],
        topics=[Message(topic="none", partitions=asked)] if count else [],
        forgotten_topics_data=[Message(topic="none", partitions=list(range(forgotten)))],
    )


def test_a_short_request_takes_long_while_its_session_has_many_partitions(broker: Broker) -> None:
    """Its thread serves other clients, too, and the response has megabytes."""

    def is_long(id_: int) -> bool:
        return broker.takes_long(memoryview(frame(ApiKey.Fetch, 11, of_many(0, (id_, 9)))))

    few, many = (
        ask(broker, ApiKey.Fetch, 11, of_many(count, (0, 0))).session_id for count in (10, 999)
    )
    assert [is_long(id_) for id_ in (few, many, 7)] == [False, False, False]
    ask(broker, ApiKey.Fetch, 11, of_many(1000, (many, 1)))
    assert [is_long(id_) for id_ in (few, many, 7)] == [False, True, False]
    for malformed in (b"", bytes(3), frame(ApiKey.Fetch, 11, of_many(0, (many, 9)))[:20]):
        assert not broker.takes_long(memoryview(malformed))
    ask(broker, ApiKey.Fetch, 11, of_many(0, (many, 2), forgotten=1))
    assert not is_long(many)
    large = ask(broker, ApiKey.Fetch, 11, of_many(1000, (0, 0))).session_id
    assert is_long(large)
    ask(broker, ApiKey.Fetch, 11, of_many(0, (large, -1)))  # it ends
    assert not is_long(large)


def test_many_partitions_are_read_in_turns(broker: Broker) -> None:
    exchange, turns = begin(broker, ApiKey.Fetch, 11, of_many(2500, (0, 0))), 1
    while not exchange.is_done:
        broker.tick(0.0)
        turns += 1
    (topic,) = response_of(exchange).responses
    assert [one.partition_index for one in topic.partitions] == list(range(2500))
    assert turns == 3
