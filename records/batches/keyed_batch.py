"""Builds a v2 batch, and its header, from keys and values that share one timestamp.

A coordinator stores the changes of a request in such a batch, which usually has one record. `build`
makes the same bytes from any records, but costs several times as much.

Not here: batches with a codec, headers or different timestamps (builder.py)."""

from collections.abc import Iterable
from typing import Final

from records.batch import NONE, BatchHeader
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
    Codec,
)
from records.varint import varint

NULL: Final = varint(-1)  # in place of a size
SAME_TIME: Final = b"\0\0"  # a record's attributes and its timestamp delta
NO_HEADERS: Final = b"\0"
NO_PRODUCER: Final = (NONE, NONE)


def keyed_batch(
    pairs: Iterable[tuple[bytes | None, bytes | None]],
    time: int,
    producer: tuple[int, int] | None = None,
) -> tuple[bytearray, BatchHeader]:
    """The batch, with offsets from 0 on, and its header. There must be at least one pair.

    `time` in milliseconds. `producer`: the id and epoch of the producer of the transaction."""
    body, count = bytearray(), 0
    for key, value in pairs:
        record = SAME_TIME + varint(count)
        record += NULL if key is None else varint(len(key)) + key
        record += NULL if value is None else varint(len(value)) + value
        record += NO_HEADERS
        body += varint(len(record)) + record
        count += 1
    attributes = 0 if producer is None else TRANSACTIONAL
    producer_id, producer_epoch = producer or NO_PRODUCER
    producing = producer_id, producer_epoch, NONE, count
    size = BATCH_HEADER_SIZE + len(body)
    data = bytearray(
        BATCH_HEADER.pack(
            *(0, size - PREFIX.size, NONE, V2, 0, attributes, count - 1, time, time), *producing
        )
    )
    data += body
    crc = crc32c(memoryview(data)[ATTRIBUTES_AT_BATCH:])
    CRC.pack_into(data, CRC_AT_BATCH, crc)
    fields = (
        *(0, V2, size, 0, count - 1, NONE, crc, attributes, time, time),
        *producing,
        Codec.NONE,
    )
    return data, tuple.__new__(BatchHeader, fields)  # as BatchHeader.parse does
