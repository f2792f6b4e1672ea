"""A leader and its follower in one process, and the bytes between them."""

from io import BytesIO
from pathlib import Path
from typing import Any

from downconvert.broker import Broker, BrokerConfig
from downconvert.broker.partition import Partition
from downconvert.broker.replication.follower import Follower
from downconvert.broker.replication.replica import Leadership
from downconvert.broker.replication.replica_manager import Replication
from downconvert.protocol.decoder import Cursor, decode, reader
from downconvert.protocol.encoder import encode
from downconvert.protocol.schemas import ApiKey, Message
from downconvert.storage import LogDir, TopicPartition
from tests.downconvert.broker.asking import someone

NAMES = [TopicPartition("t", 0), TopicPartition("t", 1)]
NOW = 1000.0


def says(leader: int | None, epoch: int, version: int) -> dict[TopicPartition, Leadership]:
    both = frozenset({0, 1})
    said = Leadership(
        leader=leader, leader_epoch=epoch, replicas=(0, 1), isr=both, alive=both, version=version
    )
    return dict.fromkeys(NAMES, said)


class Pair:
    """Two brokers with two partitions, led by the first."""

    def __init__(self, paths: list[Path]) -> None:
        self.log_dirs = [LogDir.open(path, writable=True) for path in paths]
        for log_dir in self.log_dirs:
            for name in NAMES:
                log_dir.logs.create(name)
        self.brokers = [
            Broker(log_dir, BrokerConfig(node_id=node))
            for node, log_dir in enumerate(self.log_dirs)
        ]
        self.sides = [Replication(broker) for broker in self.brokers]
        self.lead(0, 1, 1)

    def lead(self, leader: int, epoch: int, version: int) -> None:
        for side in self.sides:
            side.assign(says(leader, epoch, version), NOW)

    def partition(self, node: int, index: int = 0) -> Partition:
        found = self.brokers[node].topics.partition("t", index)
        assert found is not None
        return found

    def response(self, follower: Follower, now: float = NOW) -> bytes:
        """The leader's response to the next request; without its length."""
        request = follower.request(now)
        assert request is not None
        leader = self.brokers[follower.leader]
        exchange = leader.handle(someone(), memoryview(request), now)
        leader.tick(now + 1)  # it does not wait for more
        assert exchange.send is not None
        channel = BytesIO()
        while not exchange.send.completed:
            exchange.send.write_to(channel)
        return channel.getvalue()[4:]

    def step(self, node: int = 1, now: float = NOW) -> None:
        (follower,) = self.sides[node].followers.values()
        follower.response(memoryview(self.response(follower, now)), now)

    def ends(self, index: int = 0) -> tuple[int, int]:
        return self.partition(0, index).end_offset, self.partition(1, index).end_offset

    def high_watermarks(self, index: int = 0) -> tuple[int, int]:
        return self.partition(0, index).high_watermark, self.partition(1, index).high_watermark

    def close(self) -> None:
        for log_dir in self.log_dirs:
            log_dir.close()


def stored(partition: Partition) -> bytes:
    return (partition.log.path / "00000000000000000000.log").read_bytes()


def asked(request: bytes | None) -> tuple[Message, Message]:
    """A request's header and body."""
    assert request is not None
    cursor = Cursor(memoryview(request))
    header = reader("RequestHeader", 2)(cursor)
    name = f"{ApiKey(header.request_api_key).name}Request"
    return header, decode(name, header.request_api_version, memoryview(request)[cursor.position :])


def partitions_of(request: bytes | None) -> list[int]:
    _, body = asked(request)
    return [
        getattr(one, "partition", getattr(one, "partition_index", None))
        for topic in body.topics
        for one in topic.partitions
    ]


def answered(request: bytes | None, **fields: Any) -> memoryview:
    """A response with the same fields for each partition that was asked for."""
    header, body = asked(request)
    topics = []
    if header.request_api_key == ApiKey.Fetch:
        filled = {"high_watermark": 0, "log_start_offset": 0, "records": b""} | fields
        for topic in body.topics:
            parts = [Message(partition_index=one.partition, **filled) for one in topic.partitions]
            topics.append(Message(topic_id=topic.topic_id, partitions=parts))
        response = Message(responses=topics)
    else:
        for topic in body.topics:
            parts = [
                Message(partition_index=one.partition_index, **fields) for one in topic.partitions
            ]
            topics.append(Message(name=topic.name, partitions=parts))
        response = Message(topics=topics)
    name, version = ApiKey(header.request_api_key).name, header.request_api_version
    start = encode("ResponseHeader", 1, Message(correlation_id=header.correlation_id))
    return memoryview(start + encode(f"{name}Response", version, response))
