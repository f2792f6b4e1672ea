"""Requests that change topics: which clients are refused, and how a disk error is reported."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from downconvert.broker import Broker, BrokerConfig
from downconvert.broker.topics import OFFSETS_TOPIC
from downconvert.protocol.errors import ErrorCode
from downconvert.protocol.schemas import ApiKey, Message
from downconvert.storage import LogDir, LogDirOfflineError
from tests.downconvert.broker.asking import ask
from tests.downconvert.broker.late_lock import Late
from tests.downconvert.broker.writable import writable_broker

TOPIC = 2


class Change(NamedTuple):
    """A request that changes one topic, and where its response is."""

    api: ApiKey
    version: int
    body: Callable[[str], Message]
    responses: str
    works: str  # the method of Topics that does it, if one does


def records(name: str) -> Message:
    partition = Message(partition_index=0, offset=0)
    return Message(topics=[Message(name=name, partitions=[partition])], timeout_ms=1)


def configs(name: str) -> Message:
    config = Message(name="retention.ms", value="5", config_operation=0)
    resource = Message(resource_type=TOPIC, resource_name=name, configs=[config])
    return Message(resources=[resource], validate_only=False)


def created(name: str) -> Message:
    topic = Message(name=name, num_partitions=1, replication_factor=1, assignments=[], configs=[])
    return Message(topics=[topic], timeout_ms=1, validate_only=False)


CREATE = Change(ApiKey.CreateTopics, 7, created, "topics", "create")
DELETE = Change(
    ApiKey.DeleteTopics,
    6,
    lambda name: Message(topics=[Message(name=name, topic_id=bytes(16))], timeout_ms=1),
    "responses",
    "delete",
)
ENLARGE = Change(
    ApiKey.CreatePartitions,
    3,
    lambda name: Message(
        topics=[Message(name=name, count=3, assignments=None)], timeout_ms=1, validate_only=False
    ),
    "results",
    "add_partitions",
)
ALTER = Change(ApiKey.AlterConfigs, 2, configs, "responses", "configure")
CHANGE = Change(ApiKey.IncrementalAlterConfigs, 1, configs, "responses", "configure")
TRIM = Change(ApiKey.DeleteRecords, 2, records, "topics", "")
ALL = [CREATE, DELETE, ENLARGE, ALTER, CHANGE, TRIM]


def asked(broker: Broker, change: Change, name: str) -> Any:
    response = ask(broker, change.api, change.version, change.body(name), now=1000.0)
    (one,) = getattr(response, change.responses)
    return one.partitions[0] if change is TRIM else one


@pytest.mark.parametrize("change", ALL, ids=lambda one: one.api.name)
def test_a_broker_that_only_reads_refuses_every_change(tmp_path: Path, change: Change) -> None:
    with writable_broker(tmp_path, "t"):
        pass
    with LogDir.open(tmp_path) as log_dir:
        broker = Broker(log_dir, BrokerConfig())
        found = asked(broker, change, "new" if change is CREATE else "t").error_code
        topic, cluster = (
            ErrorCode.TOPIC_AUTHORIZATION_FAILED,
            ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        )
        assert found == (cluster if change is CREATE else topic)
        assert list(broker.topics) == ["t"]


@pytest.mark.parametrize("change", ALL, ids=lambda one: one.api.name)
@pytest.mark.parametrize(
    "error", [OSError(5, "Input/output error"), LogDirOfflineError("offline", "x")]
)
def test_an_error_of_the_disk_is_reported_in_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: Change, error: Exception
) -> None:
    def fail(*_: object) -> None:
        raise error

    with writable_broker(tmp_path, "t") as broker:
        if change is TRIM:
            writer = broker.topics["t"].partitions[0].log.writer
            monkeypatch.setattr(type(writer), "delete_records", fail)
        else:
            monkeypatch.setattr(type(broker.topics), change.works, fail)
        response = asked(broker, change, "new" if change is CREATE else "t")
        assert response.error_code == ErrorCode.KAFKA_STORAGE_ERROR
        if change is TRIM:
            assert response.low_watermark == -1
        else:
            assert response.error_message == str(error)
            assert getattr(response, "name", "t") in ("t", "new")


@pytest.mark.parametrize(
    ("change", "code", "message"),
    [
        (CREATE, ErrorCode.TOPIC_ALREADY_EXISTS, "Topic 't' already exists."),
        (ENLARGE, ErrorCode.INVALID_PARTITIONS, "3 partitions: the topic has 4 already"),
    ],
    ids=lambda one: one.api.name if isinstance(one, Change) else "",
)
def test_a_refused_change_of_a_topic_has_kafkas_message(
    tmp_path: Path, change: Change, code: ErrorCode, message: str
) -> None:
    with writable_broker(tmp_path, "t", partitions=4) as broker:
        response = asked(broker, change, "t")
        assert (response.name, response.error_code, response.error_message) == ("t", code, message)


@pytest.mark.parametrize("change", [DELETE, ENLARGE, ALTER, CHANGE], ids=lambda one: one.api.name)
def test_a_missing_topic_is_reported_in_words(tmp_path: Path, change: Change) -> None:
    with writable_broker(tmp_path, "t") as broker:
        response = asked(broker, change, "none")
        assert response.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert response.error_message == "there is no topic none"
        assert asked(broker, change, "t").error_code == ErrorCode.NONE


@pytest.mark.parametrize("change", [DELETE, TRIM], ids=lambda one: one.api.name)
def test_clients_delete_nothing_of_the_brokers_own(tmp_path: Path, change: Change) -> None:
    with writable_broker(tmp_path, OFFSETS_TOPIC) as broker:
        broker.topics.configure(OFFSETS_TOPIC, {"cleanup.policy": "delete"})
        response = asked(broker, change, OFFSETS_TOPIC)
        assert response.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
        assert OFFSETS_TOPIC in broker.topics


@pytest.mark.parametrize(
    ("change", "other", "code"),
    [
        (CREATE, CREATE, ErrorCode.TOPIC_ALREADY_EXISTS),
        (DELETE, DELETE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (ENLARGE, DELETE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (ENLARGE, ENLARGE, ErrorCode.INVALID_PARTITIONS),
        (ALTER, DELETE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (CHANGE, DELETE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ],
    ids=lambda one: one.api.name if isinstance(one, Change) else "",
)
def test_a_change_is_checked_with_the_lock_held(
    tmp_path: Path, change: Change, other: Change, code: ErrorCode
) -> None:
    """So two clients at the same time get the responses that they would get one after the other."""
    with writable_broker(tmp_path, "t") as broker:
        name = "new" if change is CREATE else "t"
        late: Any = Late(broker.topics.lock, 1, lambda: asked(broker, other, name))
        broker.topics.lock = late
        assert asked(broker, change, name).error_code == code
        if change is ENLARGE and other is ENLARGE:
            assert len(broker.topics["t"].partitions) == 3


@pytest.mark.parametrize("change", [CREATE, DELETE, ENLARGE, ALTER, CHANGE])
def test_a_change_takes_the_lock_once(tmp_path: Path, change: Change) -> None:
    """So no other client comes between the check and the change."""
    with writable_broker(tmp_path, "t") as broker:
        late: Any = Late(broker.topics.lock, 0, lambda: None)
        broker.topics.lock = late
        assert asked(broker, change, "new" if change is CREATE else "t").error_code == 0
        assert late.times == 1
