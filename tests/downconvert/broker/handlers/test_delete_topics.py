"""DeleteTopics: by name and by id, and nothing is left."""

from pathlib import Path
from typing import Any

import pytest

from downconvert.broker import Broker, BrokerConfig
from downconvert.protocol.errors import ErrorCode
from downconvert.protocol.schemas import ApiKey, Message
from downconvert.storage import LogDir
from tests.downconvert.broker.asking import ask, begin
from tests.downconvert.broker.offset_logs import commit, fetch
from tests.downconvert.broker.writable import writable_broker


def delete(broker: Broker, version: int, *names: str, ids: tuple[bytes, ...] = ()) -> list[Any]:
    topics = [Message(name=name, topic_id=bytes(16)) for name in names]
    topics += [Message(name=None, topic_id=topic_id) for topic_id in ids]
    body = Message(topics=topics, topic_names=list(names), timeout_ms=1000)
    responses: list[Any] = ask(broker, ApiKey.DeleteTopics, version, body).responses
    return responses


@pytest.mark.parametrize("version", range(7))
def test_a_topic_goes_with_everything_of_it(tmp_path: Path, version: int) -> None:
    with writable_broker(tmp_path, "a", "b", partitions=2) as broker:
        broker.topics.configure("a", {"retention.ms": "5"})
        responses = delete(broker, version, "a", "none")
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert [one.error_code for one in responses] == [0, unknown]
        assert list(broker.topics) == ["b"]
        assert sorted(path.name for path in tmp_path.glob("*-[0-9]")) == ["b-0", "b-1"]
        before = broker.topics["b"].id
        again = broker.topics.create("a", 1, {}, 1)
        assert again.config == {}
        assert again.partitions[0].end_offset == 0
        assert broker.topics["b"].id == before


def test_topics_are_deleted_by_id(tmp_path: Path) -> None:
    with writable_broker(tmp_path, "a", "b") as broker:
        (response,) = delete(broker, 6, ids=(broker.topics["a"].id,))
        assert (response.error_code, response.name) == (0, "a")
        (response,) = delete(broker, 6, ids=(b"?" * 16,))
        assert (response.error_code, response.name) == (ErrorCode.UNKNOWN_TOPIC_ID, None)
        assert list(broker.topics) == ["b"]


def test_the_brokers_own_topics_stay(tmp_path: Path) -> None:
    with writable_broker(tmp_path, "__consumer_offsets") as broker:
        (response,) = delete(broker, 1, "__consumer_offsets")
        assert response.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
        assert "__consumer_offsets" in broker.topics


def test_a_broker_that_only_reads_deletes_nothing(tmp_path: Path) -> None:
    with writable_broker(tmp_path, "a"):
        pass
    with LogDir.open(tmp_path) as log_dir:
        (response,) = delete(Broker(log_dir, BrokerConfig()), 4, "a")
        assert response.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert (tmp_path / "a-0").is_dir()


def test_a_topic_that_comes_twice_is_refused_once(tmp_path: Path) -> None:
    with writable_broker(tmp_path, "t", "u") as broker:
        body = Message(topic_names=["t", "u", "t"], timeout_ms=1000)
        responses = ask(broker, ApiKey.DeleteTopics, 1, body).responses
        found = {one.name: one.error_code for one in responses}
        assert (len(responses), found) == (2, {"t": ErrorCode.INVALID_REQUEST, "u": ErrorCode.NONE})
        assert list(broker.topics) == ["t"]


@pytest.mark.parametrize("order", [1, -1], ids=["name first", "id first"])
def test_a_topic_that_comes_by_its_name_and_by_its_id_is_refused_by_its_name(
    tmp_path: Path, order: int
) -> None:
    with writable_broker(tmp_path, "t", "u") as broker:
        topic_id = broker.topics["t"].id
        by_name = Message(name="t", topic_id=bytes(16))
        by_id = Message(name=None, topic_id=topic_id)
        body = Message(topics=[by_name, by_id][::order], timeout_ms=1000)
        (response,) = ask(broker, ApiKey.DeleteTopics, 6, body).responses
        assert (response.name, response.topic_id) == ("t", topic_id)
        assert response.error_code == ErrorCode.INVALID_REQUEST
        assert "t" in broker.topics


def test_an_id_that_comes_twice_is_refused_beside_its_name(tmp_path: Path) -> None:
    with writable_broker(tmp_path, "t", "u") as broker:
        topic_id = broker.topics["t"].id
        by_id = [Message(name=None, topic_id=topic_id)] * 2
        body = Message(topics=[*by_id, Message(name="t", topic_id=bytes(16))], timeout_ms=1000)
        responses = ask(broker, ApiKey.DeleteTopics, 6, body).responses
        assert {(one.name, one.topic_id) for one in responses} == {
            (None, topic_id),
            ("t", topic_id),
        }
        assert {one.error_code for one in responses} == {ErrorCode.INVALID_REQUEST}
        assert "t" in broker.topics


def test_two_topics_of_one_request_are_distinguished(tmp_path: Path) -> None:
    with writable_broker(tmp_path, "t", "u") as broker:
        by_id = Message(name=None, topic_id=broker.topics["u"].id)
        body = Message(topics=[Message(name="t", topic_id=bytes(16)), by_id], timeout_ms=1000)
        responses = ask(broker, ApiKey.DeleteTopics, 6, body).responses
        assert {one.name: one.error_code for one in responses} == {"t": 0, "u": 0}
        assert list(broker.topics) == []


def test_a_topic_has_a_name_or_an_id(tmp_path: Path) -> None:
    with writable_broker(tmp_path, "t") as broker:
        body = Message(topics=[Message(name=None, topic_id=bytes(16))], timeout_ms=1000)
        (response,) = ask(broker, ApiKey.DeleteTopics, 6, body).responses
        assert response.error_code == ErrorCode.INVALID_REQUEST
        both = Message(name="t", topic_id=broker.topics["t"].id)
        body = Message(topics=[both], timeout_ms=1000)
        (response,) = ask(broker, ApiKey.DeleteTopics, 6, body).responses
        assert (response.name, response.error_code) == ("t", ErrorCode.INVALID_REQUEST)
        assert "t" in broker.topics


def test_each_topic_has_a_turn_of_its_own(tmp_path: Path) -> None:
    """So other changes get theirs. If the client goes away, groups forget what is deleted."""
    with writable_broker(tmp_path, "a", "b", "c") as broker:
        for topic in "ac":
            assert commit(broker, 5, at=(topic, 0)) == ErrorCode.NONE

        def here() -> list[str]:
            return [name for name in "abc" if name in broker.topics]

        body = Message(topic_names=["a", "b", "c"], timeout_ms=1)
        gone = begin(broker, ApiKey.DeleteTopics, 1, body)
        assert here() == ["b", "c"]
        broker.tick(0.0)
        assert here() == ["c"]
        assert not gone.is_done
        broker.finished(gone, 0.0)
        broker.tick(0.0)
        assert here() == ["c"]
        assert [fetch(broker, at=(topic, 0)) for topic in "ac"] == [(-1, 0), (5, 0)]
