"""DeleteTopics: the responses, and the clients and groups that used the topic."""

from pathlib import Path
from typing import Any

import pytest

from downconvert.broker import Broker
from downconvert.protocol.errors import ErrorCode
from downconvert.protocol.schemas import ApiKey, Message
from tests.downconvert.broker.asking import ask
from tests.downconvert.broker.fetching import fetched, fetching
from tests.downconvert.broker.offset_logs import commit, fetch
from tests.downconvert.broker.writable import writable_broker

NO_ID = bytes(16)


def delete(broker: Broker, *topics: tuple[str | None, bytes]) -> list[Any]:
    asked = [Message(name=name, topic_id=topic_id) for name, topic_id in topics]
    body = Message(topics=asked, timeout_ms=1000)
    responses: list[Any] = ask(broker, ApiKey.DeleteTopics, 6, body, now=2000.0).responses
    return responses


@pytest.mark.parametrize(
    ("name", "topic_id", "code", "message"),
    [
        ("t", b"?" * 16, ErrorCode.INVALID_REQUEST, "a topic by its name and its id"),
        ("", b"?" * 16, ErrorCode.INVALID_REQUEST, "a topic by its name and its id"),
        (None, NO_ID, ErrorCode.INVALID_REQUEST, "neither a topic's name nor its id"),
        ("", NO_ID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "there is no topic "),
        ("x", NO_ID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "there is no topic x"),
    ],
)
def test_requests_that_name_no_topic_are_refused_with_a_message(
    tmp_path: Path, name: str | None, topic_id: bytes, code: ErrorCode, message: str
) -> None:
    with writable_broker(tmp_path, "t") as broker:
        (response,) = delete(broker, (name, topic_id))
        assert (response.error_code, response.error_message) == (code, message)
        assert (response.name, response.topic_id) == (name, topic_id)
        assert "t" in broker.topics


def test_a_response_has_the_name_and_the_id(tmp_path: Path) -> None:
    with writable_broker(tmp_path, "t", "u") as broker:
        ids = {name: broker.topics[name].id for name in "tu"}
        responses = delete(broker, ("t", NO_ID), (None, ids["u"]))
        assert {one.name: (one.topic_id, one.error_code) for one in responses} == {
            name: (ids[name], ErrorCode.NONE) for name in "tu"
        }
        assert [one.error_message for one in responses] == [None, None]


def test_groups_keep_their_offsets_in_a_topic_that_stays(tmp_path: Path) -> None:
    with writable_broker(tmp_path, "t", "u") as broker:
        for topic in "tu":
            assert commit(broker, 5, "g", (topic, 0)) == ErrorCode.NONE
        found = delete(broker, ("t", NO_ID), ("t", NO_ID), ("u", NO_ID))
        assert {one.name: one.error_code for one in found} == {
            "t": ErrorCode.INVALID_REQUEST,
            "u": ErrorCode.NONE,
        }
        assert [fetch(broker, "g", (topic, 0)) for topic in "tu"] == [(5, 0), (-1, 0)]


def test_groups_forget_their_offsets_in_all_deleted_topics(tmp_path: Path) -> None:
    with writable_broker(tmp_path, "t", "u", "v") as broker:
        for topic in "tuv":
            assert commit(broker, 5, "g", (topic, 0)) == ErrorCode.NONE
        delete(broker, ("t", NO_ID), (None, broker.topics["v"].id))
        assert [fetch(broker, "g", (topic, 0)) for topic in "tuv"] == [(-1, 0), (5, 0), (-1, 0)]


def test_a_fetch_that_waits_in_a_deleted_topic_is_answered(tmp_path: Path) -> None:
    with writable_broker(tmp_path, "t") as broker:
        waiting = fetching(broker, 11, "t", 0, now=0.0, max_wait_ms=60_000, min_bytes=1)
        assert not waiting.is_done
        delete(broker, ("t", NO_ID))
        assert fetched(waiting).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_groups_without_members_and_offsets_go_with_any_topic(tmp_path: Path) -> None:
    def groups(broker: Broker) -> list[str]:
        listed = ask(broker, ApiKey.ListGroups, 4, Message(states_filter=[])).groups
        return sorted(one.group_id for one in listed)

    with writable_broker(tmp_path, "t", "u", group_initial_rebalance_delay_ms=0) as broker:
        member = Message(
            group_id="left",
            session_timeout_ms=10_000,
            rebalance_timeout_ms=10_000,
            member_id="",
            protocol_type="consumer",
            protocols=[Message(name="range", metadata=b"")],
        )
        joined = ask(broker, ApiKey.JoinGroup, 2, member)
        leave = Message(group_id="left", member_id=joined.member_id)
        assert ask(broker, ApiKey.LeaveGroup, 0, leave).error_code == ErrorCode.NONE
        assert commit(broker, 5, "kept", ("u", 0)) == ErrorCode.NONE
        assert groups(broker) == ["kept", "left"]
        delete(broker, ("none", NO_ID))
        assert groups(broker) == ["kept", "left"]
        delete(broker, ("t", NO_ID))
        assert groups(broker) == ["kept"]
