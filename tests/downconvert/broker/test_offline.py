"""An offline partition does not affect other partitions, and clients learn that it is offline."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from downconvert.broker import Broker, BrokerConfig
from downconvert.broker.operating.following import Following
from downconvert.protocol.errors import ErrorCode
from downconvert.protocol.schemas import ApiKey, Message
from downconvert.storage import LogDir, LogDirOfflineError, TopicPartition
from downconvert.storage.disk.faulty_disk import FaultyDisk
from tests.downconvert.storage.logs import UNSYNCED, batch

from .asking import ask, someone

TOPIC = "t"


def produced(broker: Broker, index: int) -> ErrorCode:
    body = Message(
        transactional_id=None,
        acks=1,
        timeout_ms=1000,
        topic_data=[
            Message(
                name=TOPIC, partition_data=[Message(index=index, records=batch(0, timestamp=9))]
            )
        ],
    )
    response = ask(broker, ApiKey.Produce, 8, body)
    return ErrorCode(response.responses[0].partition_responses[0].error_code)


def fetched(broker: Broker, index: int) -> ErrorCode:
    one = Message(partition=index, fetch_offset=0, partition_max_bytes=1 << 20)
    body = Message(max_wait_ms=0, min_bytes=0, topics=[Message(topic=TOPIC, partitions=[one])])
    response = ask(broker, ApiKey.Fetch, 11, body)
    return ErrorCode(response.responses[0].partitions[0].error_code)


def described(broker: Broker) -> dict[int, tuple[Any, ...]]:
    response = ask(broker, ApiKey.Metadata, 9, Message(topics=[Message(name=TOPIC)]))
    return {
        one.partition_index: (one.error_code, one.leader_id, list(one.offline_replicas))
        for one in response.topics[0].partitions
    }


def made(path: Path) -> None:
    with LogDir.open(path, writable=True, files=UNSYNCED) as log_dir:
        for index in range(2):
            log_dir.logs.create(TopicPartition(TOPIC, index)).writer.append(batch(0))


@pytest.mark.parametrize("bad", ["00000000000000000005.log", "partition.metadata"])
def test_a_bad_partition_is_offline_and_the_broker_serves_the_others(
    tmp_path: Path, bad: str
) -> None:
    made(tmp_path)
    os.mkfifo(tmp_path / "t-1" / bad)
    with LogDir.open(tmp_path, writable=True, files=UNSYNCED) as log_dir:
        broker = Broker(log_dir, BrokerConfig(is_writable=True))
        node = broker.config.node_id
        assert produced(broker, 0) is fetched(broker, 0) is ErrorCode.NONE
        assert produced(broker, 1) is fetched(broker, 1) is ErrorCode.KAFKA_STORAGE_ERROR
        assert described(broker) == {
            0: (ErrorCode.NONE, node, []),
            1: (ErrorCode.LEADER_NOT_AVAILABLE, -1, [node]),
        }
        assert broker.producer_ids.take() >= 0
        body = Message(
            topics=[Message(name=TOPIC, partitions=[Message(partition_index=1, offset=-1)])],
            timeout_ms=1000,
        )
        response = ask(broker, ApiKey.DeleteRecords, 1, body)
        code = response.topics[0].partitions[0].error_code
        assert code == ErrorCode.KAFKA_STORAGE_ERROR
        broker.topics.delete(TOPIC)  # a way to be rid of it
        assert not [path for path in tmp_path.iterdir() if path.is_dir()]


def test_a_follower_of_a_directory_sees_a_repaired_partition(tmp_path: Path) -> None:
    made(tmp_path)
    bad = tmp_path / "t-1" / "00000000000000000005.log"
    os.mkfifo(bad)
    with LogDir.open(tmp_path) as log_dir:
        broker = Broker(log_dir)
        assert fetched(broker, 1) is ErrorCode.KAFKA_STORAGE_ERROR
        bad.unlink()
        broker.topics.refresh()
        assert fetched(broker, 1) is ErrorCode.NONE


def test_after_a_failed_sync_all_partitions_are_offline(tmp_path: Path) -> None:
    made(tmp_path)
    disk = FaultyDisk(tmp_path)
    with LogDir.open(tmp_path, writable=True, files=disk) as log_dir:
        broker = Broker(log_dir, BrokerConfig(is_writable=True))
        log_dir.logs[TopicPartition(TOPIC, 0)].writer.append(batch(1))
        disk.fail_next("sync")
        with pytest.raises(LogDirOfflineError):
            log_dir.logs[TopicPartition(TOPIC, 0)].writer.flush()
        node = broker.config.node_id
        for index in range(2):
            assert produced(broker, index) is ErrorCode.KAFKA_STORAGE_ERROR
            assert fetched(broker, index) is ErrorCode.KAFKA_STORAGE_ERROR
            assert described(broker)[index] == (ErrorCode.LEADER_NOT_AVAILABLE, -1, [node])
        response = ask(broker, ApiKey.DescribeLogDirs, 1, Message(topics=None))
        assert response.results[0].error_code == ErrorCode.KAFKA_STORAGE_ERROR


def test_a_topic_is_deleted_on_a_full_disk_and_its_settings_are_not_the_next_ones(
    tmp_path: Path,
) -> None:
    disk = FaultyDisk(tmp_path)
    with LogDir.open(tmp_path, writable=True, files=disk) as log_dir:
        broker = Broker(log_dir, BrokerConfig(is_writable=True))
        broker.topics.create(TOPIC, 2, {"cleanup.policy": "compact"}, 0)
        assert produced(broker, 0) is not ErrorCode.KAFKA_STORAGE_ERROR
        disk.fill(is_full=True)
        body = Message(topic_names=[TOPIC], timeout_ms=1000)
        response = ask(broker, ApiKey.DeleteTopics, 1, body, client=someone())
        assert response.responses[0].error_code == ErrorCode.NONE
        assert TOPIC not in broker.topics
        disk.fill(is_full=False)
        assert broker.topics.create(TOPIC, 1, {}, 1).config == {}
    with LogDir.open(tmp_path, writable=True, files=UNSYNCED) as log_dir:
        broker = Broker(log_dir, BrokerConfig(is_writable=True))
        assert broker.topics[TOPIC].config == {}


def test_a_topic_that_could_not_be_deleted_is_a_topic_still(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made(tmp_path)
    with LogDir.open(tmp_path, writable=True, files=UNSYNCED) as log_dir:
        broker = Broker(log_dir, BrokerConfig(is_writable=True))
        with monkeypatch.context() as patched:

            def stays(source: Path, target: Path) -> None:
                raise PermissionError(f"{source} to {target}")

            patched.setattr(log_dir.logs.files, "rename", stays)
            with pytest.raises(PermissionError):
                broker.topics.delete(TOPIC)
        assert produced(broker, 0) is fetched(broker, 0) is ErrorCode.NONE
        assert produced(broker, 1) is ErrorCode.NONE


def link_to_itself(path: Path) -> None:
    path.unlink(missing_ok=True)
    path.symlink_to(path)


def dangling_link(path: Path) -> None:
    path.unlink(missing_ok=True)
    path.symlink_to("nowhere")


PLACES = [
    ".",  # the partition's directory
    "00000000000000000000.log",
    "00000000000000000000.index",
    "00000000000000000000.timeindex",
    "00000000000000000000.txnindex",
    "00000000000000000005.log",
    "00000000000000000001.snapshot",
    "leader-epoch-checkpoint",
    "partition.metadata",
]


@pytest.mark.parametrize("how", ["write", "follow", "follow, and it comes"])
@pytest.mark.parametrize("spoil", [link_to_itself, dangling_link])
@pytest.mark.parametrize("place", PLACES)
def test_a_bad_partition_does_not_stop_a_broker(
    tmp_path: Path, place: str, spoil: Callable[[Path], None], how: str
) -> None:
    made(tmp_path)
    bad = tmp_path / "t-1" / place

    def spoiled() -> None:
        if place == ".":
            shutil.rmtree(bad)
        else:
            bad.unlink(missing_ok=True)
        spoil(bad)

    if "comes" not in how:
        spoiled()
    writable = how == "write"
    with LogDir.open(tmp_path, writable=writable, files=UNSYNCED) as log_dir:
        broker = Broker(log_dir, BrokerConfig(is_writable=writable))
        if "follow" in how:
            following = Following(broker)
            for now in range(3):
                following.refresh(float(now))
                assert fetched(broker, 0) is ErrorCode.NONE
                if now == 0 and "comes" in how:
                    spoiled()
            following.refresh(3.0)
        assert fetched(broker, 0) is ErrorCode.NONE
        if writable:
            assert produced(broker, 0) is ErrorCode.NONE
        fetched(broker, 1)  # has a response
        described(broker)


@pytest.mark.parametrize("spoil", [link_to_itself, os.mkfifo])
@pytest.mark.parametrize("writable", [False, True])
@pytest.mark.parametrize(
    "name",
    [
        "recovery-point-offset-checkpoint",
        "replication-offset-checkpoint",
        "log-start-offset-checkpoint",
        "cleaner-offset-checkpoint",
        "topic-configs",
    ],
)
def test_a_bad_file_of_the_directory_does_not_stop_a_broker(
    tmp_path: Path, name: str, spoil: Callable[[Path], None], *, writable: bool
) -> None:
    made(tmp_path)
    (tmp_path / name).unlink(missing_ok=True)
    spoil(tmp_path / name)
    with LogDir.open(tmp_path, writable=writable, files=UNSYNCED) as log_dir:
        broker = Broker(log_dir, BrokerConfig(is_writable=writable))
        if not writable:
            Following(broker).refresh(0.0)
        assert fetched(broker, 0) is ErrorCode.NONE
