"""Settings of topics: where they stay, and what they say of appending."""

import json
from pathlib import Path

import pytest

from downconvert.broker.config import BrokerConfig
from downconvert.broker.topic_configs import FILE_NAME, TopicConfigs, append_config
from downconvert.storage import CorruptFileError, DiskFullError
from downconvert.storage.disk.faulty_disk import FaultyDisk
from records.formats import V0, V1, V2, Codec
from tests.python_calls import python_calls


def test_stored_settings_survive_and_the_operators_have_precedence(
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
def test_a_damaged_file_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / FILE_NAME).write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(CorruptFileError, match=FILE_NAME):
        TopicConfigs(tmp_path, BrokerConfig())


def test_settings_for_appending_records() -> None:
    config = append_config({}, BrokerConfig(message_max_bytes=77, min_insync_replicas=2))
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
    config = append_config(own, BrokerConfig())
    assert (config.magic, config.codec, config.message_size_max) == (V1, Codec.NONE, 88)
    assert (config.is_compacted, config.is_append_time) == (True, True)
    old = append_config({"message.format.version": "0.9.0.1"}, BrokerConfig())
    assert old.magic == V0


def test_a_codec_has_the_level_that_the_topic_sets_for_it() -> None:
    levels = {
        "compression.gzip.level": "7",
        "compression.lz4.level": "12",
        "compression.zstd.level": "-5",
    }
    expected = {"gzip": 7, "lz4": 12, "zstd": -5, "snappy": "kafka", "producer": "kafka"}
    for codec, level in expected.items():
        own = levels | {"compression.type": codec}
        assert append_config(own, BrokerConfig()).level == level
        assert append_config({"compression.type": codec}, BrokerConfig()).level == "kafka"


def test_the_older_limit_of_timestamps_holds_where_the_newer_ones_are_not_set() -> None:
    both = {"message.timestamp.difference.max.ms": "77"}
    config = append_config(both, BrokerConfig())
    assert (config.before_max, config.after_max) == (77, 77)
    config = append_config(both | {"message.timestamp.before.max.ms": "5"}, BrokerConfig())
    assert (config.before_max, config.after_max) == (5, 77)


def test_stored_settings_of_earlier_versions_keep_their_meaning(
    tmp_path: Path,
) -> None:
    own = {"compression.type": "none", "message.format.version": "4.1", "max.message.bytes": " 7 "}
    text = json.dumps({"version": 1, "topics": {"t": own}})
    (tmp_path / FILE_NAME).write_text(text)
    found = TopicConfigs(tmp_path, BrokerConfig()).of("t")
    assert found == {
        "compression.type": "uncompressed",
        "message.format.version": "3.0-IV1",
        "max.message.bytes": "7",
    }


def test_settings_of_a_deleted_topic_go_also_while_the_disk_is_full(tmp_path: Path) -> None:
    """The next change removes them from the file, even if it changes nothing else."""
    disk = FaultyDisk(tmp_path)
    configs = TopicConfigs(tmp_path, BrokerConfig(), disk)
    configs.replace("t", {"retention.ms": "5"})
    configs.replace("u", {"retention.ms": "6"})
    disk.fill(is_full=True)
    configs.forget("t")
    assert (configs.kept("t"), configs.kept("u")) == ({}, {"retention.ms": "6"})
    assert TopicConfigs(tmp_path, BrokerConfig()).kept("t") == {"retention.ms": "5"}
    with pytest.raises(DiskFullError):
        configs.replace("t", {})
    disk.fill(is_full=False)
    configs.replace("t", {})
    again = TopicConfigs(tmp_path, BrokerConfig())
    assert (again.kept("t"), again.kept("u")) == ({}, {"retention.ms": "6"})


def test_a_change_that_cannot_be_stored_does_not_count(tmp_path: Path) -> None:
    disk = FaultyDisk(tmp_path)
    configs = TopicConfigs(tmp_path, BrokerConfig(), disk)
    configs.replace("t", {"retention.ms": "5"})
    disk.fill(is_full=True)
    for own in ({"retention.ms": "6"}, {}):
        with pytest.raises(DiskFullError):
            configs.replace("t", own)
        assert configs.kept("t") == configs.of("t") == {"retention.ms": "5"}


def test_a_change_that_changes_nothing_writes_nothing(tmp_path: Path) -> None:
    """Topics without settings of their own are created and deleted without this file."""
    disk = FaultyDisk(tmp_path)
    configs = TopicConfigs(tmp_path, BrokerConfig(), disk)
    configs.replace("t", {"retention.ms": "5"})
    disk.fill(is_full=True)
    configs.replace("t", {"retention.ms": "5"})
    configs.replace("u", {})
    configs.forget("u")
    for one in (configs, TopicConfigs(tmp_path, BrokerConfig())):
        assert (one.kept("t"), one.kept("u")) == ({"retention.ms": "5"}, {})


def test_a_change_encodes_only_the_settings_that_it_changes(tmp_path: Path) -> None:
    """All others are written again as they were, even if thousands of topics have settings."""

    def calls(count: int) -> int:
        (directory := tmp_path / str(count)).mkdir()
        topics = {f"t{n}": {"retention.ms": "5", "segment.ms": "6"} for n in range(count)}
        (directory / FILE_NAME).write_text(json.dumps({"version": 1, "topics": topics}))
        configs = TopicConfigs(directory, BrokerConfig())
        found = python_calls(lambda: configs.replace("t1", {"retention.ms": "7"}))
        again = TopicConfigs(directory, BrokerConfig())
        assert {topic: again.kept(topic) for topic in topics} == topics | {"t1": again.kept("t1")}
        assert again.kept("t1") == {"retention.ms": "7"}
        return found

    assert calls(300) == calls(3)


def test_names_and_values_with_any_characters_are_stored(tmp_path: Path) -> None:
    own = {"compression.type": "gzip"}
    name = 't"\\}\n,é'
    configs = TopicConfigs(tmp_path, BrokerConfig())
    configs.replace(name, own)
    configs.replace("u", own)
    again = TopicConfigs(tmp_path, BrokerConfig())
    assert configs.kept(name) == again.kept(name) == again.kept("u") == own


def test_settings_that_are_given_out_are_copies(tmp_path: Path) -> None:
    configs = TopicConfigs(tmp_path, BrokerConfig(topics={"u": {"segment.ms": "8"}}))
    own = {"retention.ms": "5"}
    configs.replace("t", own)
    for one in (own, configs.kept("t"), configs.of("t"), configs.of("u")):
        one["retention.ms"] = "9"
    assert (configs.of("t"), configs.of("u")) == ({"retention.ms": "5"}, {"segment.ms": "8"})
