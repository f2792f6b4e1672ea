"""Answers a usual fetch at once: one partition without a session, whose records are there and are
sent as they are on disk.

A consumer at the tail of a log sends little else, so such a response is made without messages. It
has the same bytes as that of `Fetch` (handlers/fetch.py), which answers all other fetches: those
that wait, fail, convert records, or ask for more partitions.

Not here: which requests are usual (fetch_request.py)."""

from struct import Struct
from typing import Final

from downconvert.broker.exchange import Exchange
from downconvert.broker.state import BrokerState
from downconvert.protocol.errors import ErrorCode
from downconvert.protocol.fetch_versions import FOLLOWERS_SERVE_SINCE
from downconvert.protocol.responses import LENGTH_SIZE, ResponseSend
from downconvert.serving.fetch_assembly import has_visible_record
from records.files.zero_copy import ZeroCopySend

from .fetch_request import FetchRequest

# Length, correlation id, throttle time, error code, session, the number of topics, the length of
# the topic's name.
START: Final = Struct(">iiihiih")
# The number of partitions, the index, error code, high watermark, last stable offset, start of the
# log, aborted transactions, preferred replica (since version 11), the records' length.
PARTITION: Final = {10: Struct(">iihqqqii"), 11: Struct(">iihqqqiii")}
NULL: Final = -1  # aborted transactions, for clients that read all records
NOBODY: Final = (-1,)  # preferred replica


def answered(broker: BrokerState, exchange: Exchange, request: FetchRequest, now: float) -> bool:
    """Answers a fetch if it is a usual one. Returns whether it was. `now`: as in
    `Broker.handle`."""
    asked, layout = request.alone, PARTITION.get(request.version)
    access = exchange.client.access
    if asked is None or layout is None:
        return False
    if access is not None and (access.is_closed or access.has_rates):
        return False
    assert isinstance(asked.topic, str)
    topic = broker.topics.by_name.get(asked.topic)
    partition = None if topic is None else topic.partitions.get(asked.index)
    if partition is None:
        return False
    try:
        must_lead = request.version < FOLLOWERS_SERVE_SINCE
        partition.check(asked.leader_epoch, leader=must_lead)
        start, end, stable = partition.offsets(asked.offset, now, stable=True)
        if asked.offset >= end:
            return False
        limit = max(0, min(request.max_bytes, broker.config.fetch_max_bytes))
        records = partition.read(asked.offset, min(asked.max_bytes, limit), end)
    except Exception:
        return False  # `Fetch` finds the same error, and answers it
    first, size = records.first, records.size
    if first is None or not has_visible_record(first, asked.offset):
        return False
    if size < request.min_bytes and size < max(limit, 1) and request.wait:
        return False
    name = asked.topic.encode()
    later = NOBODY if request.version >= FOLLOWERS_SERVE_SINCE else ()
    head_size = START.size + len(name) + layout.size
    length = head_size + size - LENGTH_SIZE
    head = bytearray(START.pack(length, exchange.correlation_id, 0, 0, 0, 1, len(name)))
    head += name
    head += layout.pack(1, asked.index, ErrorCode.NONE, end, stable, start, NULL, *later, size)
    exchange.finish(ResponseSend([head, ZeroCopySend(records)], head_size + size))
    return True
