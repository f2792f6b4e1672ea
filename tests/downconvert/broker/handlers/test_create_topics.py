"""CreateTopics: what is made, what is refused, and what is left after a restart."""

import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from downconvert.broker import Broker, BrokerConfig
from downconvert.broker.handlers.admin import PARTITIONS_MAX
from downconvert.protocol.errors import ErrorCode
from downconvert.protocol.schemas import ApiKey, Message
from downconvert.storage import LogDir
from tests.downconvert.broker.asking import ask, begin
from tests.downconvert.broker.writable import writable_broker

VERSIONS = range(8)


def create(broker: Broker, version: int, *topics: Message, validate_only: bool = False) -> Any:
    body = Message(topics=list(topics), timeout_ms=1000, validate_only=validate_only)
    return ask(broker, ApiKey.CreateTopics, version, body, now=1000.0).topics


def topic(name: str, partitions: int = 2, replicas: int = 1, **fields: Any) -> Message:
    config = fields.pop("config", {})
    configs = [Message(name=key, value=value) for key, value in config.items()]
    body = {"assignments": [], "configs": configs, **fields}
    return Message(name=name, num_partitions=partitions, replication_factor=replicas, **body)


def code(broker: Broker, asked: Message, version: int = 7, *, validate_only: bool = False) -> int:
    (response,) = create(broker, version, asked, validate_only=validate_only)
    found: int = response.error_code
    return found


@pytest.mark.parametrize("version", VERSIONS)
def test_a_topic_is_there_at_once_and_after_a_restart(tmp_path: Path, version: int) -> None:
    with writable_broker(tmp_path) as broker:
        asked = topic("made.here", 3, config={"max.message.bytes": "2000"})
        (response,) = create(broker, version, asked)
        assert (response.name, response.error_code) == ("made.here", 0)
        made = broker.topics["made.here"]
        assert sorted(made.partitions) == [0, 1, 2]
        assert made.config == {"max.message.bytes": "2000"}
        if version >= 5:
            assert (response.num_partitions, response.replication_factor) == (3, 1)
            values = {config.name: config.value for config in response.configs}
            assert values["max.message.bytes"] == "2000"
            assert values["cleanup.policy"] == "delete"
        if version >= 7:
            assert bytes(response.topic_id) == made.id
    with LogDir.open(tmp_path) as log_dir:
        found = Broker(log_dir).topics["made.here"]
        assert found.id == made.id
        assert found.config == made.config


def test_validation_alone_makes_nothing(tmp_path: Path) -> None:
    with writable_broker(tmp_path) as broker:
        assert code(broker, topic("t"), validate_only=True) == 0
        assert code(broker, topic("t", 0), validate_only=True) == ErrorCode.INVALID_PARTITIONS
        assert list(broker.topics) == []
        assert not (tmp_path / "t-0").exists()


