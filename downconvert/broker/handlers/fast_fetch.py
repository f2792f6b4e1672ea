"""The fast path of Fetch: a consumer fetches from one partition, without a session.

If the records are there, they are sent at once: as they are on disk, or converted by one call. If
not, the fetch continues as others do (fetch.py). A response has the same bytes in both cases.

Not here: fetches of several partitions, and in a session."""

from functools import cache
from typing import Any, Final

from downconvert import LazyDownConvertRecords
from downconvert.access.replica_ids import CONSUMER
from downconvert.broker.exchange import Exchange
from downconvert.broker.fetch.contribution import RECORDS_SIZE_MAX
from downconvert.broker.fetch.fetch_request import (
    READ_COMMITTED,
    READ_UNCOMMITTED,
    FetchRequest,
)
from downconvert.broker.fetch.fetch_session import FINAL, NO_SESSION, Sessionless
from downconvert.broker.fetch.session import Asked
from downconvert.broker.replication.leader_epochs import NO_EPOCH
from downconvert.broker.state import BrokerState
from downconvert.broker.topics import Topic
from downconvert.conversion.plan import SMALL_SIZE_MAX
from downconvert.protocol.fetch_versions import (
    AS_ON_DISK_SINCE,
    FIRST_BATCH_WHOLE_SINCE,
    FOLLOWERS_SERVE_SINCE,
    MESSAGE_V1_SINCE,
    TOPIC_IDS_SINCE,
    ZSTD_SINCE,
)
from downconvert.protocol.plain_values import Read, Respond, reader, writer
from downconvert.protocol.responses import ResponseSend
from downconvert.serving.conversions import names_of
from downconvert.serving.fetch_assembly import hard_size, has_visible_record
from records import FileRecords
from records.files.sends import Send
from records.files.zero_copy import ZeroCopySend
from records.formats import V0, V1

from .fast_path import FastPath
from .fetch import Fetch

LIMITS: Final = ("max_wait_ms", "min_bytes", "max_bytes", "isolation_level")
TOPIC: Final = ("topic", "topic_id")
PARTITION: Final = (
    *("partition", "current_leader_epoch", "fetch_offset", "last_fetched_epoch"),
    *("log_start_offset", "partition_max_bytes"),
)
ALONE: Final = {"topics": 1, "partitions": 1, "forgotten_topics_data": 0}
SESSIONLESS: Final = {"replica_id": CONSUMER, "session_id": NO_SESSION, "session_epoch": FINAL}
OFFSETS: Final = ("high_watermark", "last_stable_offset", "log_start_offset")


@cache
def read(version: int) -> Read:
    return reader("FetchRequest", version, LIMITS + TOPIC + PARTITION, ALONE | SESSIONLESS)


@cache
def respond(version: int, level: int) -> Respond:
    """Makes responses with records of no aborted transaction. `level`: the isolation level. It
    decides whether the array of aborted transactions is empty or null."""
    fields = (*TOPIC, "partition_index", *OFFSETS, "records")
    aborted = 0 if level == READ_COMMITTED else None
    fixed = {"responses": 1, "partitions": 1, "aborted_transactions": aborted}
    return writer("FetchResponse", version, fields, fixed)


def answer(broker: BrokerState, exchange: Exchange, values: tuple[Any, ...], now: float) -> bool:
    """Sends the records, or waits for some. See `FastPath.answer`."""
    response = _at_once(broker, exchange, values, now)
    if response is not None:
        exchange.finish(response)
        return True
    wait_ms, min_bytes, limit, level, name, topic_id, index, epoch, offset, *rest = values
    last_epoch, start, max_bytes = rest
    if level not in (READ_UNCOMMITTED, READ_COMMITTED):
        return False
    version = exchange.request.version
    topic = name if version < TOPIC_IDS_SINCE else topic_id
    epochs = max(epoch, NO_EPOCH), max(last_epoch, NO_EPOCH)
    context = Sessionless([Asked(topic, index, offset, max(max_bytes, 0), *epochs, start)])
    request = FetchRequest(version, CONSUMER, level, limit, min_bytes, wait_ms, context)
    Fetch(broker, exchange, context, request, now).begin(now)
    return True


def _at_once(
    broker: BrokerState, exchange: Exchange, values: tuple[Any, ...], now: float
) -> ResponseSend | None:
    """The response. None: there is none yet, or it is not a simple one."""
    wait_ms, min_bytes, limit, level, name, topic_id, index, epoch, offset, last_epoch, *_ = values
    version, access = exchange.request.version, exchange.client.access
    if last_epoch > NO_EPOCH or (access is not None and access.has_rates):
        return None
    if level not in (READ_UNCOMMITTED, READ_COMMITTED):
        return None
    is_old, by_name = version < AS_ON_DISK_SINCE, version < TOPIC_IDS_SINCE
    max_bytes = min(max(values[-1], 0), limit)
    if max_bytes > SMALL_SIZE_MAX if is_old else version < ZSTD_SINCE:
        return None  # there may be much to convert
    topic = broker.topics.by_name.get(name) if by_name else broker.topics.by_id(topic_id)
    partition = None if topic is None else topic.partitions.get(index)
    if topic is None or partition is None or not partition.may_hold(offset):
        return None
    try:
        partition.check(epoch, leader=version < FOLLOWERS_SERVE_SINCE)
        start, end, stable = partition.offsets(offset, now, stable=not is_old)
        up_to = stable if level == READ_COMMITTED else end
        if offset >= up_to:
            return None
        max_bytes = min(max_bytes, broker.config.fetch_max_bytes)
        records = partition.read(offset, max_bytes, up_to)
        if records.size < min_bytes and wait_ms > 0:
            return None
        if is_old:
            send = _converted(broker, exchange, topic, records, offset, max_bytes)
        else:
            first = records.first
            is_visible = first is not None and has_visible_record(first, offset)
            has_aborted = level == READ_COMMITTED and partition.aborted(offset, records)
            send = ZeroCopySend(records) if is_visible and not has_aborted else None
    except Exception:
        return None  # `Fetch` finds the same error, and answers it
    if send is None:
        return None
    return respond(version, level)(
        exchange.correlation_id, name, topic_id, index, end, stable, start, send
    )


def _converted(
    broker: BrokerState,
    exchange: Exchange,
    topic: Topic,
    records: FileRecords,
    offset: int,
    max_bytes: int,
) -> Send | None:
    """Converts a small range that ends before the log does. So it is not joined with others, and
    not shared with other clients. Raises RecordsError."""
    if not max_bytes <= records.size <= SMALL_SIZE_MAX or not topic.may_convert:
        return None
    client, request = exchange.client, exchange.request
    names = names_of(client.software_name, client.software_version, request.header.client_id)
    policy = broker.policies.policy_for(broker.chunk_budget.small, topic.name, names)
    if not policy.trim_compressed:
        return None
    magic = V1 if request.version >= MESSAGE_V1_SINCE else V0
    steps = LazyDownConvertRecords.in_steps(records, magic, offset, policy)
    try:
        next(steps)
    except StopIteration as end:
        converted: LazyDownConvertRecords = end.value
    else:
        steps.close()
        return None
    room = max_bytes if request.version < FIRST_BATCH_WHOLE_SINCE else RECORDS_SIZE_MAX
    if not 0 < converted.size <= SMALL_SIZE_MAX:
        return None
    send = converted.to_send(hard_size(converted.size, room, converted.head))
    exchange.converted = ((topic.name, send),)
    return send


FAST_PATH: Final = FastPath(range(19), read, answer)
