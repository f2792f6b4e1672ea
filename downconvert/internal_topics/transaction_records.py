"""Transactional ids as records of `__transaction_state`, as Kafka writes them.

A key and a value begin with their versions. Every broker since 0.11 reads version 0 of a value.
Version 1, with compact lengths and tagged fields, is written by Kafka 3.9 and later if newer
transactions are enabled. Sources: Kafka's definitions of TransactionLogKey and
TransactionLogValue.

Not here: the log of the records (broker/transactions/state_topic.py,
spark/read/state_tables.py)."""

from collections import defaultdict
from typing import Final

from downconvert.storage import TopicPartition

from .cursor import Cursor, UnreadableRecordError
from .primitives import (
    INT8,
    INT16,
    INT32,
    INT64,
    number,
    string,
    tags,
    text,
)
from .transaction import NO_ID, State, Transaction

KEY_VERSION: Final = 0
WRITTEN: Final = 0  # the version of values that this module writes
FLEXIBLE: Final = 1
PREVIOUS_TAG, NEXT_TAG = 0, 1  # producer ids
INDEX_SIZE: Final = INT32.size
KEPT: Final = range(State.EMPTY, State.COMPLETE_ABORT + 1)  # the others are never stored


def read_key(data: bytes) -> str | None:
    """The transactional id. None: another kind of record. UnreadableRecordError: it is damaged."""
    cursor = Cursor(memoryview(data))
    return text(cursor) if number(cursor, INT16) == KEY_VERSION else None


def read_value(transactional_id: str, data: bytes) -> Transaction:
    """UnreadableRecordError: it is damaged, or of a later version."""
    cursor = Cursor(memoryview(data))
    version = number(cursor, INT16)
    if not WRITTEN <= version <= FLEXIBLE:
        raise UnreadableRecordError(f"a transaction of version {version}")
    compact = version >= FLEXIBLE
    producer_id, epoch = number(cursor, INT64), number(cursor, INT16)
    timeout_ms, status = number(cursor, INT32), number(cursor, INT8)
    if status not in KEPT:
        raise UnreadableRecordError(f"a transaction in state {status}")
    partitions = _partitions(cursor, compact=compact)
    update_time, start_time = number(cursor, INT64), number(cursor, INT64)
    tagged = tags(cursor) if compact else {}
    return Transaction(
        transactional_id=transactional_id,
        producer_id=producer_id,
        epoch=epoch,
        previous_producer_id=_producer_id(tagged.get(PREVIOUS_TAG)),
        next_producer_id=_producer_id(tagged.get(NEXT_TAG)),
        timeout_ms=timeout_ms,
        state=State(status),
        partitions=frozenset(partitions),
        start_time=start_time,
        update_time=update_time,
    )


def _partitions(cursor: Cursor, *, compact: bool) -> list[TopicPartition]:
    found = []
    for _ in range(_count(cursor, 1, compact=compact)):
        topic = text(cursor, compact=compact)
        for _ in range(_count(cursor, INDEX_SIZE, compact=compact)):
            found.append(TopicPartition(topic, number(cursor, INT32)))
        if compact:
            tags(cursor)
    return found


def _count(cursor: Cursor, size_min: int, *, compact: bool) -> int:
    """The length of an array of elements with at least `size_min` bytes; 0 for null."""
    count = cursor.uvarint() - 1 if compact else number(cursor, INT32)
    if count > cursor.remaining // size_min:
        raise UnreadableRecordError(f"{count} elements in {cursor.remaining} bytes")
    return count


def _producer_id(data: bytes | None) -> int:
    if data is None:
        return NO_ID
    return number(Cursor(memoryview(data)), INT64)


def write_key(transactional_id: str) -> bytes:
    return INT16.pack(KEY_VERSION) + string(transactional_id)


def write_value(one: Transaction) -> bytes:
    written = bytearray(INT16.pack(WRITTEN))
    written += INT64.pack(one.producer_id) + INT16.pack(one.epoch)
    written += INT32.pack(one.timeout_ms) + INT8.pack(one.state)
    written += _written_partitions(one)
    written += INT64.pack(one.update_time) + INT64.pack(one.start_time)
    return bytes(written)


def _written_partitions(one: Transaction) -> bytes:
    if one.state is State.EMPTY:
        return INT32.pack(-1)  # null, as Kafka writes it: in this state there are no partitions
    topics: defaultdict[str, list[int]] = defaultdict(list)
    for topic, index in sorted(one.partitions):
        topics[topic].append(index)
    written = bytearray(INT32.pack(len(topics)))
    for topic, indices in topics.items():
        written += string(topic) + INT32.pack(len(indices))
        written += b"".join(map(INT32.pack, indices))
    return bytes(written)
