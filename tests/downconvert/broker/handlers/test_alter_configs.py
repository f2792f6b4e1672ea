"""AlterConfigs says everything anew, IncrementalAlterConfigs says what changes."""

from pathlib import Path

import pytest

from downconvert.broker import Broker
from downconvert.protocol.errors import ErrorCode
from downconvert.protocol.schemas import ApiKey, Message
from tests.downconvert.broker.asking import ask
from tests.downconvert.broker.writable import writable_broker

TOPIC, BROKER = 2, 4
SET, DELETE, APPEND, SUBTRACT = range(4)


def alter(
    broker: Broker,
    version: int,
    *configs: tuple[str, str | None],
    topic: str = "t",
    kind: int = TOPIC,
    validate_only: bool = False,
) -> ErrorCode:
    asked = [Message(name=name, value=value) for name, value in configs]
    resource = Message(resource_type=kind, resource_name=topic, configs=asked)
    body = Message(resources=[resource], validate_only=validate_only)
    (response,) = ask(broker, ApiKey.AlterConfigs, version, body).responses
    return ErrorCode(response.error_code)


def change(
    broker: Broker, version: int, *configs: tuple[str, int, str | None], topic: str = "t"
) -> ErrorCode:
    asked = [Message(name=name, config_operation=op, value=value) for name, op, value in configs]
    resource = Message(resource_type=TOPIC, resource_name=topic, configs=asked)
    body = Message(resources=[resource], validate_only=False)
    (response,) = ask(broker, ApiKey.IncrementalAlterConfigs, version, body).responses
    return ErrorCode(response.error_code)


@pytest.mark.parametrize("version", range(3))
def test_alter_configs_replaces_all_settings(tmp_path: Path, version: int) -> None:
    with writable_broker(tmp_path, "t") as broker:
        assert alter(broker, version, ("retention.ms", "5"), ("segment.ms", "6")) is ErrorCode.NONE
        assert alter(broker, version, ("segment.ms", "7")) is ErrorCode.NONE
        assert broker.topics["t"].config == {"segment.ms": "7"}
    with writable_broker(tmp_path) as broker:
        assert broker.topics["t"].config == {"segment.ms": "7"}


@pytest.mark.parametrize("version", range(2))
def test_settings_are_set_deleted_appended_and_subtracted(tmp_path: Path, version: int) -> None:
    with writable_broker(tmp_path, "t") as broker:
        retention = ("retention.ms", SET, "5")
        assert change(broker, version, retention, ("segment.ms", SET, "6")) is ErrorCode.NONE
        assert change(broker, version, ("segment.ms", DELETE, None)) is ErrorCode.NONE
        policy = "cleanup.policy"
        assert change(broker, version, (policy, APPEND, "compact")) is ErrorCode.NONE
        assert broker.topics["t"].config == {"retention.ms": "5", policy: "delete,compact"}
        assert change(broker, version, (policy, SUBTRACT, "delete")) is ErrorCode.NONE
        assert broker.topics["t"].config[policy] == "compact"


def test_a_wrong_setting_changes_nothing(tmp_path: Path) -> None:
    invalid = ErrorCode.INVALID_CONFIG
    with writable_broker(tmp_path, "t") as broker:
        good = ("retention.ms", "5")
        assert alter(broker, 2, good, ("no.such", "1")) is invalid
        assert alter(broker, 2, good, ("segment.ms", None)) is ErrorCode.INVALID_REQUEST
        assert alter(broker, 2, good, ("retention.ms", "6")) is ErrorCode.INVALID_REQUEST
        assert alter(broker, 2, good, validate_only=True) is ErrorCode.NONE
        assert alter(broker, 2, good, topic="none") is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert alter(broker, 2, good, kind=BROKER, topic="0") is ErrorCode.INVALID_REQUEST
        assert change(broker, 1, ("retention.ms", APPEND, "5")) is invalid
        assert change(broker, 1, ("cleanup.policy", APPEND, "burn")) is invalid
        assert change(broker, 1, ("no.such", SET, "1")) is invalid
        assert change(broker, 1, ("no.such", APPEND, "1")) is invalid
        assert change(broker, 1, ("retention.ms", SET, None)) is ErrorCode.INVALID_REQUEST
        lags = [("min.compaction.lag.ms", SET, "10"), ("max.compaction.lag.ms", SET, "5")]
        assert change(broker, 1, *lags) is invalid
        twice = [("retention.ms", SET, "1"), ("retention.ms", DELETE, None)]
        assert change(broker, 1, *twice) is ErrorCode.INVALID_REQUEST
        assert change(broker, 1, ("retention.ms", 9, "5")) is ErrorCode.INVALID_REQUEST
        assert broker.topics["t"].config == {}


