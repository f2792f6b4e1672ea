"""Collects headers of batches by the thousand as bytes, and reads them as columns.

Making an object of a header costs more than reading it from disk. So only the few bytes that lead
to the next header are parsed one by one. The fields of thousands are then extracted at once.

Not here: the rows (batches.py), continuing after damage (entries.py)."""

from array import array
from struct import Struct
from typing import Any, Final

import numpy as np

from records import BatchHeader, CorruptRecordsError
from records.checksum import MISMATCH, verify_checksum
from records.formats import (
    ATTRIBUTES_AT_BATCH,
    ATTRIBUTES_AT_LEGACY,
    BATCH_HEADER,
    BATCH_HEADER_FIELDS,
    BATCH_HEADER_SIZE,
    CODEC_MASK,
    ENTRY_HEAD_SIZE,
    MAGIC_AT,
    MESSAGE_HEAD,
    PREFIX,
    SIZE_FIELD,
    V1,
    V2,
    Codec,
)

from .checksums import SIZES_MIN, is_sound
from .entries import RUNS_PAST, Entries

SIZE: Final = Struct(">i").unpack_from
SIZE_AT: Final = PREFIX.size - SIZE_FIELD.size
CODEC_AT: Final = (ATTRIBUTES_AT_LEGACY, ATTRIBUTES_AT_LEGACY, ATTRIBUTES_AT_BATCH + 1)  # low byte
CODEC_MAX: Final = max(Codec)

NUMPY: Final = {"q": ">i8", "i": ">i4", "I": ">u4", "h": ">i2", "b": "i1"}
MESSAGE_FIELDS: Final = ("offset", "size", "crc", "magic", "attributes", "timestamp")
BATCHES: Final = np.dtype(
    [(n, NUMPY[c]) for n, c in zip(BATCH_HEADER_FIELDS, BATCH_HEADER.format[1:], strict=True)]
)
MESSAGES: Final = np.dtype(
    {
        "names": MESSAGE_FIELDS,
        "formats": [NUMPY[character] for character in MESSAGE_HEAD[V1].format[1:]],
        "offsets": [0, 8, 12, 16, 17, 18],
        "itemsize": BATCH_HEADER_SIZE,
    }
)
assert BATCHES.itemsize == BATCH_HEADER_SIZE


class Heads:
    """The headers of consecutive batches, and their positions."""

    __slots__ = ("_bytes", "_max", "_view", "positions")

    def __init__(self, count_max: int) -> None:
        self._max = count_max
        self._bytes = bytearray(count_max * BATCH_HEADER_SIZE)
        self._view = memoryview(self._bytes)
        self.positions = array("q")

    def __len__(self) -> int:
        return len(self.positions)

    @property
    def is_full(self) -> bool:
        return len(self.positions) >= self._max

    def clear(self) -> None:
        self.keep(0)

    def keep(self, count: int) -> None:
        """Forgets all headers after the first `count`."""
        del self.positions[count:]

    def collect(self, entries: Entries, window: memoryview) -> None:
        """Adds headers until the collection is full or the entries end; advances
        `entries.position`.

        Leaves out batches of aborted transactions. CorruptRecordsError is about the entry at
        `entries.position`: its header, or its checksum if checksums are verified."""
        position, base, filled = entries.position, 0, 0
        end, size_all, read_into = entries.end, entries.size, entries.records.read_into
        looks_closer = entries.options.verify_crc or bool(entries.split.aborted)
        while position < end and not self.is_full:
            at = position - base
            if not 0 <= at <= filled - BATCH_HEADER_SIZE:
                base, at = position, 0
                entries.move_to(position)
                filled = read_into(window[: size_all - position], position)
                if filled <= ENTRY_HEAD_SIZE:
                    break
            magic = window[at + MAGIC_AT]
            size = SIZE(window, at + SIZE_AT)[0] + PREFIX.size
            is_cut = position + size > size_all  # the log may end before the entry's codec
            if (
                magic > V2
                or size < SIZES_MIN[magic]
                or (not is_cut and window[at + CODEC_AT[magic]] & 7 > CODEC_MAX)
            ):
                entries.position = position
                BatchHeader.parse(window[:filled], at, position)  # raises with the reason
            if is_cut:
                break
            if not looks_closer or self._is_wanted(entries, window[:filled], at, size, position):
                target = len(self.positions) * BATCH_HEADER_SIZE
                head = window[at : at + BATCH_HEADER_SIZE]
                self._view[target : target + BATCH_HEADER_SIZE] = head
                self.positions.append(position)
            position += size
        entries.move_to(position)
        if position < end and not self.is_full:
            if entries.is_torn():
                raise CorruptRecordsError(RUNS_PAST, position)
            entries.position = end

    def table(self) -> "HeadTable":
        """The fields of all headers."""
        return HeadTable(self._view[: len(self) * BATCH_HEADER_SIZE], np.array(self.positions))

    def _is_wanted(
        self, entries: Entries, window: memoryview, at: int, size: int, position: int
    ) -> bool:
        entries.move_to(position)
        if entries.options.verify_crc:
            entry = window[at : at + size]
            if len(entry) < size:
                verify_checksum(entries.records, BatchHeader.parse(window, at, position))
            elif not is_sound(entry):
                raise CorruptRecordsError(MISMATCH, position)
        if not entries.split.aborted:
            return True
        return not entries.aborted.cover(BatchHeader.parse(window, at, position))


class HeadTable:
    """The fields as arrays, each with a name of `BatchHeader`."""

    def __init__(self, heads: memoryview, positions: Any) -> None:
        self._batches = np.frombuffer(heads, BATCHES)
        self._messages = np.frombuffer(heads, MESSAGES)
        self.position = positions
        self.magic = self._batches["magic"]
        self.is_batch = self.magic == V2
        self.base_offset = self._batches["base_offset"].astype(np.int64)
        self.last_offset = self.base_offset + self.of_batch("last_offset_delta", 0)
        self.size = np.minimum(self._batches["size"].astype(np.int64) + PREFIX.size, 2**31 - 1)
        self.attributes = self.of_either("attributes", "attributes")
        self.codec = self.attributes & CODEC_MASK
        self.crc = self.of_either("crc", "crc")
        timestamps = np.where(self.magic == V1, self._messages["timestamp"], -1)
        self.base_timestamp = np.where(self.is_batch, self._batches["base_timestamp"], timestamps)
        self.max_timestamp = np.where(self.is_batch, self._batches["max_timestamp"], timestamps)

    def of_batch(self, name: str, otherwise: int) -> Any:
        """A field that only v2 has."""
        return np.where(self.is_batch, self._batches[name].astype(np.int64), otherwise)

    def of_either(self, in_batch: str, in_message: str) -> Any:
        batch = self._batches[in_batch].astype(np.int64)
        return np.where(self.is_batch, batch, self._messages[in_message].astype(np.int64))
