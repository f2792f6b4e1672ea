"""Cheap old producers and consumers that check every byte.

The content of a record follows only from its topic, partition and offset. So a consumer knows the
bytes that it must read, whichever producer wrote them. It notices another client's record, or the
record of another offset, at once. A partition has one producer, which knows the next offset.

Not here: the uses (soak.py, isolation.py)."""

import select
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final, TypeVar

from downconvert.protocol.schemas import ApiKey, Message
from records import Codec, MemoryRecords, Record, TimestampType, build, read
from records.units import MiB

from .draining import Address, Closes, Wire, parsed, request

NO_TIMESTAMP: Final = -1
TOMBSTONE_EVERY: Final = 50  # of a compacted topic's records
FORMATS: Final = {0: 0, 1: 0, 2: 1}  # magic by version of Produce; all others write v2

END, BEGINNING = -1, -2  # times of ListOffsets
RESPONSE_MAX: Final = 50 * MiB


class WrongBytesError(Exception):
    """A client got other bytes than those written."""


@dataclass(frozen=True, slots=True)
class Contents:
    """The contents of a partition's records. keys: of a compacted topic, 0 for none."""

    topic: str
    partition: int = 0
    size: int = 200
    keys: int = 0

    def key(self, offset: int) -> bytes | None:
        return b"%d" % (offset * 7919 % self.keys) if self.keys else None

    def value(self, offset: int) -> bytes | None:
        """The value at an offset. None: a tombstone."""
        if self.keys and offset % TOMBSTONE_EVERY == TOMBSTONE_EVERY - 1:
            return None
        name = f"{self.topic}/{self.partition}/{offset}:".encode()
        seed = blake2b(name, digest_size=32).digest()
        return (name + seed * (self.size // len(seed) + 1))[: self.size]

    def record(self, offset: int, now: int, magic: int) -> Record:
        """The record as its producer writes it; now: in milliseconds."""
        old = magic == 0
        time, kind = (NO_TIMESTAMP, TimestampType.NONE) if old else (now, TimestampType.CREATE)
        return Record(offset, time, kind, self.key(offset), self.value(offset))

    def check(self, record: Record) -> None:
        """WrongBytesError: it is another record."""
        offset = record.offset
        if record.key != self.key(offset) or record.value != self.value(offset):
            raise WrongBytesError(
                f"{self.topic}-{self.partition} at {offset}: {record.key!r} {record.value!r}"
            )


class OldClient(Closes):
    """One connection, which may be replaced."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self.wire = Wire(address)

    def close(self) -> None:
        self.wire.close()

    def reconnect(self) -> None:
        self.close()
        self.wire = Wire(self._address)

    def offset(self, contents: Contents, time: int) -> int:
        """The end (END) or the beginning (BEGINNING) of a partition."""
        part = Message(partition_index=contents.partition, timestamp=time, max_num_offsets=1)
        topics = [Message(name=contents.topic, partitions=[part])]
        response = self.wire.ask(ApiKey.ListOffsets, 0, Message(replica_id=-1, topics=topics))
        return int(response.topics[0].partitions[0].old_style_offsets[0])


Client = TypeVar("Client", bound=OldClient)


class Producer(OldClient):
    """Writes the next records of a partition, as its only writer."""

    def __init__(
        self, address: Address, contents: Contents, version: int, codec: Codec = Codec.NONE
    ) -> None:
        super().__init__(address)
        self.contents = contents
        self.next_offset = 0
        self._version = version
        self._magic = FORMATS.get(version, 2)
        self._codec = codec

    def send(self, count: int, now: int) -> None:
        """Sends a request with so many records; now: in milliseconds."""
        offsets = range(self.next_offset, self.next_offset + count)
        made = [self.contents.record(offset, now, self._magic) for offset in offsets]
        relative = [
            Record(at, one.timestamp, one.timestamp_type, one.key, one.value)
            for at, one in enumerate(made)
        ]
        data = bytes(build(relative, magic=self._magic, codec=self._codec))
        part = Message(index=self.contents.partition, records=data)
        body = Message(
            transactional_id=None,
            acks=1,
            timeout_ms=10_000,
            topic_data=[Message(name=self.contents.topic, partition_data=[part])],
        )
        self.wire.send(request(ApiKey.Produce, self._version, body))
        self._count = count

    def acknowledged(self) -> None:
        """Waits for the response. WrongBytesError: it is wrong."""
        response = parsed(ApiKey.Produce, self._version, self.wire.response())
        ((name, part),) = [
            (one.name, part) for one in response.responses for part in one.partition_responses
        ]
        reply = (name, part.index, part.error_code, part.base_offset)
        if reply != (self.contents.topic, self.contents.partition, 0, self.next_offset):
            raise WrongBytesError(f"produced at {self.next_offset}, and was told {reply}")
        self.next_offset += self._count

    def find_end(self) -> None:
        """Continues at the partition's end, because a response was lost."""
        self.next_offset = self.offset(self.contents, END)

    def produce(self, count: int, now: int) -> None:
        self.send(count, now)
        self.acknowledged()


class Consumer(OldClient):
    """Reads partitions from an offset on, and checks every record.

    skips: offsets may be missing, as in a compacted topic. wait: milliseconds for a record."""

    def __init__(
        self,
        address: Address,
        *contents: Contents,
        version: int,
        offset: int = 0,
        skips: bool = False,
        max_bytes: int = MiB,
        wait: int = 0,
    ) -> None:
        super().__init__(address)
        self.next_offsets = dict.fromkeys(contents, offset)
        self.max_bytes = max_bytes  # of a partition, in a response
        self.is_asking = False
        self._version = version
        self._skips = skips
        self._wait = wait

    def reconnect(self) -> None:
        super().reconnect()
        self.is_asking = False

    def ask(self) -> None:
        """Sends a fetch, if none is open."""
        if not self.is_asking:
            topics = [
                Message(
                    topic=contents.topic,
                    partitions=[
                        Message(
                            partition=contents.partition,
                            fetch_offset=offset,
                            partition_max_bytes=self.max_bytes,
                        )
                    ],
                )
                for contents, offset in self.next_offsets.items()
            ]
            body = Message(
                replica_id=-1,
                max_wait_ms=self._wait,
                min_bytes=1,
                max_bytes=RESPONSE_MAX,
                session_epoch=-1,
                topics=topics,
            )
            self.wire.send(request(ApiKey.Fetch, self._version, body))
            self.is_asking = True

    def take(self) -> list[Record]:
        """Waits for the response. Returns its records from the offsets on. WrongBytesError."""
        response = parsed(ApiKey.Fetch, self._version, self.wire.response())
        self.is_asking = False
        found = {
            (one.topic, part.partition_index): part
            for one in response.responses
            for part in one.partitions
        }
        known = {(contents.topic, contents.partition) for contents in self.next_offsets}
        if found.keys() != known:
            raise WrongBytesError(f"asked for {known}, and was told of {found.keys()}")
        taken = []
        for contents in self.next_offsets:
            taken += self._records(contents, found[contents.topic, contents.partition])
        return taken

    def _records(self, contents: Contents, part: Message) -> list[Record]:
        next_offset = self.next_offsets[contents]
        if part.error_code:
            raise WrongBytesError(f"{contents} at {next_offset}: error {part.error_code}")
        taken = []
        for record in whole_records(bytes(part.records or b"")):
            if record.offset < next_offset:
                continue  # the batch begins before the requested offset, and is sent whole
            if record.offset != next_offset and not self._skips:
                raise WrongBytesError(f"{contents}: {record.offset} for {next_offset}")
            contents.check(record)
            next_offset = record.offset + 1
            taken.append(record)
        self.next_offsets[contents] = next_offset
        return taken


def whole_records(data: bytes) -> Iterator[Record]:
    """The records of whole batches. The last batch may be cut off, as in fetches that pass
    through."""
    whole = MemoryRecords(data)
    end = max((one.position + one.size for one in whole.batches()), default=0)
    return read(whole.slice(0, end))


def answered(clients: Sequence[Client], seconds: float = 0.0) -> list[Client]:
    """Waits up to `seconds` until a client has something to read. Returns all clients that have."""
    by_number = {one.wire.socket.fileno(): one for one in clients}
    poll = select.poll()
    for number in by_number:
        poll.register(number, select.POLLIN)
    return [by_number[number] for number, _ in poll.poll(seconds * 1000)]
