"""Fetch: records from where a client says, in the format that it reads.

The order of decisions for each partition, and when an answer waits, are Kafka's (KafkaApis,
ReplicaManager, DelayedFetch).

Not here: what a partition contributes (reading.py), the policy of conversions (conversions.py),
sessions (fetch_session.py)."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from broker.conversions import is_enabled, magic_of, policy_for
from broker.errors import ApiError, ErrorCode
from broker.exchange import Exchange
from broker.partition import Partition
from broker.reading import Contribution, nothing, read_as_is, read_converted
from broker.schemas import Message
from broker.topics import Topic
from records import RecordsError, UnsupportedCodecError
from storage import OffsetOutOfRangeError, StorageError

if TYPE_CHECKING:
    from broker.broker import Broker

UNKNOWN = -1  # an offset
FIRST_BATCH_WHOLE_SINCE = 3
STORAGE_ERROR_SINCE = 6
SESSIONS_SINCE = 7
TOPIC_IDS_SINCE = 13
FULL_FETCH = -1, 0  # session epochs


@dataclass(slots=True)
class Wanted:
    """A partition of a request."""

    topic: Topic | None
    partition: Partition | None
    asked: Message


def handle(broker: "Broker", exchange: Exchange, now: float) -> None:
    request, version = exchange.request.body, exchange.request.version
    if version >= SESSIONS_SINCE and request.session_epoch not in FULL_FETCH:
        exchange.reply(Message(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND))
        return
    fetch = Fetch(broker, exchange)
    if fetch.read() or request.max_wait_ms <= 0:
        fetch.answer()
        return
    keys = [("partition", w.topic.name, w.asked.partition) for w in fetch.wanted if w.topic]
    broker.purgatory.watch(fetch, keys, now, now + request.max_wait_ms / 1000)


class Fetch:
    """A fetch until it is answered."""

    def __init__(self, broker: "Broker", exchange: Exchange) -> None:
        self.broker = broker
        self.exchange = exchange
        self.version = exchange.request.version
        self.request = exchange.request.body
        self.wanted = [
            self._wanted(topic, asked)
            for topic in self.request.topics
            for asked in topic.partitions
        ]
        self.results: list[Message] = []
        self.seen_to: list[int] = []

    def _wanted(self, asked_topic: Message, asked: Message) -> Wanted:
        topics = self.broker.topics
        if self.version >= TOPIC_IDS_SINCE:
            topic = topics.by_id(asked_topic.topic_id)
        else:
            topic = topics.get(asked_topic.topic)
        partition = topic.partitions.get(asked.partition) if topic is not None else None
        return Wanted(topic, partition, asked)

    def read(self) -> bool:
        """Reads all partitions; whether that is to be answered at once."""
        self.results, self.seen_to = [], []
        left = min(self.request.max_bytes, self.broker.config.fetch_max_bytes)
        size, failed, first = 0, False, True
        for wanted in self.wanted:
            asked = wanted.asked
            result = Message(partition_index=asked.partition, high_watermark=UNKNOWN)
            contribution = nothing(asked.fetch_offset)
            try:
                contribution = self._read(
                    wanted, result, min(asked.partition_max_bytes, left), first
                )
            except ApiError as error:
                result.error_code = error.code
            except OffsetOutOfRangeError:
                result.error_code = ErrorCode.OFFSET_OUT_OF_RANGE
            except UnsupportedCodecError:
                result.error_code = ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
            except (StorageError, OSError):
                result.error_code = ErrorCode.KAFKA_STORAGE_ERROR
            except RecordsError:
                result.error_code = ErrorCode.CORRUPT_MESSAGE
            result.records = contribution.records
            failed |= getattr(result, "error_code", 0) != 0
            if contribution.source_size:
                first = False
                size += contribution.source_size
                left = max(0, left - contribution.source_size)
            self.results.append(result)
            self.seen_to.append(contribution.seen_to)
        return failed or not self.wanted or size >= self.request.min_bytes

    def _read(self, wanted: Wanted, result: Message, max_bytes: int, first: bool) -> Contribution:
        partition, offset = wanted.partition, wanted.asked.fetch_offset
        if wanted.topic is None and self.version >= TOPIC_IDS_SINCE:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_ID)
        if wanted.topic is None or partition is None:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        committed = self.request.isolation_level == 1
        high_watermark, start = partition.high_watermark, partition.start_offset
        up_to = partition.bound(self.request.replica_id, committed=committed)
        magic = magic_of(self.version)
        if magic is None:
            found = read_as_is(partition, offset, max_bytes, up_to, first=first)
        elif not is_enabled(wanted.topic.config):
            raise ApiError(ErrorCode.UNSUPPORTED_VERSION)
        else:
            config, header = self.broker.config, self.exchange.request.header
            names = (self.exchange.client.software_name, header.client_id or "")
            policy = policy_for(config.policy, (), wanted.topic.name, names)
            found = read_converted(
                partition,
                offset,
                max_bytes,
                up_to,
                first=first or self.version < FIRST_BATCH_WHOLE_SINCE,
                magic=magic,
                policy=policy,
            )
        result.high_watermark = high_watermark
        result.last_stable_offset = partition.last_stable_offset
        result.log_start_offset = start
        result.aborted_transactions = None
        if committed:
            result.aborted_transactions = [
                Message(producer_id=one.producer_id, first_offset=one.first_offset)
                for one in partition.aborted(offset, up_to)
            ]
        return found

    def is_due(self) -> bool:
        for wanted, seen_to in zip(self.wanted, self.seen_to, strict=True):
            partition = wanted.partition
            if partition is not None and partition.bound(self.request.replica_id) > seen_to:
                return True
        return False

    def complete(self, _now: float, *, timed_out: bool) -> None:
        if not timed_out:
            self.read()
        self.answer()

    def answer(self) -> None:
        results = iter(self.results)
        responses = [
            Message(
                topic=topic.topic,
                topic_id=topic.topic_id,
                partitions=[next(results) for _ in topic.partitions],
            )
            for topic in self.request.topics
        ]
        self.exchange.reply(Message(responses=responses))
