"""Records in memory: the range of bytes in a buffer.

Not here: records in a file (file_records.py)."""

from collections.abc import Iterator
from operator import attrgetter

from records.batch import BatchHeader
from records.kernel import Buffer

from .source import check_slice, read_headers


class MemoryRecords:
    """A log, or a piece of one, in a buffer, which is not copied.

    It is read by the rules for files. Kafka's own stream over memory is stricter: it finds errors
    in a tail of 12 to 17 bytes. In a file, such a tail is ignored.

    size: bytes of the range. origin: the position of its first byte in the whole buffer."""

    __slots__ = ("_view", "origin", "size")

    def __init__(self, buffer: Buffer) -> None:
        self._view = memoryview(buffer).cast("B")
        self.size = len(self._view)
        self.origin = 0

    # Compiled code gets it, because checks of small batches need it several times.
    view = property(attrgetter("_view"), doc="All of its bytes.")

    @property
    def name(self) -> str:
        """Its name in messages."""
        return "memory"

    def read_into(self, target: memoryview, position: int) -> int:
        """Reads into `target` from `position` on, in bytes of this range.

        Returns the bytes read: fewer than fit only at the end. ValueError: a negative position."""
        if position < 0:
            raise ValueError(f"a read at {position}: negative position")
        found = self._view[position : position + len(target)]
        target[: len(found)] = found
        return len(found)

    def batches(self) -> Iterator[BatchHeader]:
        """The headers of the whole entries, in order. Bodies are not read. A torn last entry ends
        the iteration.

        CorruptRecordsError: the bytes at that position are not an entry."""
        return read_headers(self)

    def slice(self, position: int, size: int) -> "MemoryRecords":
        """A range of this one: `size` bytes from `position` on, cut off at its end.

        ValueError: an argument is negative, or `position` is after the end."""
        check_slice(self, position, size)
        part = MemoryRecords(self._view[position : position + size])
        part.origin = self.origin + position
        return part

    def __repr__(self) -> str:
        return f"MemoryRecords({self.size} bytes at {self.origin})"
