"""Which settings topics have, which values, and how these are shown: as in Kafka 3.9.1.

Not here: Kafka itself, asked the same (test_api_differential.py)."""

import pytest

from downconvert.broker.config import BrokerConfig
from downconvert.broker.topic_settings import (
    SETTINGS,
    ConfigType,
    check,
    default_of,
    is_valid,
    magic_of,
    parse,
)
from downconvert.protocol.errors import ApiError

INT_MAX, LONG_MIN, LONG_MAX = 2**31 - 1, -(2**63), 2**63 - 1

BOUNDS = {  # the least and the greatest value of each setting that is a whole number
    "compression.lz4.level": (1, 17),
    "compression.zstd.level": (-131_072, 22),
    "delete.retention.ms": (0, LONG_MAX),
    "file.delete.delay.ms": (0, LONG_MAX),
    "flush.messages": (1, LONG_MAX),
    "flush.ms": (0, LONG_MAX),
    "index.interval.bytes": (0, INT_MAX),
    "local.retention.bytes": (-2, LONG_MAX),
    "local.retention.ms": (-2, LONG_MAX),
    "max.compaction.lag.ms": (1, LONG_MAX),
    "max.message.bytes": (0, INT_MAX),
    "message.timestamp.after.max.ms": (0, LONG_MAX),
    "message.timestamp.before.max.ms": (0, LONG_MAX),
    "message.timestamp.difference.max.ms": (0, LONG_MAX),
    "min.compaction.lag.ms": (0, LONG_MAX),
    "min.insync.replicas": (1, INT_MAX),
    "retention.bytes": (LONG_MIN, LONG_MAX),
    "retention.ms": (-1, LONG_MAX),
    "segment.bytes": (14, INT_MAX),
    "segment.index.bytes": (4, INT_MAX),
    "segment.jitter.ms": (0, LONG_MAX),
    "segment.ms": (1, LONG_MAX),
}


def test_every_default_may_be_given_and_is_shown_as_it_is() -> None:
    defaults: dict[str, str | None] = {name: one.default for name, one in SETTINGS.items()}
    assert check(defaults) == defaults


def test_every_whole_number_has_its_bounds() -> None:
    numbers = {n for n, one in SETTINGS.items() if one.type in (ConfigType.INT, ConfigType.LONG)}
    assert numbers == BOUNDS.keys() | {"compression.gzip.level"}
    for name, (least, most) in BOUNDS.items():
        assert parse({name: f"{least}"}) == {name: f"{least}"}
        assert parse({name: f"{most}"}) == {name: f"{most}"}
        for value in (least - 1, most + 1):
            assert not is_valid(name, f"{value}")
            with pytest.raises(ApiError, match=name):
                parse({name: f"{value}"})


def test_a_topic_without_settings_has_those_of_the_broker_or_of_kafka() -> None:
    config = BrokerConfig(message_max_bytes=77, min_insync_replicas=3)
    brokers = {"max.message.bytes": "77", "min.insync.replicas": "3"}
    for name, one in SETTINGS.items():
        assert default_of(name, config) == brokers.get(name, one.default)


@pytest.mark.parametrize(
    ("version", "magic"),
    [
        ("0.8.2", 0),
        ("0.9.0.1", 0),
        ("0.10.0", 1),
        ("0.10.2-IV0", 1),
        ("0.11.0-IV0", 2),
        ("1.0", 2),
        ("2.8-IV1", 2),
        ("3.9.1", 2),
    ],
)
def test_each_release_writes_its_format(version: str, magic: int) -> None:
    assert is_valid("message.format.version", version)
    assert magic_of(version) == magic


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("cleanup.policy", ("", "delete", "compact", "compact,delete", "delete,delete")),
        ("compression.type", ("producer", "uncompressed", "zstd")),
        ("compression.gzip.level", ("-1", "1", "9")),
        ("compression.lz4.level", ("1", "17")),
        ("compression.zstd.level", ("-131072", "0", "22")),
        ("local.retention.ms", ("-2", "-1", "0")),
        ("max.message.bytes", ("0", "2147483647")),
        ("retention.ms", ("-1", f"{LONG_MAX}")),
        ("retention.bytes", ("-1", "-7", f"{-LONG_MAX - 1}")),
        ("min.cleanable.dirty.ratio", ("0.25", "1.0", "1.0E-4", "0.001")),
        ("message.format.version", ("0.8.2", "0.10.2-IV0", "2.8", "3.9.1", "4.0-IV0", "1.0.5")),
        ("leader.replication.throttled.replicas", ("", "*", "0:1,1:2", "0:1,", ",0:1", "*,")),
        ("remote.log.copy.disable", ("true", "false")),
    ],
)
def test_valid_values_of_settings_are_accepted(name: str, values: tuple[str, ...]) -> None:
    for value in values:
        assert check({name: value}) == {name: value}


