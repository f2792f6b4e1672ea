"""Topics that old clients have had trouble with, as the directory of a broker that wrote v2.

Fourteen: each codec, all of them mixed, nulls and headers, append time, small records, records of
1 MB, a log that begins inside a segment, compacted logs whose batches have lost their ends, and
transactions of every fate. A consumer must read all data records, once, in order: old clients
know no isolation.

Not here: which record a client can show how (outcome.py)."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Any, Final

from downconvert.storage import LogConfig, LogDir, TopicPartition
from records.batches.builder import build, build_empty, build_marker
from records.batches.control import ControlRecordType
from records.formats import TIMESTAMP_TYPE_NAMES, V2, Codec, TimestampType
from records.record import Record

SEED: Final = 8191
FIRST_TIMESTAMP: Final = 1_700_000_000_000
LARGE: Final = 1_000_000  # bytes; what a fetch of 1 MiB still holds
_UNLIMITED: Final = LogConfig(segment_ms=2**62, retention_ms=-1, max_message_bytes=2**31 - 1)

Line = dict[str, Any]  # {"p","o","t","tt","k","v","h"}; see expected_line


@dataclass(slots=True)
class Partition:
    """A log: segments of batches. `records` are those that a consumer shall read."""

    segments: list[list[bytes]] = field(default_factory=lambda: [[]])
    records: list[Record] = field(default_factory=list)
    start: int | None = None  # where the log begins, if not with its first segment
    end: int = 0

    def batch(
        self,
        records: list[Record],
        *,
        codec: Codec = Codec.NONE,
        kept: Callable[[int], bool] = lambda _: True,
        **options: Any,
    ) -> None:
        """A batch of which compaction has left what is `kept`, and its header in any case."""
        base, last = records[0].offset, records[-1].offset
        left = [record for record in records if kept(record.offset)]
        if left:
            data = build(left, magic=V2, codec=codec, base_offset=base, last_offset=last, **options)
        else:
            data = build_empty(base_offset=base, last_offset=last, **options)
        self.segments[-1].append(data)
        self.records += left
        self.end = last + 1

    def marker(self, kind: ControlRecordType, producer_id: int) -> None:
        timestamp = FIRST_TIMESTAMP + self.end
        data = build_marker(
            kind, offset=self.end, timestamp=timestamp, producer_id=producer_id, leader_epoch=0
        )
        self.segments[-1].append(data)
        self.end += 1

    def roll(self) -> None:
        self.segments.append([])


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic: its records, and those that a reader must get."""

    name: str
    partitions: list[Partition]

    @property
    def expected(self) -> list[Line]:
        return [
            expected_line(number, record)
            for number, partition in enumerate(self.partitions)
            for record in partition.records
            if partition.start is None or record.offset >= partition.start
        ]


def expected_line(partition: int, record: Record) -> Line:
    """A record as a client prints it: keys and values in hexadecimal."""
    return {
        "p": partition,
        "o": record.offset,
        "t": record.timestamp,
        "tt": TIMESTAMP_TYPE_NAMES[record.timestamp_type],
        "k": None if record.key is None else record.key.hex(),
        "v": None if record.value is None else record.value.hex(),
        "h": [[key, None if value is None else value.hex()] for key, value in record.headers],
    }


def write(directory: Path, chosen: list[Topic] | None = None) -> list[Topic]:
    """Writes the topics as after a clean shutdown, into a directory that is there and empty."""
    found = topics() if chosen is None else chosen
    with LogDir.open(directory, writable=True, config=_UNLIMITED) as log_dir:
        for topic in found:
            for number, partition in enumerate(topic.partitions):
                writer = log_dir.logs.create(TopicPartition(topic.name, number)).writer
                for segment in partition.segments:
                    writer.roll()
                    for batch in segment:
                        writer.append(batch)
                if partition.start is not None:
                    writer.delete_records(partition.start)
    return found


def topics() -> list[Topic]:
    """All fourteen, the same at each call."""
    made = [
        Topic("none", [_plain(f"none {number}", Codec.NONE) for number in range(3)]),
        *(
            Topic(codec.name.lower(), [_plain(codec.name, codec)])
            for codec in (Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD)
        ),
        Topic("mixed", [_plain(f"mixed {number}", *Codec) for number in range(2)]),
        Topic("headers", [_with_headers()]),
        Topic("append-time", [_append_time()]),
        Topic("small", [_small()]),
        Topic("large", [_large()]),
        Topic("trimmed", [_trimmed()]),
        Topic("compacted", [_compacted("compacted", Codec.NONE)]),
        Topic("compacted-gzip", [_compacted("compacted-gzip", Codec.GZIP)]),
        Topic("transactions", [_transactions(last) for last in ("marker", "data")]),
    ]
    assert len(made) == 14
    return made


def _plain(seed: str, *codecs: Codec) -> Partition:
    """A dozen batches in two segments."""
    partition, random = Partition(), Random(f"{SEED} {seed}")
    for number in range(12):
        if number == 7:
            partition.roll()
        records = list(_records(partition.end, random.randint(1, 20), random))
        partition.batch(records, codec=codecs[number % len(codecs)], leader_epoch=0)
    return partition


