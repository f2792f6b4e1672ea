"""Logs of a cluster, made from a seed, and a cluster that answers fetches of them as Kafka does.

There are transactions, batches that compaction has emptied, holes, and responses that end with a
segment, in the midst of a batch, or with an error. Not here: the clients (test_fetch_worlds.py)."""

from dataclasses import dataclass, field
from random import Random
from typing import Any

from downconvert.protocol.errors import ErrorCode
from downconvert.protocol.schemas import Message
from records import (
    Codec,
    ControlRecordType,
    MemoryRecords,
    Record,
    build,
    build_empty,
    build_marker,
)

Seen = tuple[int, bytes | None]  # offset and value
PRODUCERS = (None, None, 7, 8)
SIZES = (1, 50, 400, 3_000, 9_000)  # bytes of a value
FAILURES = (
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.KAFKA_STORAGE_ERROR,
)


@dataclass
class Batch:
    """`records`: what a client finds in it. `ends_segment`: whether a response ends with it."""

    first: int
    last: int
    data: bytes
    records: list[Seen]
    ends_segment: bool
    is_aborted: bool = False


@dataclass
class Log:
    """`aborted`: producer, first offset and marker's offset. `stable`: the last stable offset."""

    batches: list[Batch] = field(default_factory=list)
    aborted: list[tuple[int, int, int]] = field(default_factory=list)
    end: int = 0
    stable: int = 0

    @property
    def start(self) -> int:
        return self.batches[0].first if self.batches else self.end

    def last_end(self, *, committed: bool) -> int:
        """The offset after the last batch that a client may read."""
        bound = self.stable if committed else self.end
        ends = [one.last + 1 for one in self.batches if one.first < bound]
        return max(ends, default=self.start)

    def records(self, *, committed: bool) -> list[Seen]:
        """All that a client may read."""
        every = [
            one
            for one in self.batches
            if not committed or (one.last < self.stable and not one.is_aborted)
        ]
        return [record for one in every for record in one.records]


def made_log(random: Random) -> Log:
    log, open_transactions = Log(end=random.choice([0, 0, 7])), dict[int, list[Batch]]()

    def add(data: bytes, last: int, records: list[Seen]) -> Batch:
        one = Batch(log.end, last, bytes(data), records, random.random() < 0.3)
        log.batches.append(one)
        log.end = last + 1
        return one

    fields: dict[str, Any]
    for _ in range(random.randrange(12)):
        kind, at = random.random(), log.end
        if kind < 0.3 and open_transactions:
            producer = random.choice(sorted(open_transactions))
            written, commits = open_transactions.pop(producer), random.random() < 0.5
            marker = ControlRecordType.COMMIT if commits else ControlRecordType.ABORT
            fields = {"producer_id": producer, "producer_epoch": 0, "timestamp": 1}
            add(build_marker(marker, offset=at, **fields), at, [])
            if not commits:
                log.aborted.append((producer, written[0].first, at))
                for one in written:
                    one.is_aborted = True
        elif kind < 0.45:
            last = at + random.randrange(4)
            add(build_empty(base_offset=at, last_offset=last, producer_id=1), last, [])
        else:
            size, owner = random.choice(SIZES), random.choice(PRODUCERS)
            values = [random.randbytes(size) for _ in range(random.randrange(1, 6))]
            records = [Record(at + n, 5, key=b"k", value=value) for n, value in enumerate(values)]
            fields = {}
            if owner is not None:
                fields = {"producer_id": owner, "producer_epoch": 0, "base_sequence": 0}
                fields["transactional"] = True
            data = build(records, magic=2, codec=random.choice(list(Codec)), **fields)
            batch = add(data, records[-1].offset, [(one.offset, one.value) for one in records])
            if owner is not None:
                open_transactions.setdefault(owner, []).append(batch)
        log.end += random.choice([0] * 9 + [3])  # what compaction has removed
    firsts = [written[0].first for written in open_transactions.values()]
    log.stable = min(firsts, default=log.end)
    return log


@dataclass
class Cluster:
    """A broker that leads all partitions. `fails`: whether responses have errors now and then."""

    random: Random
    logs: list[Log]
    fails: bool

    def response(self, body: Message) -> Message:
        left, topics, committed = body.max_bytes, [], bool(body.isolation_level)
        is_first = True  # whether no partition has had records: then the first batch comes whole
        for topic in body.topics:
            parts = []
            for asked in topic.partitions:
                one = self._part(asked, max(left, 0), committed=committed, is_first=is_first)
                if one.records is not None:
                    left, is_first = left - one.records.size, False
                parts.append(one)
            if self.random.random() < 0.2:
                self.random.shuffle(parts)
            topics.append(Message(topic=topic.topic, partitions=parts))
        return Message(throttle_time_ms=0, error_code=0, session_id=0, responses=topics)

    def _part(self, asked: Message, left: int, *, committed: bool, is_first: bool) -> Message:
        log, offset = self.logs[asked.partition], asked.fetch_offset
        known = {"partition_index": asked.partition, "records": None, "aborted_transactions": []}
        if self.fails and self.random.random() < 0.03:
            return failed(known, self.random.choice(FAILURES))
        if not log.start <= offset <= log.end:
            return failed(known, ErrorCode.OFFSET_OUT_OF_RANGE)
        data, limit = b"", min(asked.partition_max_bytes, left)
        bound = log.stable if committed else log.end
        for one in log.batches:
            if one.last < offset or one.first >= bound:
                continue
            if is_first and not data and len(one.data) > limit:
                data, limit = one.data, len(one.data)
            else:
                data += one.data
            if len(data) >= limit or one.ends_segment:
                break
        aborted = [
            Message(producer_id=producer, first_offset=first)
            for producer, first, last in log.aborted
            if last >= offset
        ]
        records = MemoryRecords(data[:limit]) if data[:limit] else None
        found = {"records": records, "aborted_transactions": aborted, "error_code": 0}
        ends = {"high_watermark": log.end, "last_stable_offset": log.stable}
        return Message(**known | found | ends)


def failed(known: dict[str, Any], code: ErrorCode) -> Message:
    return Message(**known, error_code=code, high_watermark=-1, last_stable_offset=-1)
