"""Small entries of every format, and the vocabulary of damage.

Kafka's own classes wrote the hexadecimal ones. The rest is built here, and shares only the tables
in formats.py with the tested code."""

import gzip
import zlib
from collections.abc import Sequence
from typing import Any

from crc32c import crc32c

from records.formats import (
    ATTRIBUTES_AT_BATCH,
    BATCH_HEADER,
    BATCH_HEADER_FIELDS,
    BATCH_SIZE_MIN,
    CRC,
    CRC_AT_BATCH,
    CRC_AT_LEGACY,
    MAGIC_AT,
    MESSAGE_HEAD,
    PREFIX,
    SIZE_FIELD,
    V0,
    V1,
    V2,
)

# Two records, (283843, "key1", "value1") and (1234, "key2", "value2"), from offset 0: the examples
# of Kafka's MemoryRecordsTest, whose checksums that test states.
TWO_RECORDS = {
    (V0, "none"): bytes.fromhex(
        "000000000000000000000018 75f0f41d 00 00 000000046b657931 0000000676616c756531"
        "000000000000000100000018 751bc3a6 00 00 000000046b657932 0000000676616c756532"
    ),
    (V1, "none"): bytes.fromhex(
        "000000000000000000000020 0685b364 01 00 00000000000454c3"
        "000000046b657931 0000000676616c756531"
        "000000000000000100000020 05093005 01 00 00000000000004d2"
        "000000046b657932 0000000676616c756532"
    ),
    (V2, "none"): bytes.fromhex(
        "000000000000000000000055 ffffffff 02 e58cf1ff 0000 00000001"
        "00000000000454c3 00000000000454c3 ffffffffffffffff ffff ffffffff 00000002"
        "20000000086b6579310c76616c75653100 2400e1bf2202086b6579320c76616c75653200"
    ),
    (V0, "lz4"): bytes.fromhex(
        "000000000000000100000056 03fd7f3a 00 03 ffffffff 00000048"
        "04224d1860401a 39000000 16000100511875f0f41d0f00e0046b6579310000000676616c75650a0000020011"
        "012400301bc3a60d00012400b0320000000676616c756532 00000000"
    ),
    (V1, "lz4"): bytes.fromhex(
        "00000000000000010000006c 53e1bee7 01 03 00000000000454c3 ffffffff 00000056"
        "04224d18604082 47000000 1600010062200685b364011000f0050454c3000000046b6579310000000676616c"
        "75650a0000020000230050200509300509000002002304d22c00b0320000000676616c756532 00000000"
    ),
}
CHECKSUMS = {
    (V0, "none"): 1978725405,
    (V1, "none"): 109425508,
    (V2, "none"): 3851219455,
    (V0, "lz4"): 66944826,
    (V1, "lz4"): 1407303399,
}

# Offsets 10, 12 and 13: (100, "k1", "v1"), (101, null, "v2", header h=x), (99, "k3", null).
GAPS = bytes.fromhex(
    "000000000000000a 00000052 ffffffff 02 a6a65d32 0000 00000003"
    "0000000000000064 0000000000000065 ffffffffffffffff ffff ffffffff 00000003"
    "14000000046b31047631001800020401047632020268027810000106046b330100"
)

# Timestamps 50 and 150 against a delete horizon of 100, which is not a timestamp of either.
DELETE_HORIZON = bytes.fromhex(
    "0000000000000000 00000042 ffffffff 02 14d46902 0040 00000001"
    "0000000000000064 0000000000000096 ffffffffffffffff ffff ffffffff 00000002"
    "100063000230023000 0e00640202310100"
)


def message(
    magic: int,
    offset: int,
    key: bytes | None = b"k",
    value: bytes | None = b"v",
    *,
    timestamp: int = 1000,
    attributes: int = 0,
) -> bytes:
    """A v0 or v1 message."""
    fields = (timestamp,) if magic == V1 else ()
    body = _sized(key) + _sized(value)
    head = MESSAGE_HEAD[magic]
    size = head.size - PREFIX.size + len(body)
    return with_checksum(head.pack(offset, size, 0, magic, attributes, *fields) + body)