def _with_headers() -> Partition:
    """Keys, values and headers that are null, empty or plain; one key twice, some not of ASCII."""
    partition, random = Partition(), Random(f"{SEED} headers")
    some: list[bytes | None] = [None, b"", b"plain", "\u00fc\u4e2d\U0001f600".encode()]
    for number in range(12):
        records = []
        for offset in range(partition.end, partition.end + 8):
            headers = tuple(
                (random.choice(["", "a", "trace", "\u00e9"]), random.choice(some))
                for _ in range(random.randint(0, 3))
            )
            time = FIRST_TIMESTAMP + offset
            key, value = random.choice(some), random.choice(some)
            records.append(Record(offset, time, key=key, value=value, headers=headers))
        partition.batch(records, codec=(Codec.NONE, Codec.GZIP)[number % 2], leader_epoch=0)
    return partition


def _append_time() -> Partition:
    """The broker's time instead of the producers', in plain and in compressed batches."""
    partition, random = Partition(), Random(f"{SEED} append-time")
    kind = TimestampType.LOG_APPEND
    for number in range(10):
        time = FIRST_TIMESTAMP + 1_000_000 * number
        records = list(_records(partition.end, 10, random))
        codec = (Codec.NONE, Codec.GZIP)[number % 2]
        partition.batch(records, codec=codec, timestamp_type=kind, append_time=time, leader_epoch=0)
        partition.records[-len(records) :] = [
            replace(record, timestamp=time, timestamp_type=kind) for record in records
        ]
    return partition


def _small() -> Partition:
    """As many producers leave them: a record a batch, and a batch of many."""
    partition = Partition()
    for count in (*[1] * 100, 400):
        offsets = range(partition.end, partition.end + count)
        records = [Record(at, FIRST_TIMESTAMP + at, value=b"%d" % (at % 10)) for at in offsets]
        partition.batch(records, leader_epoch=0)
    return partition


def _large() -> Partition:
    """1 MB among small ones, plain and compressed, of bytes that do not get smaller."""
    partition, random = Partition(), Random(f"{SEED} large")
    for codec in (Codec.NONE, Codec.GZIP):
        partition.batch(list(_records(partition.end, 5, random)), codec=codec, leader_epoch=0)
        time = FIRST_TIMESTAMP + partition.end
        value = random.randbytes(LARGE)
        partition.batch(
            [Record(partition.end, time, key=b"large", value=value)], codec=codec, leader_epoch=0
        )
        partition.batch(list(_records(partition.end, 5, random)), codec=codec, leader_epoch=0)
    return partition


def _trimmed() -> Partition:
    """DeleteRecords has moved the start into the middle of a batch of the second segment."""
    partition, random = Partition(), Random(f"{SEED} trimmed")
    for number in range(12):
        if number in (4, 8):
            partition.roll()
        codec = (Codec.NONE, Codec.GZIP)[number % 2]
        partition.batch(list(_records(partition.end, 10, random)), codec=codec, leader_epoch=0)
    partition.start = 55
    return partition


def _compacted(seed: str, codec: Codec) -> Partition:
    """Small segments whose batches have lost records at their ends, and some all of them."""
    partition, random = Partition(), Random(f"{SEED} {seed}")
    lost_ends = (lambda at: at % 10 < 6, lambda at: at % 10 > 3, lambda at: at % 3 == 1)
    for number in range(24):
        if number and number % 2 == 0:
            partition.roll()
        kept = lost_ends[number % 3] if number % 5 < 3 else lambda _: False
        if number >= 22:
            kept = _all  # the active segment, which no cleaner touches
        records = list(_records(partition.end, 10, random))
        producer = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 10 * number}
        if number % 5 < 3:
            producer = {}
        partition.batch(records, codec=codec, kept=kept, leader_epoch=0, **producer)
    return partition


def _transactions(last: str) -> Partition:
    """Committed, aborted and interleaved transactions, and plain records among them. The log ends
    with a marker, or with the records of a transaction that never ended."""
    partition, random = Partition(), Random(f"{SEED} transactions {last}")
    sequences: dict[int, int] = {}

    def data(producer_id: int | None, count: int = 4) -> None:
        records = list(_records(partition.end, count, random))
        codec = random.choice((Codec.NONE, Codec.GZIP))
        if producer_id is None:
            partition.batch(records, codec=codec, leader_epoch=0)
            return
        base_sequence = sequences.get(producer_id, 0)
        sequences[producer_id] = base_sequence + count
        partition.batch(
            records,
            codec=codec,
            leader_epoch=0,
            transactional=True,
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=base_sequence,
        )

    commit, abort = ControlRecordType.COMMIT, ControlRecordType.ABORT
    for round_number in range(4):
        data(1)
        data(2)
        data(None)
        partition.marker(commit if round_number % 2 else abort, 1)
        data(2)
        partition.marker(abort if round_number % 2 else commit, 2)
        partition.roll()  # as brokers do, whose clock the markers have
        partition.marker(commit, 3)  # segments that begin with one
        partition.marker(abort, 4)
    if last == "data":
        data(None)
        data(5)
    return partition


def _all(_: int) -> bool:
    return True


def _records(base_offset: int, count: int, random: Random) -> Iterator[Record]:
    for offset in range(base_offset, base_offset + count):
        key = None if random.random() < 0.2 else b"key-%d" % random.randrange(50)
        value = b"%d " % offset + random.randbytes(random.randrange(20)) + b"abc" * 30
        yield Record(offset, FIRST_TIMESTAMP + offset, key=key, value=value)
