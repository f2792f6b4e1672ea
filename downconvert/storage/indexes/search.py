"""The search of an index: its warm section first (KAFKA-6432).

Nearly all lookups are near the end of a log. A plain binary search over an index of megabytes
visits a dozen pages, and the set of them changes whenever the index grows by a page. Lookups then
wait for a page that was not used for hours. So the last 8,192 bytes are searched first. These are
two or three pages, and lookups near the end use only them.

The results are those of a plain binary search, as in Kafka."""

import sys
from array import array
from bisect import bisect_right
from functools import partial
from mmap import mmap
from struct import Struct
from typing import Final

KEY: Final = Struct(">q")  # the first field of an entry
WARM_SIZE: Final = 8192  # bytes; Kafka's number: small enough to stay in memory at 4 KiB a page

# A reader that stays in the cold part (catching up, looking up timestamps) soon uses most of its
# pages. From then on every sixteenth key is kept in memory, and a lookup uses one page, not ten.
# For fewer searches, reading these keys would cost more than it saves.
MARKS_AFTER: Final = 64  # searches of the cold part
MARK_EVERY: Final = 16  # entries
assert MARK_EVERY * 12 % KEY.size == 0  # an entry of a time index has 12 bytes


class WarmSearch:
    """Finds keys in the sorted entries of a mapped index."""

    __slots__ = (
        "_block",
        "_cold_searches",
        "_entry_size",
        "_key",
        "_marks",
        "_view",
        "_warm",
        "_warm_start",
    )

    def __init__(self, view: mmap | bytes, entry_size: int) -> None:
        self._view = view
        self._entry_size = entry_size
        # Reads a key by its position, without running Python code for each. The result is a tuple.
        self._key = partial(KEY.unpack_from, view)
        self._block = Struct(">" + f"q{entry_size - KEY.size}x" * MARK_EVERY).unpack_from
        self.forget()

    def floor(self, key: int, count: int) -> int:
        """The slot of the last of `count` entries whose key is not above `key`; -1 if there is
        none."""
        warm = self._warm
        if warm is None:
            start = max(0, count - WARM_SIZE // self._entry_size)
            # One page of the warm section decides whether the key is before it.
            if start and key < self._key(start * self._entry_size)[0]:
                return self._cold_floor(key, start)
            warm = self._read_warm(start, count)
        if warm and warm[0] <= key:
            return self._warm_start + bisect_right(warm, key) - 1
        return self._cold_floor(key, self._warm_start)

    def appended(self, key: int) -> None:
        """Call this after an entry was added at the end."""
        warm = self._warm
        if warm is not None:
            warm.append(key)
            entries_max = WARM_SIZE // self._entry_size
            if len(warm) > 2 * entries_max:
                self._warm_start += len(warm) - entries_max
                del warm[:-entries_max]

    def forget(self) -> None:
        """Call this after entries were removed."""
        self._cold_searches = 0
        self._marks: array[int] = array("q")
        self._warm: array[int] | None = None
        self._warm_start = 0

    def _cold_floor(self, key: int, end: int) -> int:
        """As `floor`, for the entries up to `end`, which are before the warm section."""
        size = self._entry_size
        if self._cold_searches < MARKS_AFTER:
            self._cold_searches += 1
            return bisect_right(range(0, end * size, size), (key,), key=self._key) - 1
        marks = self._marks
        if len(marks) * MARK_EVERY < end:
            self._read_marks(end)
        mark = bisect_right(marks, key) - 1
        if mark < 0:
            return -1
        # The warm entries follow the cold part, so there is always a whole block to read.
        block = self._block(self._view, mark * MARK_EVERY * size)
        return mark * MARK_EVERY + bisect_right(block, key) - 1

    def _read_warm(self, start: int, count: int) -> "array[int]":
        size = self._entry_size
        self._warm_start = start
        keys = (self._key(at)[0] for at in range(start * size, count * size, size))
        self._warm = array("q", keys)
        return self._warm

    def _read_marks(self, count: int) -> None:
        start, end = len(self._marks) * MARK_EVERY * self._entry_size, count * self._entry_size
        with memoryview(self._view) as view, view[start : end // KEY.size * KEY.size] as cold:
            step = MARK_EVERY * self._entry_size // KEY.size
            keys = array("q", cold.cast("q")[::step].tobytes())
        if sys.byteorder == "little":
            keys.byteswap()
        self._marks.extend(keys)
