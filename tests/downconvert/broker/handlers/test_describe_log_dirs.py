"""DescribeLogDirs: bytes on the disk."""

import shutil
from pathlib import Path

import pytest

from downconvert.broker import Broker
from downconvert.protocol.schemas import ApiKey, Message
from downconvert.storage import LogConfig, LogDir
from tests.downconvert.broker.asking import ask
from tests.downconvert.broker.writable import writable_broker
from tests.downconvert.storage.logs import batch


@pytest.mark.parametrize("version", range(6))
def test_log_dirs_are_described_with_partitions_and_sizes(tmp_path: Path, version: int) -> None:
    with writable_broker(tmp_path, "t", "u", partitions=2) as broker:
        partition = broker.topics.partition("t", 1)
        assert partition is not None
        data = batch(0, 1)
        partition.log.writer.append(data)
        (found,) = ask(broker, ApiKey.DescribeLogDirs, version, Message(topics=None)).results
        assert (found.error_code, found.log_dir) == (0, str(tmp_path))
        sizes = {
            (topic.name, one.partition_index): one.partition_size
            for topic in found.topics
            for one in topic.partitions
        }
        assert sizes == {("t", 0): 0, ("t", 1): len(data), ("u", 0): 0, ("u", 1): 0}
        if version >= 4:
            assert found.total_bytes >= found.usable_bytes > 0
        some = Message(topics=[Message(topic="t", partitions=[1, 5]), Message(topic="none")])
        some.topics[1].partitions = [0]
        (found,) = ask(broker, ApiKey.DescribeLogDirs, version, some).results
        assert [topic.name for topic in found.topics] == ["t"]
        assert [one.partition_index for one in found.topics[0].partitions] == [1]


def test_a_topic_without_existing_partitions_is_left_out(tmp_path: Path) -> None:
    with writable_broker(tmp_path, "t") as broker:
        for index, expected in ((0, ["t"]), (7, [])):
            body = Message(topics=[Message(topic="t", partitions=[index])])
            (result,) = ask(broker, ApiKey.DescribeLogDirs, 2, body).results
            assert [one.name for one in result.topics] == expected


def test_each_requested_topic_is_reported(tmp_path: Path) -> None:
    with writable_broker(tmp_path, "a", "b", "c") as broker:
        for name in "abc":
            body = Message(topics=[Message(topic=name, partitions=[0])])
            (result,) = ask(broker, ApiKey.DescribeLogDirs, 2, body).results
            assert [one.name for one in result.topics] == [name]


def test_a_partition_that_another_process_has_just_deleted_is_left_out(tmp_path: Path) -> None:
    small = LogConfig(segment_bytes=len(batch(0)))
    with writable_broker(tmp_path, "t", "u", log_config=small) as broker:
        for offset in range(3):
            broker.topics["t"].partitions[0].log.writer.append(batch(offset))
    with LogDir.open(tmp_path) as log_dir:
        broker = Broker(log_dir)
        shutil.rmtree(tmp_path / "t-0")
        (found,) = ask(broker, ApiKey.DescribeLogDirs, 2, Message(topics=None)).results
        assert [topic.name for topic in found.topics] == ["u"]
