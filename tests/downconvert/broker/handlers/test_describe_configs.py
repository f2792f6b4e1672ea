"""DescribeConfigs: of topics and of the broker, in every version."""

from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from downconvert.broker import Broker, BrokerConfig
from downconvert.broker.topic_settings import SETTINGS, ConfigType
from downconvert.protocol.errors import ErrorCode
from downconvert.protocol.schemas import ApiKey, Message
from tests.downconvert.broker.asking import ask
from tests.downconvert.broker.writable import writable_broker

TOPIC, BROKER = 2, 4


def describe(
    broker: Broker, version: int, kind: int, name: str, keys: list[str] | None = None, **fields: Any
) -> Message:
    resource = Message(resource_type=kind, resource_name=name, configuration_keys=keys)
    body = Message(resources=[resource], **fields)
    (result,) = ask(broker, ApiKey.DescribeConfigs, version, body).results
    assert (result.resource_type, result.resource_name) == (kind, name)
    found: Message = result
    return found


@pytest.mark.parametrize("version", range(5))
def test_a_topic_s_settings_and_where_they_come_from(tmp_path: Path, version: int) -> None:
    with writable_broker(tmp_path, "t", message_max_bytes=5000) as broker:
        broker.topics.configure("t", {"retention.ms": "5"})
        result = describe(broker, version, TOPIC, "t")
        found = {config.name: config for config in result.configs}
        assert found.keys() == SETTINGS.keys()
        values = {name: found[name].value for name in ("retention.ms", "max.message.bytes")}
        assert values == {"retention.ms": "5", "max.message.bytes": "5000"}
        if version == 0:
            assert not found["retention.ms"].is_default
            assert found["cleanup.policy"].is_default
        else:
            sources = (found[name].config_source for name in (*values, "cleanup.policy"))
            assert list(sources) == [1, 4, 5]
        if version >= 3:
            assert found["retention.ms"].config_type == ConfigType.LONG
        assert all(not list(config.synonyms) for config in result.configs)


def test_chosen_settings_have_their_synonyms(tmp_path: Path) -> None:
    with writable_broker(tmp_path, "t") as broker:
        broker.topics.configure("t", {"retention.ms": "5"})
        result = describe(broker, 4, TOPIC, "t", ["retention.ms", "no.such"], include_synonyms=True)
        (config,) = result.configs
        assert [(one.name, one.value, one.source) for one in config.synonyms] == [
            ("retention.ms", "5", 1),
            ("log.retention.hours", "168", 5),
        ]


def test_the_brokers_own_settings_are_read_only(tmp_path: Path) -> None:
    with writable_broker(tmp_path, message_max_bytes=5000) as broker:
        result = describe(broker, 4, BROKER, "0")
        found = {config.name: config.value for config in result.configs}
        assert found["message.max.bytes"] == "5000"
        assert found["broker.id"] == "0"
        assert all(config.read_only for config in result.configs)


def test_each_of_the_brokers_settings_has_its_own_value(tmp_path: Path) -> None:
    with writable_broker(tmp_path) as broker:
        described = [one.name for one in describe(broker, 4, BROKER, "0").configs]
    known = {one.name for one in fields(BrokerConfig)}
    names = {name: name.replace(".", "_") for name in described}
    values = {name: 20 + n for n, name in enumerate(described) if names[name] in known}
    assert set(described) - values.keys() == {
        "auto.create.topics.enable",
        "broker.id",
        "default.replication.factor",
        "log.dirs",
    }
    config = {names[name]: value for name, value in values.items()}
    with writable_broker(tmp_path, **config) as broker:
        found = {one.name: one.value for one in describe(broker, 4, BROKER, "0").configs}
    assert {name: found[name] for name in values} == {
        name: str(value) for name, value in values.items()
    }


def test_all_brokers_together_have_no_settings(tmp_path: Path) -> None:
    with writable_broker(tmp_path) as broker:
        result = describe(broker, 4, BROKER, "")
        assert (result.error_code, list(result.configs)) == (ErrorCode.NONE, [])


