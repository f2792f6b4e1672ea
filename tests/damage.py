"""The vocabulary of damage: what can be done to good bytes, by name.

`damaged` sets one field of an entry, `wrong` and `with_offset` its offset. `cut`, `spliced` and
`flipped` work on any bytes. `repaired` gives entries the checksums that their bytes have, so that
nothing but the damage is wrong.
`mutated` does a few of these at random.

Not here: the good bytes (strategies.py, records/examples.py)."""

import struct
import zlib
from collections.abc import Iterator
from random import Random
from typing import Final, Literal

from crc32c import crc32c

from records.formats import (
    ATTRIBUTES_AT_BATCH,
    BATCH_HEADER,
    BATCH_HEADER_FIELDS,
    BATCH_HEADER_SIZE,
    CRC,
    CRC_AT_BATCH,
    CRC_AT_LEGACY,
    ENTRY_HEAD_SIZE,
    MAGIC_AT,
    MESSAGE_HEAD,
    MESSAGE_SIZE_MIN,
    PREFIX,
    V0,
    V1,
    V2,
)

Checksum = Literal["fixed", "stale"]

MESSAGE_FIELDS: Final = {
    V0: ("offset", "size", "crc", "magic", "attributes"),
    V1: ("offset", "size", "crc", "magic", "attributes", "timestamp"),
}
# Values of sizes, counts and deltas at which mistakes are most likely.
TELLING: Final = (0, 1, -1, -2, 2, 7, 13, 14, 48, 49, 127, 128, 2**31 - 1, -(2**31))
SIZE_AT: Final = PREFIX.size - 4


def damaged(entry: bytes, *, field: str, to: int, crc: Checksum = "fixed") -> bytes:
    """A batch or message with one field of its head changed, by its name in formats.py.

    `crc`: "fixed", so that only the field is wrong, or "stale"."""
    magic = entry[MAGIC_AT]
    layout = BATCH_HEADER if magic == V2 else MESSAGE_HEAD[magic]
    names = BATCH_HEADER_FIELDS if magic == V2 else MESSAGE_FIELDS[magic]
    values = list(layout.unpack_from(entry))
    values[names.index(field)] = to
    changed = layout.pack(*values) + entry[layout.size :]
    return changed if crc == "stale" or field == "crc" else repaired(changed)


def wrong(entry: bytes, bit: int) -> bytes:
    """An entry with a flipped bit in its offset, which no checksum covers."""
    (offset,) = struct.unpack_from(">Q", entry)
    return struct.pack(">Q", offset ^ 1 << bit) + entry[8:]


def with_offset(entry: bytes, offset: int) -> bytes:
    """An entry with another offset. Its checksum stays, because it does not cover the offset."""
    return damaged(entry, field="base_offset", to=offset, crc="stale")


def cut(data: bytes, size: int) -> bytes:
    """The first `size` bytes; or, if that is negative, all but so many."""
    return data[:size]


def spliced(data: bytes, at: int, piece: bytes, *, drop: int = 0) -> bytes:
    """With `piece` in place of the `drop` bytes at `at`."""
    return data[:at] + piece + data[at + drop :]


def flipped(data: bytes, *bits: int) -> bytes:
    """With these bits turned over; bit 0 is the lowest of the first byte."""
    changed = bytearray(data)
    for bit in bits:
        changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


def entries(log: bytes) -> Iterator[tuple[int, int]]:
    """Position and size of each whole entry, as far as sizes lead from one to the next."""
    at = 0
    while len(log) - at >= ENTRY_HEAD_SIZE:
        size = PREFIX.size + PREFIX.unpack_from(log, at)[1]
        if not PREFIX.size + MESSAGE_SIZE_MIN <= size <= len(log) - at:
            return
        yield at, size
        at += size


def repaired(log: bytes) -> bytes:
    """With the checksums that the bytes of its whole entries have."""
    changed = bytearray(log)
    for at, size in entries(log):
        if log[at + MAGIC_AT] != V2:
            CRC.pack_into(changed, at + CRC_AT_LEGACY, zlib.crc32(log[at + MAGIC_AT : at + size]))
        elif size >= BATCH_HEADER_SIZE:
            crc = crc32c(log[at + ATTRIBUTES_AT_BATCH : at + size])
            CRC.pack_into(changed, at + CRC_AT_BATCH, crc)
    return bytes(changed)


def mutated(data: bytes, random: Random) -> bytes:
    """With one to three damages that a random generator chooses, and perhaps repaired."""
    for _ in range(random.choice((1, 1, 1, 2, 3))):
        data = random.choice(_MUTATIONS)(data, random)
    return repaired(data) if random.random() < 0.5 else data


def _flip(data: bytes, random: Random) -> bytes:
    return flipped(data, random.randrange(8 * len(data))) if data else data


def _set_byte(data: bytes, random: Random) -> bytes:
    byte = random.choice((0, 1, 2, 0x7E, 0x7F, 0x80, 0x81, 0xFF, random.randrange(256)))
    return spliced(data, _place(data, random), bytes([byte]), drop=1)


def _set_number(data: bytes, random: Random) -> bytes:
    """As if it were a size, a count, an offset or a timestamp."""
    size = random.choice((2, 4, 4, 4, 8))
    number = random.choice((*TELLING, len(data), 2**63 - 1, -(2**63)))
    piece = (number % 2 ** (8 * size)).to_bytes(size, "big")
    return spliced(data, _place(data, random), piece, drop=size)


def _set_size(data: bytes, random: Random) -> bytes:
    """The size of an entry: somewhat other than it is, or quite."""
    starts = [at for at, _ in entries(data)]
    if not starts:
        return data
    at = random.choice(starts) + SIZE_AT
    size = int.from_bytes(data[at : at + 4], "big")
    to = random.choice((size + random.randrange(-20, 20), *TELLING))
    return spliced(data, at, (to % 2**32).to_bytes(4, "big"), drop=4)


def _set_count(data: bytes, random: Random) -> bytes:
    """The record count of a batch."""
    starts = [at for at, size in entries(data) if size >= BATCH_HEADER_SIZE]
    if not starts:
        return data
    at = random.choice(starts) + BATCH_HEADER_SIZE - 4
    count = int.from_bytes(data[at : at + 4], "big")
    to = random.choice((count + random.choice((-1, 1, 2)), *TELLING))
    return spliced(data, at, (to % 2**32).to_bytes(4, "big"), drop=4)


def _cut(data: bytes, random: Random) -> bytes:
    return cut(data, _place(data, random))


def _drop(data: bytes, random: Random) -> bytes:
    return spliced(data, _place(data, random), b"", drop=random.randrange(1, 40))


def _insert(data: bytes, random: Random) -> bytes:
    piece = random.choice(
        (bytes(random.randrange(1, 20)), random.randbytes(random.randrange(1, 20)))
    )
    return spliced(data, _place(data, random), piece)


def _copy(data: bytes, random: Random) -> bytes:
    """A part of the same bytes somewhere else in them."""
    start = _place(data, random)
    piece = data[start : start + random.randrange(1, 80)]
    drop = random.choice((0, len(piece)))
    return spliced(data, _place(data, random), piece, drop=drop)


def _place(data: bytes, random: Random) -> int:
    return random.randrange(len(data) + 1)


_MUTATIONS: Final = (
    _flip,
    _flip,
    _flip,
    _set_byte,
    _set_number,
    _set_size,
    _set_count,
    _cut,
    _drop,
    _insert,
    _copy,
)
