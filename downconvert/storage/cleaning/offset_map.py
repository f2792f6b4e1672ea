"""The last offset of each key, in memory of a fixed size: Kafka's SkimpyOffsetMap.

Keys are stored as digests of 16 bytes, so two keys collide with a probability of about 2^-128. Each
key takes 24 bytes, whatever its size. A nearly full map accepts no more keys. The cleaner then
cleans with the keys that it has, and cleans the rest in another pass."""

import mmap
from hashlib import blake2b
from struct import Struct
from typing import Final

from records.units import MiB

DIGEST: Final = Struct("<QQ")
WORDS: Final = 3  # in a slot: the digest's two, and the offset plus one (0 in a free slot)
SLOT_SIZE: Final = 8 * WORDS  # bytes

# log.cleaner.io.buffer.load.factor: the maximum fill of the table. A fuller one is slow to search.
LOAD_FACTOR: Final = 0.9

# log.cleaner.dedupe.buffer.size: 5 million keys in each pass. Only used pages take memory.
BUFFER_SIZE: Final = 128 * MiB


class OffsetMap:
    """Keys and their last offsets. `close` returns the memory."""

    __slots__ = ("_count", "_keys_max", "_map", "_slots", "_table", "last_offset")

    def __init__(self, buffer_size: int = BUFFER_SIZE) -> None:
        """`buffer_size`: bytes. ValueError: it has no room for a key."""
        self._slots = buffer_size // SLOT_SIZE
        self._keys_max = int(self._slots * LOAD_FACTOR)
        if self._keys_max < 1:
            raise ValueError(f"a buffer of {buffer_size} bytes has no room for a key")
        # Anonymous memory is zeroed, and takes space only where it is written.
        self._map = mmap.mmap(-1, self._slots * SLOT_SIZE)
        self._table = memoryview(self._map).cast("Q")
        self._count = 0
        self.last_offset = -1  # the highest offset so far

    def __len__(self) -> int:
        return self._count

    def put(self, key: bytes, offset: int) -> bool:
        """Notes a record of a key at this offset, which is above all earlier ones. False if the map
        is full, so that the record is not noted."""
        low, high = _digest(key)
        at = self._find(low, high)
        if not self._table[at + 2]:
            if self._count >= self._keys_max:
                return False
            self._table[at] = low
            self._table[at + 1] = high
            self._count += 1
        self._table[at + 2] = offset + 1
        self.last_offset = offset
        return True

    def get(self, key: bytes) -> int:
        """The last offset of a key; -1 if the key is unknown."""
        return self._table[self._find(*_digest(key)) + 2] - 1

    def close(self) -> None:
        self._table.release()
        self._map.close()

    def _find(self, low: int, high: int) -> int:
        """The position of a key's slot, or of the free slot that it would get. The map always has a
        free slot."""
        table, slots = self._table, self._slots
        slot = low % slots
        while True:
            at = slot * WORDS
            if not table[at + 2] or (table[at] == low and table[at + 1] == high):
                return at
            slot = slot + 1 if slot + 1 < slots else 0


def _digest(key: bytes) -> tuple[int, int]:
    low, high = DIGEST.unpack(blake2b(key, digest_size=DIGEST.size).digest())
    return low, high
