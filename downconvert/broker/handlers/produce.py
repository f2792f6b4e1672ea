"""Produce: appends a producer's records, and answers as acks requests.

acks 0: there is no response. The only way to report an error is to close the connection.
acks 1: answered when they are in this broker's log. acks all (-1): answered when every replica in
sync has them, or the time is up. No response waits for an fsync.

A request of many partitions, or of records that expand to much, is handled in turns. As in Kafka,
all of it is appended, even if its client has gone meanwhile: with acks 0, producers do that.

Not here: checking records (appending.py)."""

from collections.abc import Generator
from dataclasses import dataclass
from functools import partial
from time import perf_counter
from typing import Final, NamedTuple, TypeAlias

from downconvert.broker.exchange import Exchange
from downconvert.broker.partition import CheckBatch, Partition
from downconvert.broker.state import BrokerState
from downconvert.broker.topics import INTERNAL_TOPICS, Topic
from downconvert.protocol.errors import ApiError, ErrorCode
from downconvert.protocol.requests import Request
from downconvert.protocol.schemas import Message
from downconvert.serving.appending import (
    Appended,
    needs_rewriting,
    prepare_in_turns,
    prepare_ordinary,
)
from downconvert.serving.record_checks import RefusedRecordsError
from downconvert.storage import StorageError
from records import BatchHeader, CorruptRecordsError, MemoryRecords
from records.files.source import read_headers
from records.formats import ATTRIBUTES_AT_BATCH, NO_TIMESTAMP, TRANSACTIONAL, V2, Codec

NO_ACKS, LEADER, ALL = 0, 1, -1  # acks
BATCHES_VERSION: Final = 3  # from this version on, a partition has one v2 batch in a request
ZSTD_VERSION: Final = 7
ABORTABLE_VERSION: Final = 11  # the first version with TRANSACTION_ABORTABLE
TOPIC_IDS_VERSION: Final = 13
NO_OFFSET: Final = -1
NOT_APPENDED: Final = Appended(NO_OFFSET, NO_OFFSET, NO_TIMESTAMP)
PARTITIONS_A_TURN: Final = 64  # some milliseconds
# The byte of a v2 batch with the attribute TRANSACTIONAL.
FLAGS_AT: Final = ATTRIBUTES_AT_BATCH + 1
# Records, the headers of their whole batches, and the damage after these, if any.
Received: TypeAlias = tuple[MemoryRecords, list[BatchHeader], CorruptRecordsError | None]
# The highest value that a client can set: 15 minutes, in librdkafka.
WAIT_MAX: Final = 900.0  # seconds
# Errors that Kafka answers without the log's start offset.
WITHOUT_START: Final = {
    ErrorCode.CORRUPT_MESSAGE,
    ErrorCode.MESSAGE_TOO_LARGE,
    ErrorCode.RECORD_LIST_TOO_LARGE,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
}


class Written(NamedTuple):
    """Records that are in the log of this broker."""

    partition: Partition
    leader_epoch: int
    appended: Appended
    min_insync_replicas: int

    def is_settled(self) -> bool:
        """Whether the records are replicated, or this leader will never replicate them."""
        return self._has_lost_leader() or self.is_replicated()

    def outcome(self) -> ErrorCode:
        """The outcome of waiting for the replicas."""
        if self._has_lost_leader():
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        if not self.is_replicated():
            return ErrorCode.REQUEST_TIMED_OUT
        if self.partition.is_under_min_isr(self.min_insync_replicas):
            return ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
        return ErrorCode.NONE

    def _has_lost_leader(self) -> bool:
        partition = self.partition
        return partition.leader is None or partition.leader_epoch != self.leader_epoch

    def is_replicated(self) -> bool:
        return self.partition.high_watermark > self.appended.last_offset


@dataclass(slots=True, eq=False)
class _Produced:
    """The outcome for the records of one partition."""

    topic: Message  # as in the request
    index: int
    code: ErrorCode = ErrorCode.NONE
    message: str | None = None
    records: tuple[tuple[int, str], ...] = ()  # refused records: index, reason
    appended: Appended | None = None
    written: Written | None = None  # with acks all
    start_offset: int = NO_OFFSET

    def refuse(self, error: ApiError) -> None:
        self.code, self.message = error.code, error.message
        if error.code in WITHOUT_START:
            self.start_offset = NO_OFFSET
        if isinstance(error, RefusedRecordsError):
            self.records = tuple(error.records)


def handle(broker: BrokerState, exchange: Exchange, now: float) -> None:
    exchange.may_be_abandoned = False
    exchange.work_on(_append(broker, exchange, now), now)


