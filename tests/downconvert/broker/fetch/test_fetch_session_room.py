"""All fetch sessions together hold so many partitions and no more.

Not here: everything else about sessions (test_fetch_session.py)."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from downconvert.broker import Broker
from downconvert.broker.fetch.session import IDLE_MAX, NAME_SIZE
from downconvert.protocol.errors import ErrorCode
from downconvert.protocol.schemas import Message
from tests.downconvert.broker.fetching import broker_of

from .test_fetch_session import ENDS, Follower, create, sessions_of


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    with broker_of(tmp_path, {}) as one:
        yield one


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


def test_long_names_of_topics_that_do_not_exist_take_the_room_of_several_partitions(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("downconvert.broker.fetch.fetch_session.PARTITIONS_MAX", 5)
    one, long = Follower(broker), "x" * (2 * NAME_SIZE)
    one.ask({"a": 0, long: 0})
    assert broker.fetch_sessions.partitions == 4
    assert one.ask({long: 0}).error_code == ErrorCode.NONE
    one.ask(forgotten_topics_data=[Message(topic=long, partitions=[0])])
    assert broker.fetch_sessions.partitions == 1
    assert one.ask({"b": 0, long: 0}).error_code == ErrorCode.NONE
    assert Follower(broker).ask({"c": 0}).session_id == 0
    one.ask({"c": 0})
    assert broker.fetch_sessions.partitions == 0


def test_a_large_session_makes_room_once_it_was_idle_for_too_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its client may have gone."""
    monkeypatch.setattr("downconvert.broker.fetch.fetch_session.PARTITIONS_MAX", 5)
    sessions = sessions_of(9, 1, 2, 3, 4)
    assert create(sessions, *"abc") == 1
    assert create(sessions, "d", now=1.0) == 2
    assert create(sessions, "e", "f", now=IDLE_MAX) == 0
    assert create(sessions, "e", "f", now=IDLE_MAX + 0.5) == 3
    assert (len(sessions), sessions.partitions) == (2, 3)  # the second one still has room


def test_a_session_that_grows_takes_the_room_of_one_that_was_idle_for_too_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("downconvert.broker.fetch.fetch_session.PARTITIONS_MAX", 3)
    sessions = sessions_of(9, 1, 2)
    assert [create(sessions, "a"), create(sessions, "b", "c")] == [1, 2]
    one = Message(partition=0, fetch_offset=0, partition_max_bytes=1)
    for name in ("current_leader_epoch", "last_fetched_epoch", "log_start_offset"):
        setattr(one, name, -1)
    topics = [Message(topic="d", partitions=[one])]
    body = Message(session_id=1, session_epoch=1, topics=topics, forgotten_topics_data=[])
    context = sessions.begin(11, body, IDLE_MAX + 1, is_follower=False)
    assert [asked.topic for asked in context.asked] == ["a", "d"]  # it was idle for as long itself
    assert (len(sessions), sessions.partitions) == (1, 2)
