"""Old consumers read just what is in the log, from its beginning to its end, whatever the cluster's
responses hold and whatever limits the consumers have.

A failure names its seed. Not here: the logs and the cluster (fetch_worlds.py)."""

from collections.abc import Generator
from io import BytesIO
from random import Random
from typing import Any

import pytest

from downconvert import ConversionPolicy
from downconvert.gateway.session import fetching, recoding
from downconvert.gateway.session.exchanges import Ask
from downconvert.protocol.schemas import Message
from records import MemoryRecords, read, read_batch

from .fetch_worlds import Cluster, Seen, made_log

SERVED = range(4, 18)
ASKS_MAX = 100  # for one fetch
FETCHES_MAX = 400
PARTITION_LIMITS = (30, 200, 1_500, 5_000, 1 << 20)  # bytes
LIMITS = (1, 100, 3_000, 20_000, 1 << 25)
UNCOMPRESSED = {"gzip": "none", "zstd": "none", "lz4": "gzip"}


def answered(steps: Generator[Any, Any, Message], cluster: Cluster) -> Message:
    result, asks = None, 0
    while True:
        try:
            step = steps.send(result)
        except StopIteration as end:
            found: Message = end.value
            return found
        result = None
        if isinstance(step, Ask):
            assert step.body is not None
            asks += 1
            assert asks < ASKS_MAX
            result = cluster.response(step.body)


def bytes_of(records: Any) -> bytes:
    if isinstance(records, bytes | memoryview):
        return bytes(records)
    channel = BytesIO()
    while not records.completed:
        records.write_to(channel)
    return channel.getvalue()


class Consumer:
    """Follows partitions from their starts. `found`: what it has read of each."""

    def __init__(self, random: Random, version: int, cluster: Cluster, *, committed: bool) -> None:
        self._version = version
        self._cluster = cluster
        self._committed = committed
        self._limit = random.choice(PARTITION_LIMITS)
        self._limit_of_all = random.choice(LIMITS) if version >= 3 else 2**31 - 1
        self._order = list(range(len(cluster.logs)))
        self._next = [log.start for log in cluster.logs]
        self.found: list[list[Seen]] = [[] for _ in cluster.logs]
        recode = random.choice([UNCOMPRESSED, {"zstd": "gzip"}])
        isolation: Any = "read_committed" if committed else "read_uncommitted"
        self._policy = ConversionPolicy(isolation=isolation, recode=recode)

    def read_all(self) -> None:
        """Fetches until it has read all, or gets no further. A consumer since 0.11 also gets over
        what has no records, so that it can wait at the end."""
        logs = self._cluster.logs
        wanted = [log.records(committed=self._committed) for log in logs]
        ends = [log.last_end(committed=self._committed) for log in logs]
        for _ in range(FETCHES_MAX):
            if self.found == wanted and (self._version < 4 or self._next == ends):
                return
            self._fetch()
        raise AssertionError(self._next)

    def _fetch(self) -> None:
        self._order = self._order[1:] + self._order[:1]
        asked = [
            Message(partition=n, fetch_offset=self._next[n], partition_max_bytes=self._limit)
            for n in self._order
        ]
        body = Message(
            max_wait_ms=0,
            min_bytes=1,
            max_bytes=self._limit_of_all,
            isolation_level=int(self._committed),
            session_id=0,
            session_epoch=-1,
            topics=[Message(topic="t", partitions=asked)],
        )
        fetch = fetching.fetch if self._version < 4 else recoding.fetch
        steps = fetch(body, self._version, SERVED, lambda _: self._policy)
        (topic,) = answered(steps, self._cluster).responses
        for one in topic.partitions:
            if one.error_code:
                assert self._cluster.fails, one.error_code
            elif self._version < 4:
                self._take_old(one)
            else:
                self._take(one)

    def _take_old(self, one: Message) -> None:
        """As clients of 0.8 to 0.10 do."""
        for record in read(MemoryRecords(bytes_of(one.records))):
            assert record.offset >= self._next[one.partition_index]
            self._seen(one.partition_index, record)

    def _take(self, one: Message) -> None:
        """As Java's consumers since 0.11 do."""
        log, number = MemoryRecords(bytes_of(one.records)), one.partition_index
        coming = sorted(one.aborted_transactions or (), key=lambda each: each.first_offset)
        aborted = set[int]()
        for header in log.batches():
            while self._committed and coming and coming[0].first_offset <= header.last_offset:
                aborted.add(coming.pop(0).producer_id)
            if header.is_control:
                aborted.discard(header.producer_id)
            elif header.producer_id not in aborted:
                for record in read_batch(log, header):
                    if record.offset >= self._next[number]:
                        self._seen(number, record)
            self._next[number] = max(self._next[number], header.last_offset + 1)

    def _seen(self, number: int, record: Any) -> None:
        self.found[number].append((record.offset, record.value))
        self._next[number] = record.offset + 1


@pytest.mark.parametrize("committed", [False, True])
@pytest.mark.parametrize("version", [0, 1, 2, 3, 4, 6, 9])
@pytest.mark.parametrize("seed", range(25))
def test_consumers_read_exactly_what_is_in_the_log(
    seed: int, version: int, *, committed: bool
) -> None:
    random = Random(f"{seed} {version} {committed}")
    logs = [made_log(random) for _ in range(random.randrange(1, 5))]
    cluster = Cluster(random, logs, fails=random.random() < 0.3)
    consumer = Consumer(random, version, cluster, committed=committed)
    consumer.read_all()
    assert consumer.found == [log.records(committed=committed) for log in logs]
