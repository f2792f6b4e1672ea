"""Finds messages by their offsets among others in memory.

Not here: parsing messages (records)."""

from array import array
from bisect import bisect_left
from typing import Final

from records.formats import PREFIX

STEP: Final = 16  # messages between two entries, which take a hundredth of the bytes, or less


class MessageIndex:
    """Finds whole messages of v0 or v1 that are stored one after the other, with rising offsets."""

    __slots__ = ("_data", "_offsets", "_positions")

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._offsets, self._positions = array("q"), array("q")  # of every sixteenth message
        at = number = 0
        while at < len(data):
            offset, size = PREFIX.unpack_from(data, at)
            if number % STEP == 0:
                self._offsets.append(offset)
                self._positions.append(at)
            at += PREFIX.size + size
            number += 1

    def find(self, offset: int) -> tuple[int, int]:
        """The number of bytes and messages before the first message at or after `offset`."""
        data = self._data
        mark = max(0, bisect_left(self._offsets, offset) - 1)
        at, number = self._positions[mark] if self._positions else 0, mark * STEP
        while at < len(data):
            found, size = PREFIX.unpack_from(data, at)
            if found >= offset:
                break
            at += PREFIX.size + size
            number += 1
        return at, number
