"""Subscriptions and assignments of consumers, as bytes: the protocol type "consumer".

As in Kafka's ConsumerProtocol, an unknown later version is read as the newest known one, and the
remaining bytes are ignored. Topics are written sorted, each with one sorted list of its
partitions."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Final, TypeAlias

from .decoder import NUMBERS, Cursor, reader
from .encoder import encode
from .errors import BadRequestError
from .schemas import Message, schema

Partition: TypeAlias = tuple[str, int]  # topic, index

VERSION: Final = NUMBERS["int16"]
NO_GENERATION: Final = -1


@dataclass(frozen=True, slots=True)
class Subscription:
    """The topics that a member subscribes to, and the partitions that it owns."""

    topics: tuple[str, ...]
    user_data: bytes | None = None
    owned: frozenset[Partition] = field(default_factory=frozenset)  # from version 1 on
    generation: int = NO_GENERATION  # in which it got them; from version 2 on
    rack: str | None = None  # from version 3 on


@dataclass(frozen=True, slots=True)
class Assignment:
    """The partitions that a member is assigned."""

    partitions: frozenset[Partition]
    user_data: bytes | None = None


def read_subscription(data: bytes | memoryview) -> Subscription:
    """A subscription. Raises BadRequestError if the bytes are malformed."""
    found = _read("ConsumerProtocolSubscription", data)
    return Subscription(
        tuple(found.topics),
        _owned_bytes(found.user_data),
        _partitions(found.owned_partitions),
        found.generation_id,
        found.rack_id,
    )


def write_subscription(subscription: Subscription, version: int = 3) -> bytes:
    return _write(
        "ConsumerProtocolSubscription",
        version,
        Message(
            topics=sorted(subscription.topics),
            user_data=subscription.user_data,
            owned_partitions=_topics(subscription.owned),
            generation_id=subscription.generation,
            rack_id=subscription.rack,
        ),
    )


def read_assignment(data: bytes | memoryview) -> Assignment:
    """An assignment. Raises BadRequestError if the bytes are malformed. Empty bytes mean none."""
    if not len(data):
        return Assignment(frozenset())
    found = _read("ConsumerProtocolAssignment", data)
    return Assignment(_partitions(found.assigned_partitions), _owned_bytes(found.user_data))


def write_assignment(assignment: Assignment, version: int = 3) -> bytes:
    body = Message(
        assigned_partitions=_topics(assignment.partitions), user_data=assignment.user_data
    )
    return _write("ConsumerProtocolAssignment", version, body)


def _read(name: str, data: bytes | memoryview) -> Message:
    cursor = Cursor(memoryview(data))
    version: int = VERSION.unpack_from(cursor.data, cursor.take(VERSION.size))[0]
    if version < 0:
        raise BadRequestError(f"{name} of version {version}")
    message: Message = reader(name, min(version, schema(name).newest))(cursor)
    return message


def _write(name: str, version: int, body: Message) -> bytes:
    return VERSION.pack(version) + encode(name, version, body)


def _owned_bytes(data: memoryview | None) -> bytes | None:
    return None if data is None else bytes(data)


def _partitions(topics: Sequence[Message]) -> frozenset[Partition]:
    return frozenset((topic.topic, index) for topic in topics for index in topic.partitions)


def _topics(partitions: Iterable[Partition]) -> list[Message]:
    grouped = groupby(sorted(partitions), key=lambda partition: partition[0])
    return [Message(topic=topic, partitions=[one[1] for one in ones]) for topic, ones in grouped]
