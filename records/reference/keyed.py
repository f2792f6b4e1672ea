"""A v2 batch of keys and values that share one timestamp."""

from collections.abc import Iterable
from typing import Final

from records.crc32c import crc32c
from records.formats import (
    ATTRIBUTES_AT_BATCH,
    BATCH_HEADER,
    BATCH_HEADER_SIZE,
    CRC,
    CRC_AT_BATCH,
    PREFIX,
    TRANSACTIONAL,
    V2,
)
from records.varint import varint

NONE: Final = -1
SAME_TIME: Final = b"\0\0"  # a record's attributes and its timestamp delta
NO_HEADERS: Final = b"\0"
SIZE_MAX: Final = 2**31 - 1  # bytes


def keyed_batch(
    pairs: Iterable[tuple[bytes | None, bytes | None]],
    time: int,
    producer: tuple[int, int] | None,
) -> tuple[bytearray, tuple[int, ...]]:
    """See `KeyedBatch` in kernel_functions.py."""
    body, count = bytearray(), 0
    for key, value in pairs:
        record = SAME_TIME + varint(count) + _field(key) + _field(value) + NO_HEADERS
        body += varint(len(record)) + record
        count += 1
    size = BATCH_HEADER_SIZE + len(body)
    if not count:
        raise ValueError("no records, or no memory for them")
    if size > SIZE_MAX:
        raise ValueError("the batch is too large")
    attributes = 0 if producer is None else TRANSACTIONAL
    producing = (*(producer or (NONE, NONE)), NONE, count)
    fields = attributes, count - 1, time, time, *producing
    data = bytearray(BATCH_HEADER.pack(0, size - PREFIX.size, NONE, V2, 0, *fields)) + body
    crc = crc32c(memoryview(data)[ATTRIBUTES_AT_BATCH:])
    CRC.pack_into(data, CRC_AT_BATCH, crc)
    return data, (0, V2, size, 0, count - 1, NONE, crc, attributes, time, time, *producing)


def _field(data: bytes | None) -> bytes:
    """A key or a value with its size."""
    return varint(-1) if data is None else varint(len(data)) + data
