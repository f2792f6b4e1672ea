"""All fetch sessions together hold so many partitions and no more.

Not here: everything else about sessions (test_fetch_session.py)."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from downconvert.broker import Broker
from downconvert.broker.fetch.session import NAME_SIZE
from downconvert.protocol.errors import ErrorCode
from downconvert.protocol.schemas import Message
from tests.downconvert.broker.fetching import broker_of

from .test_fetch_session import ENDS, Follower


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
