"""A simulated consumer, old or new, which checks every byte that it reads.

Offsets have no gaps and do not repeat. No two clients ever read different records at one offset. No
record is read before it is committed, and high watermarks do not decrease."""

from typing import Final

from downconvert.protocol.schemas import ApiKey, Message
from downconvert.storage import TopicPartition
from records import MemoryRecords, RecordsError, read
from records.formats import V0, V1, V2
from records.units import MiB

from .clients import BACKOFF, RETRIABLE, TOPIC, Leader, SimulatedClient
from .context import Context
from .node import Tag
from .options import ConsumerOptions
from .truth import CheckHeld, InvariantError

OFFSET_OUT_OF_RANGE: Final = 1
TOPIC_IDS_SINCE: Final = 13
WITHOUT_SESSION: Final = -1
MAX_WAIT_MS: Final = 500
MAX_BYTES: Final = 50 * MiB


class Consumer(SimulatedClient):
    """One consumer, which reads all partitions from offset 0 on."""

    def __init__(
        self, context: Context, number: int, options: ConsumerOptions, check_held: CheckHeld
    ) -> None:
        super().__init__(context, f"consumer-{number}", f"consumer-{number}")
        self.options = options
        self._check_held = check_held
        count = context.options.partitions
        self.positions = [0] * count
        self._max_bytes = [options.max_bytes] * count
        self._in_flight: set[int] = set()
        self._at_leader = [False] * count  # by partition: the follower did not have the offset yet
        self.later(self.random.uniform(0, 0.5), self._fetch)

    def _fetch(self) -> None:
        """Fetches from each idle broker the partitions that it leads or follows."""
        found: dict[int, list[int]] = {}
        idle = [index for index in range(len(self.positions)) if index not in self._in_flight]
        for index in idle:
            node = self._replica(index)
            if node is not None:
                found.setdefault(node, []).append(index)
        for node, partitions in found.items():
            if not self.is_busy(node):
                self._ask(node, partitions)
        if sum(map(len, found.values())) < len(idle):
            self.refresh(lambda: self.later(BACKOFF, self._fetch))

    def _replica(self, index: int) -> int | None:
        leader = self.leaders.get(index)
        if leader is None or leader.node < 0:
            return None
        if self.options.reads_nearby and not self._at_leader[index]:
            replicas = self.context.assignment[TopicPartition(TOPIC, index)]
            return self.random.choice(replicas)
        return leader.node

    def _ask(self, node: int, partitions: list[int]) -> None:
        requested = {index: (self.positions[index], self.leaders[index]) for index in partitions}
        by_id = self.options.version >= TOPIC_IDS_SINCE
        topic = {"topic_id": self.context.topic_id} if by_id else {"topic": TOPIC}
        body = Message(
            replica_id=-1,
            max_wait_ms=MAX_WAIT_MS,
            min_bytes=1,
            max_bytes=MAX_BYTES,
            isolation_level=int(self.options.is_committed),
            session_epoch=WITHOUT_SESSION,
            topics=[
                Message(
                    **topic,
                    partitions=[
                        Message(
                            partition=index,
                            current_leader_epoch=leader.epoch,
                            fetch_offset=position,
                            last_fetched_epoch=-1,
                            partition_max_bytes=self._max_bytes[index],
                        )
                        for index, (position, leader) in requested.items()
                    ],
                )
            ],
        )

        def answered(body: Message | None, tag: Tag) -> None:
            self._in_flight -= requested.keys()
            if body is None or body.error_code:
                for index, (_, leader) in requested.items():
                    self._give_up(index, leader)
                self.later(BACKOFF, self._fetch)
                return
            is_well = True
            for topic in body.responses:
                for result in topic.partitions:
                    index = result.partition_index
                    is_well &= self._take(node, result, *requested[index], tag)
            if is_well:
                self._fetch()
            else:
                self.later(BACKOFF, self._fetch)

        self._in_flight |= requested.keys()
        self.ask(node, ApiKey.Fetch, self.options.version, body, answered)

    def _give_up(self, index: int, leader: Leader) -> None:
        self.forget(index, leader)
        self._at_leader[index] = True

    def _take(self, node: int, result: Message, position: int, leader: Leader, tag: Tag) -> bool:
        index, name = result.partition_index, TopicPartition(TOPIC, result.partition_index)
        epoch, is_leader, is_certain = tag.get(name, (-1, False, False))
        if result.error_code in RETRIABLE:
            self._give_up(index, leader)
            return False
        if result.error_code == OFFSET_OUT_OF_RANGE and not is_leader:
            self._give_up(index, leader)  # this follower does not have it yet
            return False
        if result.error_code:
            raise InvariantError(
                f"{self.host} gets error {result.error_code} for offset {position} of {name} by "
                f"broker {node}, which {'leads' if is_leader else 'follows'}"
            )
        self._at_leader[index] = False
        if is_leader:
            self.context.truth.saw_high_watermark(
                name, result.high_watermark, node, epoch, self.host, certain=is_certain
            )
        self._read(index, b"" if result.records is None else result.records, result.high_watermark)
        return True

    def _read(self, index: int, data: bytes | memoryview, high_watermark: int) -> None:
        name = TopicPartition(TOPIC, index)
        records = MemoryRecords(data)
        before = self.positions[index]
        try:
            self._check_format(records)
            for record in read(records):
                if record.offset < self.positions[index] and self.options.version >= 4:
                    continue  # the batch begins before the position
                self._take_record(name, record.offset, record.value or b"")
        except RecordsError as error:
            raise InvariantError(f"{self.host} cannot read its records: {error}") from error
        position = self.positions[index]
        if position > max(before, high_watermark):
            raise InvariantError(
                f"{self.host} gets offset {position - 1} of {name}, although the high "
                f"watermark is {high_watermark}"
            )
        if position > before:
            self._check_held(name, position - 1, f"{self.host} gets it")
        elif len(data):
            if self.options.version >= 3:
                raise InvariantError(f"{self.host} gets {len(data)} bytes, and no record of {name}")
            self._max_bytes[index] *= 2  # the next record is larger than the limit

    def _check_format(self, records: MemoryRecords) -> None:
        version = self.options.version
        newest = V0 if version < 2 else V1 if version < 4 else V2
        if any(header.magic > newest for header in records.batches()):
            raise InvariantError(f"{self.host} gets a format that Fetch v{version} lacks")

    def _take_record(self, name: TopicPartition, offset: int, value: bytes) -> None:
        expected = self.positions[name.partition]
        if offset != expected:
            what = "again" if offset < expected else "too early"
            raise InvariantError(f"{self.host} gets offset {offset} of {name} {what}")
        self.context.truth.seen(name, offset, value, self.host)
        self.positions[name.partition] = offset + 1
