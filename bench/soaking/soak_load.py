"""The load of a soak: producers and consumers of several versions, a group's member, groups that
commit once, and clients that come and go.

Not here: the duration and the measurements (soak.py)."""

import time
from contextlib import ExitStack
from typing import Final

from bench.servers.draining import Address, Wire
from bench.servers.old_clients import Consumer, Contents, Producer, answered
from downconvert.protocol.schemas import ApiKey, Message
from records import Codec
from records.units import KiB, MiB

TICK: Final = 0.2  # seconds between two produces of a producer
RECORDS: Final = 10  # of a produce
PARTITIONS: Final = 2  # of the topic that is cut by size
KEYS: Final = 500
MEMBER_SECONDS: Final = 60.0  # until a member leaves its group
PASSING_SECONDS: Final = 5.0  # between two groups that commit once
FETCH_VERSIONS: Final = (0, 1, 2, 4)
GROUP: Final = "soak"
CONFIGS: Final[dict[str, dict[str, int | str]]] = {
    "by-size": {"segment.bytes": 256 * KiB, "retention.bytes": 2 * MiB},
    "by-age": {"segment.bytes": 256 * KiB, "retention.ms": 120_000},
    "compacted": {
        "cleanup.policy": "compact",
        "segment.bytes": 256 * KiB,
        "delete.retention.ms": 30_000,
    },
}


class Member:
    """A group's member, as in 0.9. It joins, makes the assignment itself, commits, and leaves."""

    def __init__(self, address: Address) -> None:
        self._wire = Wire(address)
        protocols = [Message(name="range", metadata=b"")]
        joined = self._wire.ask(
            ApiKey.JoinGroup,
            0,
            Message(
                group_id=GROUP,
                session_timeout_ms=120_000,
                member_id="",
                protocol_type="consumer",
                protocols=protocols,
            ),
        )
        self._identity = {
            "group_id": GROUP,
            "generation_id": joined.generation_id,
            "member_id": joined.member_id,
        }
        assignments = [Message(member_id=joined.member_id, assignment=b"all")]
        synced = self._wire.ask(
            ApiKey.SyncGroup, 0, Message(**self._identity, assignments=assignments)
        )
        self._check(synced.error_code)

    def commit(self, offset: int) -> None:
        beat = self._wire.ask(ApiKey.Heartbeat, 0, Message(**self._identity))
        self._check(beat.error_code)
        commit(self._wire, offset, **self._identity)

    def leave(self) -> None:
        self._wire.ask(ApiKey.LeaveGroup, 0, Message(**self._identity))
        self._wire.socket.close()

    @staticmethod
    def _check(error_code: int) -> None:
        if error_code:
            raise RuntimeError(f"the group's member was told {error_code}")


def commit(wire: Wire, offset: int, *, group_id: str, generation_id: int, member_id: str) -> None:
    part = Message(
        partition_index=0, committed_offset=offset, commit_timestamp=-1, committed_metadata=""
    )
    response = wire.ask(
        ApiKey.OffsetCommit,
        1,
        Message(
            group_id=group_id,
            generation_id_or_member_epoch=generation_id,
            member_id=member_id,
            topics=[Message(name="by-size", partitions=[part])],
        ),
    )
    if error_code := response.topics[0].partitions[0].error_code:
        raise RuntimeError(f"a commit of {group_id} was told {error_code}")


class Load:
    """All clients. One step is a tick."""

    def __init__(self, address: Address, stack: ExitStack) -> None:
        self._address = address
        create(address)
        by_size = [Contents("by-size", partition) for partition in range(PARTITIONS)]
        by_age, compacted = Contents("by-age"), Contents("compacted", keys=KEYS)
        written = (
            (by_size[0], 0, Codec.NONE),
            (by_size[1], 2, Codec.GZIP),
            (by_age, 1, Codec.SNAPPY),
            (compacted, 3, Codec.NONE),
        )
        self.producers = [
            stack.enter_context(Producer(address, contents, version, codec))
            for contents, version, codec in written
        ]
        self.consumers = [
            stack.enter_context(
                Consumer(address, contents, version=version, skips=bool(contents.keys), wait=1000)
            )
            for contents, _, _ in written
            for version in FETCH_VERSIONS
        ]
        self._member: Member | None = None
        self._ticks = 0

    @property
    def records(self) -> int:
        return sum(producer.next_offset for producer in self.producers)

    def step(self) -> None:
        now = int(time.time() * 1000)
        for producer in self.producers:
            producer.send(RECORDS, now)
        for producer in self.producers:
            producer.acknowledged()
        for consumer in answered(self.consumers):
            consumer.take()
        for consumer in self.consumers:
            consumer.ask()
        self._ticks += 1
        if self._every(1.0):
            self._commit()
        if self._every(PASSING_SECONDS):
            self._commit_and_reconnect()

    def _every(self, seconds: float) -> bool:
        return self._ticks % round(seconds / TICK) == 0

    def _commit(self) -> None:
        if self._member is None:
            self._member = Member(self._address)
        self._member.commit(self._ticks)
        if self._every(MEMBER_SECONDS):
            self._member.leave()
            self._member = None

    def _commit_and_reconnect(self) -> None:
        """A new group commits once. A consumer and a producer reconnect, the consumer while it
        waits for a response."""
        with Wire(self._address) as wire:
            name = f"passing-{self._ticks}"
            commit(wire, self._ticks, group_id=name, generation_id=-1, member_id="")
        number = self._ticks // round(PASSING_SECONDS / TICK)
        self.consumers[number % len(self.consumers)].reconnect()
        self.producers[number % len(self.producers)].reconnect()


def create(address: Address) -> None:
    topics = [
        Message(
            name=name,
            num_partitions=PARTITIONS if name == "by-size" else 1,
            replication_factor=1,
            assignments=[],
            configs=[Message(name=key, value=str(value)) for key, value in configs.items()],
        )
        for name, configs in CONFIGS.items()
    ]
    with Wire(address) as wire:
        response = wire.ask(ApiKey.CreateTopics, 0, Message(topics=topics, timeout_ms=10_000))
    if any(topic.error_code for topic in response.topics):
        raise RuntimeError(f"topics were not made: {response.topics}")