@pytest.mark.parametrize(
    ("kind", "name", "expected"),
    [
        (TOPIC, "none", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (TOPIC, "a/b", ErrorCode.INVALID_TOPIC_EXCEPTION),
        (BROKER, "7", ErrorCode.INVALID_REQUEST),
        (8, "0", ErrorCode.INVALID_REQUEST),
        (-1, "", ErrorCode.INVALID_REQUEST),
    ],
)
def test_resources_that_do_not_exist_have_an_error_and_no_settings(
    tmp_path: Path, kind: int, name: str, expected: ErrorCode
) -> None:
    with writable_broker(tmp_path, "t") as broker:
        result = describe(broker, 4, kind, name)
        assert result.error_code == expected
        assert list(result.configs) == []


def test_there_are_no_client_metrics_to_describe(tmp_path: Path) -> None:
    with writable_broker(tmp_path) as broker:
        for name, expected in (("m", ErrorCode.NONE), ("", ErrorCode.INVALID_REQUEST)):
            result = describe(broker, 4, 16, name)
            assert (result.error_code, list(result.configs)) == (expected, [])


def test_an_empty_list_of_keys_means_all_settings(tmp_path: Path) -> None:
    with writable_broker(tmp_path, "t") as broker:
        assert len(describe(broker, 4, TOPIC, "t", []).configs) == len(SETTINGS)


def test_resources_that_do_not_exist_have_a_message(tmp_path: Path) -> None:
    with writable_broker(tmp_path, "t", node_id=3) as broker:
        messages = [describe(broker, 4, kind, "0").error_message for kind in (TOPIC, BROKER)]
        assert messages == ["there is no topic 0", "this is broker 3, not '0'"]


def test_a_default_of_the_broker_is_a_synonym_with_its_source(tmp_path: Path) -> None:
    names = ["max.message.bytes", "min.insync.replicas", "flush.ms", "cleanup.policy"]
    with writable_broker(tmp_path, "t", message_max_bytes=5000) as broker:
        broker.topics.configure("t", {"max.message.bytes": "70"})
        result = describe(broker, 4, TOPIC, "t", names, include_synonyms=True)
        found = {
            one.name: (
                one.value,
                one.config_source,
                [(each.name, each.value, each.source) for each in one.synonyms],
            )
            for one in result.configs
        }
        assert all(not one.read_only and not one.is_sensitive for one in result.configs)
        version_0 = describe(broker, 0, TOPIC, "t", names)
        assert {one.name: one.is_default for one in version_0.configs} == {
            "max.message.bytes": False,
            "min.insync.replicas": True,
            "flush.ms": True,
            "cleanup.policy": True,
        }
        broker.topics.configure("t", {})
        version_0 = describe(broker, 0, TOPIC, "t", ["max.message.bytes"])
        assert not version_0.configs[0].is_default  # it is the broker's
    assert found == {
        "max.message.bytes": (
            "70",
            1,
            [("max.message.bytes", "70", 1), ("message.max.bytes", "5000", 4)],
        ),
        "min.insync.replicas": ("1", 5, [("min.insync.replicas", "1", 5)]),
        "flush.ms": (str(2**63 - 1), 5, []),
        "cleanup.policy": ("delete", 5, [("log.cleanup.policy", "delete", 5)]),
    }


def test_the_settings_of_the_broker_have_types_and_themselves_as_synonyms(tmp_path: Path) -> None:
    with writable_broker(tmp_path, auto_create_topics=True, num_partitions=6) as broker:
        result = describe(broker, 4, BROKER, "0", include_synonyms=True)
        found = {one.name: one for one in result.configs}
        expected = {
            "auto.create.topics.enable": ("true", ConfigType.BOOLEAN),
            "num.partitions": ("6", ConfigType.INT),
            "log.dirs": (str(tmp_path), ConfigType.STRING),
        }
        for name, (value, kind) in expected.items():
            one = found[name]
            assert (one.value, one.config_type, one.config_source) == (value, kind, 4)
            assert [(each.name, each.value, each.source) for each in one.synonyms] == [
                (name, value, 4)
            ]
