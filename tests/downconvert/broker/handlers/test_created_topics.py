"""CreateTopics and CreatePartitions: the responses, the limits, and what was there under the
name."""

from pathlib import Path
from typing import Any

import pytest

from downconvert.broker import Broker
from downconvert.broker.handlers.admin import PARTITIONS_MAX
from downconvert.protocol.errors import ErrorCode
from downconvert.protocol.schemas import ApiKey, Message
from tests.downconvert.broker.asking import ask
from tests.downconvert.broker.offset_logs import commit_to, fetch, make_offsets, offsets_log
from tests.downconvert.broker.writable import writable_broker

NODE, OTHER = 4, 0
NONE = ErrorCode.NONE


def create(
    broker: Broker,
    name: str,
    partitions: int = -1,
    replicas: int = -1,
    *,
    assigned: list[list[int]] | None = None,
    only_checks: bool = False,
    now: float = 1000.0,
    **config: str,
) -> Any:
    topic = Message(
        name=name,
        num_partitions=partitions,
        replication_factor=replicas,
        assignments=[
            Message(partition_index=index, broker_ids=ids)
            for index, ids in enumerate(assigned or [])
        ],
        configs=[Message(name=key.replace("_", "."), value=config[key]) for key in config],
    )
    body = Message(topics=[topic], timeout_ms=1000, validate_only=only_checks)
    (response,) = ask(broker, ApiKey.CreateTopics, 7, body, now=now).topics
    return response


def enlarge(broker: Broker, count: int, assigned: list[list[int]] | None = None) -> Any:
    ids = None if assigned is None else [Message(broker_ids=one) for one in assigned]
    topic = Message(name="t", count=count, assignments=ids)
    body = Message(topics=[topic], timeout_ms=1000, validate_only=True)
    (response,) = ask(broker, ApiKey.CreatePartitions, 3, body).results
    return response


def test_a_response_says_what_was_made_where_the_broker_decided(tmp_path: Path) -> None:
    with writable_broker(tmp_path, num_partitions=3) as broker:
        response = create(broker, "t", retention_ms=" 0005 ")
        assert (response.num_partitions, response.replication_factor) == (3, 1)
        assert broker.topics["t"].config == {"retention.ms": "5"}
        (config,) = (one for one in response.configs if one.name == "retention.ms")
        assert config.config_source == 1


@pytest.mark.parametrize(
    ("partitions", "replicas", "assigned", "code"),
    [
        (-1, -1, [[NODE], [NODE]], NONE),
        (1, -1, [[NODE]], ErrorCode.INVALID_REQUEST),
        (-1, 1, [[NODE]], ErrorCode.INVALID_REQUEST),
        (-1, -1, [[NODE], [OTHER]], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (-1, -1, [[NODE, NODE]], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (-1, -1, [[NODE, OTHER]], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (-1, -1, [[]], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (-1, -1, [[NODE]] * PARTITIONS_MAX, NONE),
        (-1, -1, [[NODE]] * (PARTITIONS_MAX + 1), ErrorCode.INVALID_PARTITIONS),
        (PARTITIONS_MAX, 1, None, NONE),
        (1, 1, None, NONE),
        (1, -2, None, ErrorCode.INVALID_REPLICATION_FACTOR),
    ],
)
def test_the_number_of_partitions_and_their_brokers_are_checked(
    tmp_path: Path, partitions: int, replicas: int, assigned: Any, code: ErrorCode
) -> None:
    with writable_broker(tmp_path, node_id=NODE) as broker:
        response = create(broker, "t", partitions, replicas, assigned=assigned, only_checks=True)
        assert response.error_code == code
        assert list(broker.topics) == []


@pytest.mark.parametrize(
    ("count", "assigned", "code"),
    [
        (PARTITIONS_MAX, None, NONE),
        (4, [[NODE], [NODE]], NONE),
        (4, [[NODE]], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (4, [[NODE]] * 3, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (4, [[NODE]] * 4, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (4, [], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (4, [[NODE], [OTHER]], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    ],
)
def test_the_brokers_of_further_partitions_are_checked(
    tmp_path: Path, count: int, assigned: Any, code: ErrorCode
) -> None:
    with writable_broker(tmp_path, "t", partitions=2, node_id=NODE) as broker:
        response = enlarge(broker, count, assigned)
        assert (response.name, response.error_code, bool(response.error_message)) == (
            "t",
            code,
            code != NONE,
        )


@pytest.mark.parametrize(
    ("there", "name", "code"),
    [
        ("a.b", "a.b", ErrorCode.TOPIC_ALREADY_EXISTS),
        ("a_b", "a.b", ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("a.b", "a_b", ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("a.b_c", "a_b.c", ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("ab", "a.b", NONE),
        ("a-b", "a.b", NONE),
        ("a", ".", ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("a", "...", NONE),
        ("a", "x" * 249, NONE),
        ("a", "a\n", ErrorCode.INVALID_TOPIC_EXCEPTION),
    ],
)
def test_a_name_is_checked_without_making_a_topic(
    tmp_path: Path, there: str, name: str, code: ErrorCode
) -> None:
    with writable_broker(tmp_path, there) as broker:
        assert create(broker, name, only_checks=True).error_code == code
        assert list(broker.topics) == [there]


def test_groups_have_no_offsets_in_a_new_topic(tmp_path: Path) -> None:
    """The same holds if a topic of this name was deleted just before a crash."""
    make_offsets(tmp_path, 0, topics=("u",))
    with writable_broker(tmp_path) as broker:
        commit_to(offsets_log(broker), 7, at=("t", 0))
        commit_to(offsets_log(broker), 9, at=("u", 0))
    with writable_broker(tmp_path) as broker:
        assert fetch(broker, at=("t", 0)) == (7, 0)
        assert create(broker, "t", only_checks=True).error_code == NONE
        assert fetch(broker, at=("t", 0)) == (7, 0)
        assert create(broker, "t").error_code == NONE
        assert fetch(broker, at=("t", 0)) == (-1, 0)
        assert fetch(broker, at=("u", 0)) == (9, 0)


def test_a_topic_that_is_made_again_has_another_id(tmp_path: Path) -> None:
    with writable_broker(tmp_path) as broker:
        ids = []
        for now in (1000.001, 1000.002):
            ids.append(create(broker, "t", now=now).topic_id)
            broker.topics.delete("t")
        assert ids[0] != ids[1]
        assert create(broker, "t", only_checks=True).topic_id == bytes(16)


def test_a_topic_has_at_most_a_thousand_partitions(tmp_path: Path) -> None:
    with writable_broker(tmp_path) as broker:
        message = "1001 partitions: a topic has between 1 and 1000"
        assert create(broker, "t", 1001, 1, only_checks=True).error_message == message
        assert create(broker, "t", 1000, 1, only_checks=True).error_message is None
