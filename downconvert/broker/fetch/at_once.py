"""Answers a usual fetch at once: one partition without a session, whose records are there.

The records are sent as they are on disk, or converted by one call. A client that reads a log sends
little else, so such a response is made without messages. It has the same bytes as that of `Fetch`
(handlers/fetch.py), which answers all other fetches: those that wait, fail, convert much, share
conversions, or ask for more partitions.

Not here: which requests are usual (fetch_request.py)."""

from struct import Struct
from typing import Final, NamedTuple

from downconvert import LazyDownConvertRecords
from downconvert.broker.exchange import Exchange
from downconvert.broker.state import BrokerState
from downconvert.broker.topics import Topic
from downconvert.conversion.plan import SMALL_SIZE_MAX
from downconvert.protocol.errors import ErrorCode
from downconvert.protocol.fetch_versions import FIRST_BATCH_WHOLE_SINCE, FOLLOWERS_SERVE_SINCE
from downconvert.protocol.responses import LENGTH_SIZE, ResponseSend
from downconvert.serving.conversions import names_of
from downconvert.serving.fetch_assembly import hard_size, has_visible_record
from records import FileRecords
from records.files.sends import Send
from records.files.zero_copy import ZeroCopySend

from .contribution import RECORDS_SIZE_MAX
from .fetch_request import FetchRequest


class Layout(NamedTuple):
    """A response with one partition. start: the frame's length, the correlation id, the fields of
    `zeros` (throttle time, error code, session), the number of topics, and the length of the
    topic's name. partition: after the name, the number of partitions, the partition's index and
    error code, the high watermark, the last stable offset and the start of the log (only since
    version 4), the fields of `nobody`, and the records' length.

    zeros: the values of these fields. nobody: aborted transactions (null), preferred replica."""

    start: Struct
    partition: Struct
    zeros: tuple[int, ...]
    nobody: tuple[int, ...] = ()


OLD: Final = Layout(Struct(">iiiih"), Struct(">iihqi"), (0,))
LAYOUTS: Final = {
    0: Layout(Struct(">iiih"), Struct(">iihqi"), ()),
    **dict.fromkeys((1, 2, 3), OLD),
    10: Layout(Struct(">iiihiih"), Struct(">iihqqqii"), (0, 0, 0), (-1,)),
    11: Layout(Struct(">iiihiih"), Struct(">iihqqqiii"), (0, 0, 0), (-1, -1)),
}


def answered(broker: BrokerState, exchange: Exchange, request: FetchRequest, now: float) -> bool:
    """Answers a fetch if it is a usual one. Returns whether it was. `now`: as in
    `Broker.handle`."""
    asked, layout = request.alone, LAYOUTS.get(request.version)
    access = exchange.client.access
    if asked is None or layout is None:
        return False
    if access is not None and (access.is_closed or access.has_rates):
        return False
    assert isinstance(asked.topic, str)
    topic = broker.topics.by_name.get(asked.topic)
    partition = None if topic is None else topic.partitions.get(asked.index)
    if topic is None or partition is None or not partition.may_hold(asked.offset):
        return False
    is_old = request.magic is not None
    try:
        must_lead = request.version < FOLLOWERS_SERVE_SINCE
        partition.check(asked.leader_epoch, leader=must_lead)
        start, end, stable = partition.offsets(asked.offset, now, stable=not is_old)
        if asked.offset >= end:
            return False
        limit = min(request.max_bytes, broker.config.fetch_max_bytes)
        max_bytes = min(asked.max_bytes, limit)
        records = partition.read(asked.offset, max_bytes, end)
        source_size = records.size
        if source_size < request.min_bytes and source_size < max(limit, 1) and request.wait:
            return False
        if is_old:
            send: Send | None = _converted(broker, exchange, topic, records, request, max_bytes)
        else:
            first = records.first
            is_visible = first is not None and has_visible_record(first, asked.offset)
            send = ZeroCopySend(records) if is_visible else None
    except Exception:
        return False  # `Fetch` finds the same error, and answers it
    if send is None:
        return False
    name, size = asked.topic.encode(), send.size
    offsets = (end,) if is_old else (end, stable, start)
    head_size = layout.start.size + len(name) + layout.partition.size
    length, number = head_size + size - LENGTH_SIZE, exchange.correlation_id
    head = bytearray(layout.start.pack(length, number, *layout.zeros, 1, len(name)))
    head += name
    head += layout.partition.pack(1, asked.index, ErrorCode.NONE, *offsets, *layout.nobody, size)
    exchange.finish(ResponseSend([head, send], head_size + size))
    return True


def _converted(
    broker: BrokerState,
    exchange: Exchange,
    topic: Topic,
    records: FileRecords,
    request: FetchRequest,
    max_bytes: int,
) -> Send | None:
    """Converts a small range that ends before the log does. So it is not joined with others, and
    not shared with other clients. Raises RecordsError."""
    asked, magic = request.alone, request.magic
    assert asked is not None
    assert magic is not None
    if not max_bytes <= records.size <= SMALL_SIZE_MAX or not topic.may_convert:
        return None
    client, client_id = exchange.client, exchange.request.header.client_id
    names = names_of(client.software_name, client.software_version, client_id)
    policy = broker.policies.policy_for(broker.chunk_budget.small, topic.name, names)
    if not policy.trim_compressed:
        return None
    steps = LazyDownConvertRecords.in_steps(records, magic, asked.offset, policy)
    try:
        next(steps)
    except StopIteration as end:
        converted: LazyDownConvertRecords = end.value
    else:
        steps.close()
        return None
    is_hard = request.version < FIRST_BATCH_WHOLE_SINCE
    room = max_bytes if is_hard else RECORDS_SIZE_MAX
    if not 0 < converted.size <= SMALL_SIZE_MAX:
        return None
    send = converted.to_send(hard_size(converted.size, room, converted.head))
    exchange.converted = ((topic.name, send),)
    return send
