"""`/readyz` of `serve --writable` reports a full disk."""

from pathlib import Path

import pytest

from downconvert.broker import Broker, BrokerConfig
from downconvert.broker.operating.disk_room import PATIENCE, DiskRoom
from downconvert.broker.server import Server
from downconvert.protocol.schemas import ApiKey, Message
from downconvert.storage import DiskFullError, LogDir
from downconvert.storage.disk.faulty_disk import FaultyDisk
from tests.downconvert.broker.talking import Talk
from tests.downconvert.storage.logs import batch


@pytest.fixture
def disk(tmp_path: Path) -> FaultyDisk:
    (tmp_path / "disk").mkdir()
    return FaultyDisk(tmp_path / "disk")


def opened(disk: FaultyDisk) -> Broker:
    log_dir = LogDir.open(disk.root, writable=True, files=disk)
    broker = Broker(log_dir, BrokerConfig(is_writable=True))
    broker.topics.create("t", 2, {}, 0)
    return broker


def append(broker: Broker, index: int = 0, size: int = 10) -> None:
    partition = broker.topics.partition("t", index)
    assert partition is not None
    writer = partition.log.writer
    writer.append(batch(writer.end_offset, size=size))


def test_a_server_is_not_ready_while_a_full_disk_fails_produces(disk: FaultyDisk) -> None:
    broker = opened(disk)
    with Server(broker) as server, Talk(server.address) as talk:
        data = [Message(index=0, records=batch(0))]
        body = Message(acks=1, timeout_ms=1000, topic_data=[Message(name="t", partition_data=data)])
        assert server.unready() == []
        disk.fill(is_full=True)
        for _ in range(3):
            response = talk.ask(ApiKey.Produce, 3, body).responses[0].partition_responses[0]
            assert response.error_code
            (reason,) = server.unready()
            assert reason.startswith("its disk is full")
        disk.fill(is_full=False)
        assert not talk.ask(ApiKey.Produce, 3, body).responses[0].partition_responses[0].error_code
        assert server.unready() == []


def test_room_is_found_also_where_nobody_writes_to_what_had_none(disk: FaultyDisk) -> None:
    broker = opened(disk)
    room = DiskRoom(broker.topics.log_dir)
    disk.fill(is_full=True)
    with pytest.raises(DiskFullError):
        append(broker)
    assert room.failure(0.0)
    assert room.failure(PATIENCE)  # it was looked for
    disk.fill(is_full=False)
    assert room.failure(2 * PATIENCE - 0.1)
    assert room.failure(2 * PATIENCE) is None
    assert not list(disk.root.glob("*.tmp"))


def test_one_file_that_has_room_says_nothing_of_another(disk: FaultyDisk) -> None:
    broker = opened(disk)
    room = DiskRoom(broker.topics.log_dir)
    partition = broker.topics.partition("t", 0)
    assert partition is not None
    disk.fill_for(next(partition.log.path.glob("*.log")))
    with pytest.raises(DiskFullError):
        append(broker, size=1000)
    append(broker, index=1)
    assert room.failure(0.0)
    disk.fill(is_full=False)
    append(broker, size=10)  # which says little of what there is room for
    assert room.failure(1.0)
    append(broker, size=1000)
    assert room.failure(2.0) is None