def wrapper(
    magic: int, offset: int, inner: bytes, *, timestamp: int = 1000, attributes: int = 0
) -> bytes:
    """A message that holds messages, compressed with gzip."""
    compressed = gzip.compress(inner, mtime=0)
    return message(magic, offset, None, compressed, timestamp=timestamp, attributes=attributes | 1)


def record(
    offset_delta: int,
    key: bytes | None = b"k",
    value: bytes | None = b"v",
    *,
    timestamp_delta: int = 0,
    headers: Sequence[tuple[bytes, bytes | None]] = (),
) -> bytes:
    """A v2 record."""
    body = b"\0" + varint(timestamp_delta) + varint(offset_delta)
    body += _varsized(key) + _varsized(value) + varint(len(headers))
    body += b"".join(_varsized(name) + _varsized(content) for name, content in headers)
    return varint(len(body)) + body


def batch(*records: bytes, compressed: bytes | None = None, **fields: int) -> bytes:
    """A v2 batch. `compressed` replaces the records. Fields are those of formats.py."""
    body = b"".join(records) if compressed is None else compressed
    values = {
        "base_offset": 0,
        "size": BATCH_SIZE_MIN + len(body),
        "leader_epoch": 0,
        "magic": V2,
        "crc": 0,
        "attributes": 0,
        "last_offset_delta": max(len(records) - 1, 0),
        "base_timestamp": 1000,
        "max_timestamp": 1000,
        "producer_id": -1,
        "producer_epoch": -1,
        "base_sequence": -1,
        "records_count": len(records),
        **fields,
    }
    head = BATCH_HEADER.pack(*(values[name] for name in BATCH_HEADER_FIELDS))
    return with_checksum(head + body)


def damaged(entry: bytes, *, at: int | None = None, checksum: str = "fixed", **to: Any) -> bytes:
    """The entry with fields of a batch changed, or the bytes from `at` on (`bytes=`).

    The checksum is "fixed", so that only the field is wrong, or left "wrong"."""
    if at is not None:
        changed = entry[:at] + to["bytes"] + entry[at + len(to["bytes"]) :]
    else:
        names = dict(zip(BATCH_HEADER_FIELDS, BATCH_HEADER.unpack_from(entry), strict=True))
        names.update(to)
        changed = BATCH_HEADER.pack(*names.values()) + entry[BATCH_HEADER.size :]
    return with_checksum(changed) if checksum == "fixed" else changed


def with_checksum(entry: bytes) -> bytes:
    """The entry with the checksum that its bytes have."""
    if entry[MAGIC_AT] == V2:
        return _put(entry, CRC_AT_BATCH, crc32c(entry[ATTRIBUTES_AT_BATCH:]))
    return _put(entry, CRC_AT_LEGACY, zlib.crc32(entry[MAGIC_AT:]))


def varint(number: int) -> bytes:
    """A number as the fields of a v2 record have it."""
    left = (number << 1) ^ (number >> 63)
    written = bytearray()
    while left > 0x7F:
        written.append(left & 0x7F | 0x80)
        left >>= 7
    written.append(left)
    return bytes(written)


def _put(entry: bytes, at: int, crc: int) -> bytes:
    return entry[:at] + CRC.pack(crc) + entry[at + CRC.size :]


def _sized(data: bytes | None) -> bytes:
    return SIZE_FIELD.pack(-1) if data is None else SIZE_FIELD.pack(len(data)) + data


def _varsized(data: bytes | None) -> bytes:
    return varint(-1) if data is None else varint(len(data)) + data


GOOD = batch(record(0), record(1))
EVERY_CODEC = 0xFF  # as bits: all may pass
