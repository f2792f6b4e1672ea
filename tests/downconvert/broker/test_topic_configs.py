"""Settings of topics: which there are, and where they stay."""

from pathlib import Path

import pytest

from downconvert.broker.config import BrokerConfig
from downconvert.broker.errors import ApiError
from downconvert.broker.topic_configs import FILE_NAME, SETTINGS, AppendConfig, TopicConfigs, check
from downconvert.storage import CorruptFileError
from records.formats import V0, V1, V2, Codec


def test_every_default_may_be_given() -> None:
    defaults: dict[str, str | None] = {name: one.default for name, one in SETTINGS.items()}
    assert check(defaults) == defaults


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("cleanup.policy", ("delete", "compact", "compact,delete", "delete, compact")),
        ("compression.type", ("producer", "none", "uncompressed", "zstd")),
        ("max.message.bytes", ("0", "2147483647", " 5 ")),
        ("retention.ms", ("-1", "9223372036854775807")),
        ("min.cleanable.dirty.ratio", ("0", "0.25", "1.0")),
        ("message.format.version", ("0.8.2", "0.10.2-IV0", "2.8")),
        ("leader.replication.throttled.replicas", ("", "*", "0:1,1:2")),
    ],
)
def test_what_a_setting_may_be(name: str, values: tuple[str, ...]) -> None:
    for value in values:
        assert check({name: value}) == {name: value.strip()}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("no.such.setting", "1"),
        ("cleanup.policy", "burn"),
        ("cleanup.policy", ""),
        ("compression.type", "LZ4"),
        ("max.message.bytes", "-1"),
        ("max.message.bytes", "2147483648"),
        ("max.message.bytes", "1_000"),
        ("max.message.bytes", "\u0661"),
        ("retention.ms", "-2"),
        ("retention.ms", "9" * 30),
        ("min.insync.replicas", "0"),
        ("min.cleanable.dirty.ratio", "1.5"),
        ("message.downconversion.enable", "yes"),
        ("message.format.version", "new"),
        ("retention.ms", None),
    ],
)
def test_what_a_setting_may_not_be(name: str, value: str | None) -> None:
    with pytest.raises(ApiError, match=r".*\S"):
        check({name: value})


def test_what_is_kept_is_there_again_and_what_an_operator_gives_comes_first(
    tmp_path: Path,
) -> None:
    kept = TopicConfigs(tmp_path, BrokerConfig())
    kept.replace("t", {"retention.ms": "5", "segment.ms": "6"})
    kept.replace("u", {"retention.ms": "7"})
    kept.replace("u", {})
    given = BrokerConfig(topics={"t": {"retention.ms": "8"}})
    again = TopicConfigs(tmp_path, given)
    assert again.of("t") == {"retention.ms": "8", "segment.ms": "6"}
    assert again.kept("t") == {"retention.ms": "5", "segment.ms": "6"}
    assert again.of("u") == {}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"version": 2, "topics": {}}',
        '{"version": 1, "topics": {"t": 5}}',
        '{"version": 1, "topics": {"t": {"a": "b"}}}',
        '{"version": 1, "topics": {"t": {"retention.ms": 5}}}',
        "\udcff",
    ],
)
def test_a_file_that_somebody_broke_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / FILE_NAME).write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(CorruptFileError, match=FILE_NAME):
        TopicConfigs(tmp_path, BrokerConfig())


def test_what_decides_how_records_are_taken_in() -> None:
    config = AppendConfig.of({}, BrokerConfig(message_max_bytes=77, min_insync_replicas=2))
    assert (config.magic, config.codec, config.message_size_max) == (V2, None, 77)
    assert (config.is_compacted, config.is_append_time) == (False, False)
    assert config.min_insync_replicas == 2
    own = {
        "message.format.version": "0.10.1",
        "compression.type": "uncompressed",
        "cleanup.policy": "delete,compact",
        "message.timestamp.type": "LogAppendTime",
        "max.message.bytes": "88",
    }
    config = AppendConfig.of(own, BrokerConfig())
    assert (config.magic, config.codec, config.message_size_max) == (V1, Codec.NONE, 88)
    assert (config.is_compacted, config.is_append_time) == (True, True)
    old = AppendConfig.of({"message.format.version": "0.9.0.1"}, BrokerConfig())
    assert old.magic == V0