@pytest.mark.parametrize(
    ("name", "value", "shown"),
    [
        ("preallocate", "TRUE", "true"),
        ("preallocate", " False ", "false"),
        ("max.message.bytes", " +05\t", "5"),
        ("max.message.bytes", "\u0665", "5"),
        ("retention.ms", "0" * 40 + "5", "5"),
        ("compression.type", " gzip", "gzip"),
        ("cleanup.policy", " compact , delete", "compact,delete"),
        ("min.cleanable.dirty.ratio", "1", "1.0"),
        ("min.cleanable.dirty.ratio", ".5f", "0.5"),
        ("min.cleanable.dirty.ratio", "0.00012345", "1.2345E-4"),
        ("min.cleanable.dirty.ratio", "0", "0.0"),
        ("min.cleanable.dirty.ratio", "1e-3", "0.001"),
        ("min.cleanable.dirty.ratio", "0.000999", "9.99E-4"),
        ("min.cleanable.dirty.ratio", "1e-10", "1.0E-10"),
        ("message.format.version", " 2.0 ", "2.0"),
    ],
)
def test_a_value_is_shown_as_java_shows_it(name: str, value: str, shown: str) -> None:
    assert check({name: value}) == {name: shown}
    assert check({name: shown}) == {name: shown}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("no.such.setting", "1"),
        ("cleanup.policy", "burn"),
        ("cleanup.policy", "delete,"),
        ("compression.type", "LZ4"),
        ("compression.type", "none"),
        ("compression.gzip.level", "0"),
        ("compression.gzip.level", "10"),
        ("compression.lz4.level", "18"),
        ("compression.zstd.level", "23"),
        ("compression.zstd.level", "-131073"),
        ("local.retention.bytes", "-3"),
        ("max.message.bytes", "-1"),
        ("max.message.bytes", "2147483648"),
        ("max.message.bytes", "1_000"),
        ("max.message.bytes", "5.0"),
        ("max.message.bytes", "\xa05"),
        ("retention.ms", "-2"),
        ("retention.ms", f"{LONG_MAX + 1}"),
        ("retention.ms", "9" * 3000),
        ("min.insync.replicas", "0"),
        ("min.cleanable.dirty.ratio", "1.5"),
        ("min.cleanable.dirty.ratio", "-1"),
        ("min.cleanable.dirty.ratio", "."),
        ("message.downconversion.enable", "yes"),
        ("message.format.version", "new"),
        ("message.format.version", "4.0"),
        ("message.format.version", "1"),
        ("message.format.version", "0.10"),
        ("message.format.version", "3.9-IV1"),
        ("message.format.version", "2.0."),
        ("leader.replication.throttled.replicas", "0:a"),
        ("leader.replication.throttled.replicas", "*,0:1"),
        ("remote.storage.enable", "true"),
        ("retention.ms", None),
    ],
)
def test_invalid_values_of_settings_are_refused(name: str, value: str | None) -> None:
    with pytest.raises(ApiError, match=r".*\S"):
        check({name: value})


def test_settings_must_not_contradict_each_other() -> None:
    least, most = "min.compaction.lag.ms", "max.compaction.lag.ms"
    assert check({least: "5", most: "5"})
    with pytest.raises(ApiError, match=r"min\.compaction\.lag\.ms \(10\) > max"):
        check({least: "10", most: "5"})
    assert parse({least: "10", most: "5"}) == {least: "10", most: "5"}  # each alone is fine
