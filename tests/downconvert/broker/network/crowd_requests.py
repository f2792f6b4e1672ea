"""Requests whose responses are known: those to topics that do not change, and those to one that
does.

An old client gets a part of the topic's conversion, from its offset on. A new one gets a part of
the log. How much that is may depend on what other clients do. The bytes are the same each time,
except for batches that are compressed again: two calls of a codec may make different bytes of the
same records. Records that come meanwhile are compared with the log once nothing is appended.

Not here: the clients (crowd.py)."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache, partial
from random import Random
from typing import Final, NamedTuple, TypeAlias

from downconvert import ConversionPolicy, convert
from downconvert.broker import Broker
from downconvert.protocol.fetch_versions import magic_of
from downconvert.protocol.schemas import ApiKey, Message
from records import Codec, MemoryRecords, build
from records.formats import V1, V2
from records.record import Record
from records.units import KiB, MiB
from tests.downconvert.broker.asking import ask, frame, parsed
from tests.downconvert.broker.fetching import whole_records

CODECS: Final = {
    "none": Codec.NONE,
    "gzip": Codec.GZIP,
    "lz4": Codec.LZ4,
    "zstd": Codec.ZSTD,
}
LIVE: Final = "live"  # the topic with producers
BATCHES: Final = 12  # of each other topic
POLICY: Final = ConversionPolicy()
MAX: Final = 2**31 - 1
WAITS: Final = (0, 0, 1, 20, 100)  # milliseconds
OTHERS: Final = (
    (ApiKey.ApiVersions, 0, Message()),
    (ApiKey.Heartbeat, 0, Message(group_id="g", generation_id=1, member_id="m")),
    (
        ApiKey.ListOffsets,
        1,
        Message(
            replica_id=-1,
            topics=[
                Message(name="gzip", partitions=[Message(partition_index=0, timestamp=-1)]),
            ],
        ),
    ),
    (ApiKey.CreateTopics, 0, Message(topics=[], timeout_ms=1000)),  # it has a thread of its own
)

Check: TypeAlias = Callable[[bytes], None]


def value_of(random: Random, size: int) -> bytes:
    """A value that compresses to about a half."""
    return random.randbytes(size // 2) + bytes(size - size // 2)


def contents(records: bytes) -> list[tuple[int, int, bytes | None]]:
    """Offsets, timestamps and values of records. The last entry may be cut off."""
    found = whole_records(Message(records=records))
    return [(record.offset, record.timestamp, record.value) for record in found]


class Asked(NamedTuple):
    """frame: without its length. check: of the whole response; None: there is none."""

    frame: bytes
    check: Check | None


@dataclass
class Produced:
    """The records of one producer: values, and the offsets of those that were answered."""

    values: list[bytes] = field(default_factory=list)
    offsets: dict[bytes, int] = field(default_factory=dict)


class Topics:
    """The topics of a broker, and what their fetches answer."""

    def __init__(self, broker: Broker, random: Random) -> None:
        self.broker = broker
        self.logs: dict[str, bytes] = {}
        self.later: list[Callable[[], None]] = []  # checks
        self.end = 0  # of the live topic, as producers know it
        for name, codec in CODECS.items():
            self._fill(name, codec, random)
        broker.topics.create(LIVE, 1, {}, 0)
        self.converted = cache(self._converted)
        self._others = [(*one, ask(broker, *one)) for one in OTHERS]

    def _fill(self, name: str, codec: Codec, random: Random) -> None:
        own = {"segment.bytes": str(random.choice([200 * KiB, MiB]))}
        topic = self.broker.topics.create(name, 1, own, 0)
        batches, offset = [], 0
        for _ in range(BATCHES):
            size = random.choice([10, 300, 5 * KiB, 60 * KiB])
            count = random.randrange(1, 30) if size < KiB else random.randrange(1, 4)
            made = [Record(offset + n, n, value=value_of(random, size)) for n in range(count)]
            batches.append(build(made, magic=V2, codec=codec))
            offset += count
            topic.partitions[0].log.writer.append(batches[-1])
        self.logs[name] = b"".join(batches)

    def _converted(self, name: str, magic: int | None, offset: int) -> bytes:
        """The log from an offset on, for clients of a format. None: as it is."""
        found = self._rest(name, offset)
        if magic is None:
            return found
        return b"".join(convert(MemoryRecords(found), magic, offset, POLICY))

    def _rest(self, name: str, offset: int) -> bytes:
        log = self.logs[name]
        for header in MemoryRecords(log).batches():
            if header.last_offset >= offset:
                return log[header.position :]
        return b""

    def fetch(self, random: Random) -> Asked:
        """A fetch of one or more topics, which may wait if it names the live one."""
        version = random.choice([0, 1, 2, 2, 3, 3, 4, 9, 11, 11])
        names = random.sample([*CODECS, LIVE], random.choice([1, 1, 1, 2, 3]))
        limit = random.choice([1000, 30 * KiB, 200 * KiB, MiB])
        offsets = {name: self._offset(name, random) for name in names}
        topics = [
            Message(
                topic=name,
                partitions=[
                    Message(partition=0, fetch_offset=at, partition_max_bytes=limit),
                ],
            )
            for name, at in offsets.items()
        ]
        body = Message(
            replica_id=-1,
            max_wait_ms=random.choice(WAITS),
            min_bytes=random.choice([0, 1, 1, 1000]),
            max_bytes=random.choice([limit, MiB, MAX]),
            session_epoch=-1,
            topics=topics,
        )
        return Asked(
            frame(ApiKey.Fetch, version, body),
            lambda got: self._check_fetch(version, offsets, got),
        )

    def _offset(self, name: str, random: Random) -> int:
        if name == LIVE:
            return random.randrange(self.end + 1) if random.random() < 0.3 else self.end
        last = list(MemoryRecords(self.logs[name]).batches())[-1].last_offset
        return random.choice([0, 0, 0, 1, last // 3, last // 2, last, last + 1])

    def _check_fetch(self, version: int, offsets: dict[str, int], got: bytes) -> None:
        response = parsed(ApiKey.Fetch, version, got)
        assert [one.topic for one in response.responses] == list(offsets)
        is_first = True
        for one in response.responses:
            (partition,) = one.partitions
            records, at = bytes(partition.records), offsets[one.topic]
            assert partition.error_code == 0, (one.topic, at, partition.error_code)
            if one.topic == LIVE:
                self.later.append(partial(self._check, LIVE, version, at, records))
                is_first = is_first and not records
            else:
                self._check(one.topic, version, at, records)
                wanted = self.converted(one.topic, magic_of(version), at)
                assert records or not (is_first and wanted), (one.topic, at, version)
                is_first = is_first and not records
            if version > 2:  # it ends with a whole entry
                entries = MemoryRecords(records)
                assert sum(header.size for header in entries.batches()) == entries.size or (
                    version > 3
                )

    def _check(self, name: str, version: int, offset: int, records: bytes) -> None:
        wanted = self.converted(name, magic_of(version), offset)
        if wanted[: len(records)] != records:  # a batch was compressed again
            found = contents(records)
            assert found, (name, version, offset, len(records))
            assert found == contents(wanted)[: len(found)], (name, version, offset)

    def produce(self, random: Random, produced: Produced, who: int) -> Asked:
        """A produce of one batch into the live topic."""
        value = b"%d/%d/" % (who, len(produced.values))
        value += value_of(random, random.choice([1, 100, 100, 3 * KiB, 20 * KiB, 150 * KiB]))
        produced.values.append(value)
        version, acks = random.choice([2, 3, 8]), random.choice([0, 1, -1])
        codec = random.choice([Codec.NONE, Codec.NONE, Codec.GZIP, Codec.LZ4])
        magic = V1 if version < 3 else V2
        records = build([Record(0, 1, value=value)], magic=magic, codec=codec)
        data = [Message(index=0, records=records)]
        topics = [Message(name=LIVE, partition_data=data)]
        body = Message(transactional_id=None, acks=acks, timeout_ms=60_000, topic_data=topics)

        def check(got: bytes) -> None:
            (topic,) = parsed(ApiKey.Produce, version, got).responses
            (partition,) = topic.partition_responses
            assert partition.error_code == 0
            produced.offsets[value] = partition.base_offset
            self.end = max(self.end, partition.base_offset + 1)

        return Asked(frame(ApiKey.Produce, version, body), check if acks else None)

    def other(self, random: Random) -> Asked:
        """A request whose response is always the same."""
        api, version, body, wanted = random.choice(self._others)

        def check(got: bytes) -> None:
            assert parsed(api, version, got) == wanted

        return Asked(frame(api, version, body), check)

    def check_live(self, producers: list[tuple[Produced, bool]]) -> None:
        """Compares the live topic with the sent records, and with the fetched ones. `producers`:
        each with whether all of its records have arrived."""
        found = self.broker.topics[LIVE].partitions[0].log.read(0, MAX)
        log = bytearray(found.size)
        assert found.read_into(memoryview(log), 0) == found.size
        self.logs[LIVE] = bytes(log)
        self.converted.cache_clear()
        values = [record.value for record in whole_records(Message(records=self.logs[LIVE]))]
        assert len(values) == len(set(values))
        for produced, is_whole in producers:
            mine = [value for value in values if value in set(produced.values)]
            assert mine == produced.values[: len(mine)]
            assert len(mine) == len(produced.values) or not is_whole
            for value, offset in produced.offsets.items():
                assert values[offset] == value
        for check in self.later:
            check()
