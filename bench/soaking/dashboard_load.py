"""Old and new clients whose work shows in every panel of the dashboard.

There are producers and consumers of several versions, which check every byte. A group commits now
and then. Some transactions are aborted. Fetches beyond the end get an error. In the second third of
a run more consumers join, and in the last third producers write twice as much.

Not here: the servers, and the picture (dashboard.py)."""

import time
from contextlib import ExitStack
from typing import Final

from bench.servers.draining import Address, Wire
from bench.servers.old_clients import Consumer, Contents, Producer, answered
from downconvert.protocol.schemas import ApiKey, Message
from records import Codec
from records.units import MiB

TICK: Final = 0.2  # seconds between two produces of a producer
RECORDS: Final = 10  # of a produce
LATE: Final = 1 / 3  # of a run, after which more consumers join
BUSY: Final = 2 / 3  # of a run, after which producers write more
COMMIT_TICKS: Final = 40  # between two commits of the group
ODD_TICKS: Final = 10  # between two transactions, and two fetches beyond the end
GROUP: Final = "billing"
# By partition: the version of Produce, and the codec.
WRITTEN: Final = (
    (Contents("orders", 0), 0, Codec.NONE),
    (Contents("orders", 1), 2, Codec.GZIP),
    (Contents("clicks", 0), 1, Codec.SNAPPY),
    (Contents("clicks", 1), 3, Codec.NONE),
)
EARLY_FETCHES: Final = (4, 2)
LATE_FETCHES: Final = (0, 1)


class DashboardLoad:
    """The load of one server. One step is a tick."""

    def __init__(self, address: Address, stack: ExitStack) -> None:
        self._address = address
        self._stack = stack
        self._ticks = 0
        self._wire = stack.enter_context(Wire(address))
        topics = sorted({contents.topic for contents, _, _ in WRITTEN})
        self._create(topics)
        self._producers = [stack.enter_context(Producer(address, *written)) for written in WRITTEN]
        self._consumers: list[Consumer] = []
        self._join(EARLY_FETCHES)

    def step(self, share: float) -> None:
        """Runs a tick. share: the part of the run that is over."""
        now = int(time.time() * 1000)
        for producer in self._producers:
            producer.send(RECORDS * (2 if share > BUSY else 1), now)
        for producer in self._producers:
            producer.acknowledged()
        if share > LATE and len(self._consumers) == len(EARLY_FETCHES) * len(WRITTEN):
            self._join(LATE_FETCHES)
        for consumer in answered(self._consumers):
            consumer.take()
        for consumer in self._consumers:
            consumer.ask()
        self._ticks += 1
        if self._ticks % ODD_TICKS == 0:
            self._transact(commits=self._ticks % (3 * ODD_TICKS) != 0)
            self._ask_beyond_the_end()
        if self._ticks % COMMIT_TICKS == 1:
            self._commit()

    def _join(self, versions: tuple[int, ...]) -> None:
        for contents, _, _ in WRITTEN:
            for version in versions:
                joined = Consumer(self._address, contents, version=version, wait=500)
                self._consumers.append(self._stack.enter_context(joined))

    def _create(self, names: list[str]) -> None:
        topics = [
            Message(name=name, num_partitions=2, replication_factor=1, assignments=[], configs=[])
            for name in names
        ]
        body = Message(topics=topics, timeout_ms=10_000)
        response = self._wire.ask(ApiKey.CreateTopics, 0, body)
        if any(topic.error_code for topic in response.topics):
            raise RuntimeError(f"topics were not made: {response.topics}")

    def _commit(self) -> None:
        parts = [
            Message(
                partition_index=producer.contents.partition,
                committed_offset=producer.next_offset,
                committed_metadata="",
            )
            for producer in self._producers[:2]
        ]
        topics = [Message(name=self._producers[0].contents.topic, partitions=parts)]
        body = Message(
            group_id=GROUP, generation_id_or_member_epoch=-1, member_id="", topics=topics
        )
        self._wire.ask(ApiKey.OffsetCommit, 2, body)

    def _transact(self, *, commits: bool) -> None:
        begin = Message(transactional_id="payments", transaction_timeout_ms=10_000)
        begun = self._wire.ask(ApiKey.InitProducerId, 0, begin)
        known = {
            "transactional_id": "payments",
            "producer_id": begun.producer_id,
            "producer_epoch": begun.producer_epoch,
        }
        self._wire.ask(ApiKey.AddOffsetsToTxn, 0, Message(group_id=GROUP, **known))
        self._wire.ask(ApiKey.EndTxn, 0, Message(committed=commits, **known))

    def _ask_beyond_the_end(self) -> None:
        part = Message(partition=0, fetch_offset=1 << 40, partition_max_bytes=MiB)
        topics = [Message(topic=WRITTEN[0][0].topic, partitions=[part])]
        body = Message(replica_id=-1, max_wait_ms=0, min_bytes=1, topics=topics)
        with Wire(self._address) as wire:  # a client that disconnects afterwards
            wire.ask(ApiKey.Fetch, 0, body)
