"""A simulated producer: records with keys, batches by size and linger, acks, retries.

With acks all, every record that it wrote stays in the log. If it is idempotent, the record is there
exactly once. The producer has one request in flight to each broker, so its records keep their
order."""

from collections import deque
from dataclasses import dataclass, field
from typing import Final

from downconvert.protocol.schemas import ApiKey, Message
from downconvert.storage import TopicPartition
from records import Record, TimestampType, build
from records.formats import V0, V1, V2, Codec

from .clients import BACKOFF, RETRIABLE, TOPIC, Leader, SimulatedClient
from .context import Context
from .node import Tag
from .options import ProducerOptions
from .partitioner import partition_for
from .truth import CheckHeld, InvariantError, Written

ALL: Final = -1
TOPIC_IDS_SINCE: Final = 13
TIMEOUT_MS: Final = 1000
VALUE_SIZES: Final = (20, 100, 600)  # bytes
WAITING_MAX: Final = 200  # batches; like buffer.memory, beyond which a producer blocks
PRODUCER_ID: Final = 1000


@dataclass(slots=True)
class _Batch:
    """Records for one partition, in order."""

    first_sequence: int
    born: float
    records: list[tuple[bytes, bytes, int]] = field(default_factory=list)  # key, value, time
    is_closed: bool = False


class Producer(SimulatedClient):
    """One producer, which writes until `stop`."""

    def __init__(
        self, context: Context, number: int, options: ProducerOptions, check_held: CheckHeld
    ) -> None:
        super().__init__(context, f"producer-{number}", f"producer-{number}")
        self.number = number
        self.options = options
        self._check_held = check_held
        self.written = 0
        self._count = context.options.partitions
        self._next = [0] * self._count  # the number of the next record, by partition
        self._sequences = [0] * self._count
        self._batches: list[deque[_Batch]] = [deque() for _ in range(self._count)]
        self._in_flight: set[int] = set()  # partitions
        self._is_stopped = False
        self.later(self.random.uniform(0, 0.5), self._write)

    @property
    def is_done(self) -> bool:
        return self._is_stopped and not any(self._batches)

    def stop(self) -> None:
        self._is_stopped = True
        self._send()

    def expected(self, index: int) -> int:
        """The number of records that it wrote to a partition."""
        return self._next[index]

    # --- writing

    def _write(self) -> None:
        if self._is_stopped:
            return
        waiting = sum(map(len, self._batches))
        if waiting < WAITING_MAX:
            for _ in range(self.random.choice((1, 1, 4))):
                self._add()
        self._send()
        self.later(self.random.expovariate(self.options.rate / 2), self._write)

    def _add(self) -> None:
        key = b"key-%d" % self.random.randrange(20)
        index = partition_for(key, self._count)
        number = self._next[index]
        self._next[index] += 1
        self.written += 1
        value = Written(self.number, number).value(self.random.choice(VALUE_SIZES))
        batches = self._batches[index]
        if not batches or batches[-1].is_closed:
            batches.append(_Batch(self._sequences[index], self.now))
            self.later(self.options.linger, self._send)
        batch = batches[-1]
        batch.records.append((key, value, int(self.now * 1000)))
        self._sequences[index] += 1
        if len(batch.records) >= self.options.batch_size:
            batch.is_closed = True

    # --- sending

    def _send(self) -> None:
        """Sends the first batch of each partition to its leader, if it is due."""
        due = []
        for index, batches in enumerate(self._batches):
            if batches and index not in self._in_flight and self._is_due(batches[0]):
                due.append(index)
        led = self.by_leader(due)
        for node, partitions in led.items():
            if not self.is_busy(node):
                self._produce(node, partitions)
        if sum(map(len, led.values())) < len(due):
            self.refresh(lambda: self.later(BACKOFF, self._send))

    def _is_due(self, batch: _Batch) -> bool:
        if self._is_stopped or self.now - batch.born >= self.options.linger - 1e-6:
            batch.is_closed = True  # a batch that was sent stays unchanged
        return batch.is_closed

    def _produce(self, node: int, partitions: list[int]) -> None:
        sent = {index: (self._batches[index][0], self.leaders[index]) for index in partitions}
        body = Message(
            acks=self.options.acks,
            timeout_ms=TIMEOUT_MS,
            topic_data=[
                Message(
                    name=TOPIC,
                    topic_id=self.context.topic_id,
                    partition_data=[
                        Message(index=index, records=self._bytes(batch))
                        for index, (batch, _) in sent.items()
                    ],
                )
            ],
        )

        def answered(body: Message | None, _tag: Tag) -> None:
            self._in_flight -= sent.keys()
            if body is None:
                for index, (_, leader) in sent.items():
                    self.forget(index, leader)
                self.later(BACKOFF, self._send)
                return
            for topic in body.responses:
                for result in topic.partition_responses:
                    self._take(result, *sent[result.index])
            self._send()

        if self.options.acks == 0:
            self.ask(node, ApiKey.Produce, self.options.version, body, answered, is_answered=False)
            for index in partitions:
                self._batches[index].popleft()
            self.later(0, self._send)
        else:
            self._in_flight |= sent.keys()
            self.ask(node, ApiKey.Produce, self.options.version, body, answered)

    def _take(self, result: Message, batch: _Batch, leader: Leader) -> None:
        if result.error_code in RETRIABLE:
            self.forget(result.index, leader)
            return
        if result.error_code:
            raise InvariantError(
                f"{self.host} gets error {result.error_code} for partition {result.index}: "
                f"{result.error_message}"
            )
        assert self._batches[result.index].popleft() is batch
        if self.options.acks == ALL:
            name = TopicPartition(TOPIC, result.index)
            for at, (_, value, _) in enumerate(batch.records):
                offset = result.base_offset + at
                self.context.truth.acknowledged(name, offset, value, self.host)
            last = result.base_offset + len(batch.records) - 1
            self._check_held(name, last, f"{self.host} gets an acknowledgement")

    def _bytes(self, batch: _Batch) -> bytes:
        version = self.options.version
        magic = V0 if version < 2 else V1 if version < 3 else V2
        kind = TimestampType.NONE if magic == V0 else TimestampType.CREATE
        records = [
            Record(at, -1 if magic == V0 else time, kind, key, value)
            for at, (key, value, time) in enumerate(batch.records)
        ]
        codec = Codec[self.options.codec.upper()]
        if not self.options.is_idempotent:
            return build(records, magic=magic, codec=codec)
        return build(
            records,
            magic=magic,
            codec=codec,
            producer_id=PRODUCER_ID + self.number,
            producer_epoch=0,
            base_sequence=batch.first_sequence,
        )