def _append(broker: BrokerState, exchange: Exchange, now: float) -> Generator[None, None, None]:
    """Appends all records, and answers as acks requests."""
    body = exchange.request.body
    lacks_id, count = False, 0
    if body.transactional_id is None:
        for topic in body.topic_data:
            for one in topic.partition_data:
                if count and not count % PARTITIONS_A_TURN:
                    yield
                count += 1
                records = one.records
                if records and len(records) > FLAGS_AT and records[FLAGS_AT] & TRANSACTIONAL:
                    headers = _received(one)[1]
                    lacks_id = lacks_id or (bool(headers) and headers[0].is_transactional)
    produced: list[_Produced] = []
    for topic in body.topic_data:
        for one in topic.partition_data:
            if produced and not len(produced) % PARTITIONS_A_TURN:
                yield
            outcome = yield from _produce(broker, exchange, topic, one, now, lacks_id=lacks_id)
            produced.append(outcome)
    if body.acks == NO_ACKS:
        permission = exchange.permission
        if permission is not None and not permission.takes_all:
            refuse_without_response(exchange)
        elif any(one.code is not ErrorCode.NONE for one in produced):
            codes = {one.code.name for one in produced} - {ErrorCode.NONE.name}
            exchange.hang_up(f"its records are refused without a response: {min(codes)}")
        else:
            exchange.reply_nothing()
        return
    if body.acks == ALL and any(one.written for one in produced):
        exchange.may_be_abandoned = True
        waiting = _Replication(exchange, produced)
        deadline = now + min(max(body.timeout_ms, 0) / 1000, WAIT_MAX)
        broker.purgatory.watch(waiting, waiting.keys, now, deadline, exchange)
    else:
        exchange.reply(_response(produced))


def refuse_without_response(exchange: Exchange) -> None:
    """Ends the connection of a client that may not produce to a topic, with acks 0."""
    exchange.errors = {ErrorCode.TOPIC_AUTHORIZATION_FAILED: 1}
    exchange.hang_up("it may not produce there, and acks=0 has no other response")


def _produce(
    broker: BrokerState,
    exchange: Exchange,
    topic: Message,
    one: Message,
    now: float,
    *,
    lacks_id: bool,
) -> Generator[None, None, _Produced]:
    """Appends records for one partition, or returns an error. `lacks_id`: whether the request has
    transactional records but no transactional id."""
    produced = _Produced(topic, one.index)
    version, acks = exchange.request.version, exchange.request.body.acks
    now_ms = broker.time_of_day.ms(now)
    try:
        if not broker.config.is_writable:
            raise ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "this broker only reads")
        if lacks_id:  # checked first, for all partitions [KafkaApis]
            raise ApiError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
        found, partition = _find(broker, topic, one.index, version)
        config = found.append_config
        prepared = prepare_ordinary(one.records or b"", config, now_ms)
        if prepared is None:
            records, headers, damage = _received(one)
            _check_version(headers, damage, version)
        else:
            headers = prepared.batches
            if version < ZSTD_VERSION and headers[0].codec is Codec.ZSTD:
                _check_version(headers, None, version)
        if acks not in (NO_ACKS, LEADER, ALL):
            raise ApiError(ErrorCode.INVALID_REQUIRED_ACKS, f"acks {acks}")
        produced.start_offset = partition.start_offset
        check: CheckBatch | None = None
        if headers and headers[0].is_transactional:  # checked before the records [ReplicaManager]
            check = partial(_check_batch, broker, exchange.request, partition)
            partition.verify(headers[0], check)
        isr_min = config.min_insync_replicas
        if acks == ALL and partition.is_under_min_isr(isr_min):
            raise ApiError(ErrorCode.NOT_ENOUGH_REPLICAS)
        if prepared is None:
            started = perf_counter()  # for the metrics only
            prepared = yield from prepare_in_turns(
                records, records.batches() if damage else headers, config, now_ms
            )
            if prepared is not None and prepared.is_converted:
                seconds = perf_counter() - started
                count, size = prepared.records_count, len(prepared.data)
                broker.metrics.produced(found.name, count, seconds, size)
        if prepared is not None:
            leader_epoch = partition.leader_epoch
            appended = produced.appended = partition.append(prepared, now, now_ms, check)
            if acks == ALL:
                produced.written = Written(partition, leader_epoch, appended, isr_min)
            broker.purgatory.notify(partition.key)
    except ApiError as error:
        produced.refuse(error)
    except (OSError, StorageError) as error:
        produced.code, produced.message = ErrorCode.KAFKA_STORAGE_ERROR, str(error)
    return produced