def test_an_unknown_setting_may_be_deleted(tmp_path: Path) -> None:
    with writable_broker(tmp_path, "t") as broker:
        assert change(broker, 1, ("no.such", DELETE, None)) is ErrorCode.NONE
        assert broker.topics["t"].config == {}


def test_a_change_is_checked_against_the_settings_before_it(tmp_path: Path) -> None:
    with writable_broker(tmp_path, "t") as broker:
        assert change(broker, 1, ("max.compaction.lag.ms", SET, "5")) is ErrorCode.NONE
        least = ("min.compaction.lag.ms", SET, "10")
        assert change(broker, 1, least) is ErrorCode.INVALID_CONFIG
        assert change(broker, 1, least, ("max.compaction.lag.ms", DELETE, None)) is ErrorCode.NONE


def test_lists_are_joined_and_parted_as_java_does_it(tmp_path: Path) -> None:
    throttled = "leader.replication.throttled.replicas"
    with writable_broker(tmp_path, "t") as broker:
        for operation, value, expected in (
            (APPEND, "0:1", "0:1"),
            (APPEND, "0:1,0:2,", "0:1,0:2"),
            (SUBTRACT, "*", "0:1,0:2"),
            (APPEND, "", "0:1,0:2,"),
            (SUBTRACT, "0:1", "0:2"),
        ):
            assert change(broker, 1, (throttled, operation, value)) is ErrorCode.NONE
            assert broker.topics["t"].config == {throttled: expected}
        assert change(broker, 1, ("cleanup.policy", SUBTRACT, "delete")) is ErrorCode.NONE
        assert broker.topics["t"].config["cleanup.policy"] == ""


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("a b", ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("..", ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("x" * 250, ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("", ErrorCode.INVALID_REQUEST),
        ("x" * 249, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ],
)
def test_an_invalid_topic_name_is_distinguished_from_an_unknown_one(
    tmp_path: Path, name: str, expected: ErrorCode
) -> None:
    with writable_broker(tmp_path, "t") as broker:
        assert alter(broker, 2, ("retention.ms", "5"), topic=name) is expected
        assert change(broker, 1, ("retention.ms", SET, "5"), topic=name) is expected


def test_an_operator_may_set_how_the_brokers_own_topic_is_kept(tmp_path: Path) -> None:
    name = "__consumer_offsets"
    with writable_broker(tmp_path, name) as broker:
        assert change(broker, 1, ("segment.bytes", SET, "1000"), topic=name) is ErrorCode.NONE
        assert broker.topics[name].config == {"segment.bytes": "1000"}


@pytest.mark.parametrize("kind", [0, BROKER, 8, 16])
def test_only_topics_have_settings_that_are_altered(tmp_path: Path, kind: int) -> None:
    with writable_broker(tmp_path, "t") as broker:
        resource = Message(resource_type=kind, resource_name="t", configs=[])
        body = Message(resources=[resource], validate_only=False)
        for api, version in ((ApiKey.AlterConfigs, 2), (ApiKey.IncrementalAlterConfigs, 1)):
            (response,) = ask(broker, api, version, body).responses
            assert (response.resource_type, response.resource_name) == (kind, "t")
            assert response.error_code == ErrorCode.INVALID_REQUEST
            assert response.error_message == "only topics' settings can be altered"


def test_the_operators_settings_are_not_kept_as_a_clients(tmp_path: Path) -> None:
    given = {"t": {"retention.ms": "9", "cleanup.policy": "compact"}}
    with writable_broker(tmp_path, "t", topics=given) as broker:
        assert change(broker, 1, ("segment.ms", SET, "5")) is ErrorCode.NONE
        assert broker.topics["t"].config == {"segment.ms": "5"} | given["t"]
    with writable_broker(tmp_path) as broker:
        assert broker.topics["t"].config == {"segment.ms": "5"}


@pytest.mark.parametrize("name", ["no.such", "retention.ms"])
@pytest.mark.parametrize("operation", [APPEND, SUBTRACT])
def test_only_lists_are_joined_and_parted(tmp_path: Path, name: str, operation: int) -> None:
    with writable_broker(tmp_path, "t") as broker:
        config = Message(name=name, config_operation=operation, value="5")
        resource = Message(resource_type=TOPIC, resource_name="t", configs=[config])
        body = Message(resources=[resource], validate_only=False)
        (response,) = ask(broker, ApiKey.IncrementalAlterConfigs, 1, body).responses
        assert response.error_code == ErrorCode.INVALID_CONFIG
        assert response.error_message.endswith(f"to key {name} because its type is not LIST.")