@pytest.mark.parametrize("version", [4, 7])
def test_the_responses_for_thousands_of_topics_share_their_settings(
    tmp_path: Path, version: int
) -> None:
    """The settings of one topic are some 20 KB."""
    with writable_broker(tmp_path) as broker:
        names = [f"t{n}" for n in range(2000)]
        asked = [topic(name, config={"segment.bytes": "2000"}) for name in names]
        body = Message(topics=asked, timeout_ms=1000, validate_only=True)
        exchange = begin(broker, ApiKey.CreateTopics, version, body, now=1000.0)
        tracemalloc.start()
        now = 1000.0
        while not exchange.is_done:
            broker.tick(now)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < 6_000 * len(names)


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        (topic("there"), ErrorCode.TOPIC_ALREADY_EXISTS),
        (topic("a_b"), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (topic(""), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (topic(".."), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (topic("a/b"), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (topic("x" * 250), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (topic("t", 0), ErrorCode.INVALID_PARTITIONS),
        (topic("t", -2), ErrorCode.INVALID_PARTITIONS),
        (topic("t", PARTITIONS_MAX + 1), ErrorCode.INVALID_PARTITIONS),
        (topic("t", 2**31 - 1), ErrorCode.POLICY_VIOLATION),
        (topic("t", 1, 0), ErrorCode.INVALID_REPLICATION_FACTOR),
        (topic("t", 1, 2), ErrorCode.INVALID_REPLICATION_FACTOR),
        (topic("t", config={"no.such": "1"}), ErrorCode.INVALID_CONFIG),
        (topic("t", config={"retention.ms": "soon"}), ErrorCode.INVALID_CONFIG),
        (topic("t", config={"retention.ms": None}), ErrorCode.INVALID_CONFIG),
        (
            topic("t", assignments=[Message(partition_index=0, broker_ids=[0])]),
            ErrorCode.INVALID_REQUEST,
        ),
        (
            topic("t", -1, -1, assignments=[Message(partition_index=1, broker_ids=[0])]),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        ),
        (
            topic("t", -1, -1, assignments=[Message(partition_index=0, broker_ids=[5])]),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        ),
    ],
    ids=lambda one: one.name[:10] if isinstance(one, ErrorCode) else "",
)
def test_names_that_no_topic_can_have_are_refused(
    tmp_path: Path, asked: Message, expected: ErrorCode
) -> None:
    with writable_broker(tmp_path, "there", "a.b") as broker:
        assert code(broker, asked) == expected
        assert list(broker.topics) == ["a.b", "there"]


def test_the_broker_says_how_many_partitions_where_nobody_else_does(tmp_path: Path) -> None:
    with writable_broker(tmp_path, num_partitions=4) as broker:
        assert code(broker, topic("t", -1, -1)) == 0
        assert len(broker.topics["t"].partitions) == 4
        assigned = [Message(partition_index=i, broker_ids=[0]) for i in (1, 0)]
        assert code(broker, topic("u", -1, -1, assignments=assigned)) == 0
        assert len(broker.topics["u"].partitions) == 2


def test_a_name_that_comes_twice_is_refused_and_others_are_made(tmp_path: Path) -> None:
    with writable_broker(tmp_path) as broker:
        responses = create(broker, 7, topic("a"), topic("b"), topic("a"))
        codes = {response.name: response.error_code for response in responses}
        assert codes == {"a": ErrorCode.INVALID_REQUEST, "b": 0}
        assert list(broker.topics) == ["b"]


@pytest.mark.parametrize(("more", "expected"), [(0, 0), (1, ErrorCode.POLICY_VIOLATION)])
def test_a_request_for_more_partitions_than_kafka_makes_at_once_makes_none(
    tmp_path: Path, more: int, expected: int
) -> None:
    with writable_broker(tmp_path, num_partitions=4) as broker:
        assigned = [Message(partition_index=index, broker_ids=[0]) for index in (0, 1)]
        others = [topic("a b", 9_990), topic("default", -1), topic("none", -3)]
        assigning = topic("assigned", -1, -1, assignments=assigned)
        twice = [topic("twice", 9_999)] * 2
        asked = [*others, assigning, *twice, topic("good", 4 + more)]
        responses = create(broker, 7, *asked, validate_only=True)
        codes = {response.name: response.error_code for response in responses}
        assert codes["good"] == codes["default"] == codes["assigned"] == expected
        assert codes["a b"] == (expected or ErrorCode.INVALID_TOPIC_EXCEPTION)


def test_a_broker_that_only_reads_makes_nothing(tmp_path: Path) -> None:
    with LogDir.open(tmp_path) as log_dir:
        broker = Broker(log_dir, BrokerConfig())
        assert code(broker, topic("t"), 0) == ErrorCode.CLUSTER_AUTHORIZATION_FAILED


def test_a_directory_that_cannot_be_made_leaves_no_topic(tmp_path: Path) -> None:
    with writable_broker(tmp_path) as broker:
        (tmp_path / "t-1").touch()  # in the way of the second partition
        assert code(broker, topic("t", 3)) == ErrorCode.KAFKA_STORAGE_ERROR
        assert list(broker.topics) == []
        assert not (tmp_path / "t-0").exists()


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (
            topic("t", assignments=[Message(partition_index=0, broker_ids=[0])]),
            "assignments say how many: num_partitions and replication_factor must be -1",
        ),
        (
            topic("t", -1, -1, assignments=[Message(partition_index=1, broker_ids=[0])]),
            "assignments must be for partitions 0, 1, 2 and so on, each of them once",
        ),
        (
            topic("t", -1, -1, assignments=[Message(partition_index=0, broker_ids=[1, 2])]),
            "assignment 0 is to brokers [1, 2], and there is [0]",
        ),
    ],
)
def test_assignments_are_refused_in_words(tmp_path: Path, asked: Message, message: str) -> None:
    with writable_broker(tmp_path) as broker:
        (response,) = create(broker, 7, asked)
        assert response.error_message == message
        assert list(broker.topics) == []


def test_the_name_of_kafkas_own_metadata_is_nobodys(tmp_path: Path) -> None:
    with writable_broker(tmp_path) as broker:
        assert code(broker, topic("__cluster_metadata")) == ErrorCode.INVALID_REQUEST
        assert list(broker.topics) == []


@pytest.mark.parametrize(
    ("partitions", "replicas", "config", "expected"),
    [
        (0, 2, {"no.such": "1"}, ErrorCode.INVALID_CONFIG),
        (0, 2, {}, ErrorCode.INVALID_PARTITIONS),
        (0, 0, {}, ErrorCode.INVALID_REPLICATION_FACTOR),
        (1, 2, {}, ErrorCode.INVALID_REPLICATION_FACTOR),
    ],
)
def test_the_first_of_several_errors_is_the_one_of_kafka(
    tmp_path: Path, partitions: int, replicas: int, config: dict[str, str], expected: ErrorCode
) -> None:
    with writable_broker(tmp_path) as broker:
        assert code(broker, topic("t", partitions, replicas, config=config)) == expected


def test_each_topic_has_a_turn_of_its_own(tmp_path: Path) -> None:
    """So other changes get theirs, and a client that has gone gets no more topics."""
    with writable_broker(tmp_path) as broker:
        body = Message(topics=[topic(name) for name in "abc"], timeout_ms=1, validate_only=False)
        gone = begin(broker, ApiKey.CreateTopics, 4, body)
        assert list(broker.topics) == ["a"]
        broker.tick(0.0)
        assert list(broker.topics) == ["a", "b"]
        assert not gone.is_done
        broker.finished(gone, 0.0)
        broker.tick(0.0)
        assert list(broker.topics) == ["a", "b"]


@pytest.mark.parametrize(
    ("values", "expected"),
    [(["1", "2"], "2"), (["1", None], None), ([None, "2"], None)],
)
def test_the_last_value_of_a_setting_counts_and_none_of_them_may_be_null(
    tmp_path: Path, values: list[str | None], expected: str | None
) -> None:
    with writable_broker(tmp_path) as broker:
        asked = topic("t", configs=[Message(name="retention.ms", value=one) for one in values])
        assert code(broker, asked) == (0 if expected else ErrorCode.INVALID_CONFIG)
        made = broker.topics.get("t")
        assert (made and made.config) == (expected and {"retention.ms": expected})