def _check_batch(
    broker: BrokerState, request: Request, partition: Partition, batch: BatchHeader
) -> None:
    """Whether a transaction's batch may be appended, with the errors of each version [KIP-890]."""
    try:
        broker.transactions.check_batch(request.body.transactional_id, partition.name, batch)
    except ApiError as error:
        code = error.code
        if code is ErrorCode.CONCURRENT_TRANSACTIONS:  # old producers would not retry
            code = ErrorCode.NOT_ENOUGH_REPLICAS
        elif code is ErrorCode.TRANSACTION_ABORTABLE and request.version < ABORTABLE_VERSION:
            code = ErrorCode.INVALID_TXN_STATE
        raise ApiError(code, str(error)) from error


def has_rewriting(broker: BrokerState, request: Request) -> bool:
    """Whether any records must be rewritten in their topic's format or codec. Checks the header of
    each partition's first batch."""
    for topic in request.body.topic_data:
        for one in topic.partition_data:
            try:
                found, _ = _find(broker, topic, one.index, request.version)
                first = _first_batch(one)
            except (ApiError, CorruptRecordsError):
                continue
            if first is not None and needs_rewriting(first, first.codec, found.append_config):
                return True
    return False


def _received(one: Message) -> Received:
    """Reads the headers of the batches for one partition, as far as they are undamaged."""
    records, damage = MemoryRecords(one.records or b""), None
    headers: list[BatchHeader] = []
    try:
        headers.extend(read_headers(records))
    except CorruptRecordsError as error:
        damage = error.with_traceback(None)  # which refers to this function
    return records, headers, damage


def _first_batch(one: Message) -> BatchHeader | None:
    """The first batch header. Raises CorruptRecordsError if it is damaged."""
    return next(MemoryRecords(one.records or b"").batches(), None)


def _find(broker: BrokerState, topic: Message, index: int, version: int) -> tuple[Topic, Partition]:
    """The requested partition. Raises ApiError if it is missing or another broker leads it."""
    if version >= TOPIC_IDS_VERSION:
        found = broker.topics.by_id(topic.topic_id)
        if found is None:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_ID)
    else:
        found = broker.topics.by_name.get(topic.name)
    partition = None if found is None else found.partitions.get(index)
    if found is None or partition is None:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    if found.name in INTERNAL_TOPICS:
        raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, "the topic is the brokers' own")
    if partition.leader != broker.config.node_id:
        raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    return found, partition


def _check_version(
    headers: list[BatchHeader], damage: CorruptRecordsError | None, version: int
) -> None:
    """Checks what this version allows in a request [ProduceRequest.validateRecords]."""
    if version < BATCHES_VERSION:
        return
    for first in headers[:1]:
        if first.magic != V2:
            reason = f"Produce v{version} takes no messages of v{first.magic}"
            raise ApiError(ErrorCode.INVALID_RECORD, reason)
        if version < ZSTD_VERSION and first.codec is Codec.ZSTD:
            reason = f"Produce v{version} takes no zstd"
            raise ApiError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, reason)
    if len(headers) > 1:
        raise ApiError(ErrorCode.INVALID_RECORD, "more than one batch")
    if damage is not None:
        raise ApiError(ErrorCode.CORRUPT_MESSAGE, str(damage)) from damage
    if not headers:
        raise ApiError(ErrorCode.INVALID_RECORD, "no batch")


class _Replication:
    """A response that waits until the in-sync replicas have all appended records."""

    def __init__(self, exchange: Exchange, produced: list[_Produced]) -> None:
        self._exchange = exchange
        self._produced = produced
        self._written = [one.written for one in produced if one.written is not None]
        self.keys = [written.partition.key for written in self._written]

    def is_due(self) -> bool:
        return all(written.is_settled() for written in self._written)

    def complete(self, _now: float, *, timed_out: bool) -> None:
        del timed_out  # each partition gets its own result
        for one in self._produced:
            if one.written is not None:
                one.code = one.written.outcome()
        self._exchange.reply(_response(self._produced))


def _response(produced: list[_Produced]) -> Message:
    """Partitions under their topics, in the order of the request."""
    topics: list[Message] = []
    partitions: list[Message] = []
    asked: Message | None = None
    for one in produced:
        if one.topic is not asked:
            asked, partitions = one.topic, []
            name, topic_id = asked.name, asked.topic_id
            topics.append(Message(name=name, topic_id=topic_id, partition_responses=partitions))
        partitions.append(_partition(one))
    return Message(responses=topics)


def _partition(one: _Produced) -> Message:
    base_offset, _, append_time = one.appended or NOT_APPENDED
    found = Message(
        index=one.index,
        error_code=one.code,
        base_offset=base_offset,
        log_append_time_ms=append_time,
        log_start_offset=one.start_offset,
        error_message=one.message,
    )
    if one.records:
        found.record_errors = [
            Message(batch_index=index, batch_index_error_message=reason)
            for index, reason in one.records
        ]
    return found
