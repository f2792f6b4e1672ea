"""A file of entries of one size, mapped for reading. The indexes of a segment are such files.

The file of an active segment has its maximum size, with zeros after its entries. Nothing states the
number of entries. A rolled or closed file is cut to its entries. Both kinds can be read here, even
while a broker writes.

Entries are written by `pwrite` and not through the mapping. On a full disk `pwrite` returns an
error, but a store into a hole of a mapped file kills the process.

Not here: the meaning of entries and the search (offset_index.py, time_index.py, search.py)."""

import mmap
import os
from pathlib import Path
from typing import Final

from downconvert.storage.errors import CorruptIndexError
from records.kernel import Buffer
from records.units import MiB

from .files import Files, WritableFile

INDEX_SIZE_MAX: Final = 10 * MiB  # bytes; Kafka's segment.index.bytes
assert INDEX_SIZE_MAX < 2**31 - 1


class EntryFile:
    """Entries `0 <= slot < count` of a file. `view` has the bytes of all of them.

    `open`, for reading, maps exactly the current entries. `open_writable` extends the file to
    `size_max`, and maps all of it."""

    __slots__ = ("_file", "_map", "count", "entry_size", "path", "view")

    def __init__(self, path: Path, entry_size: int) -> None:
        self.path = path
        self.entry_size = entry_size
        self.count = 0
        self._map: mmap.mmap | None = None
        # The mapped bytes: entries, followed by space for more.
        self.view: mmap.mmap | bytes = b""
        self._file: WritableFile | None = None

    @classmethod
    def open(cls, path: Path, entry_size: int) -> "EntryFile":
        """OSError: there is no such file. A torn last entry is left out."""
        self = cls(path, entry_size)
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            self.count = used_entries(fd, entry_size)
            if self.count:
                try:
                    self._map = mmap.mmap(fd, self.count * entry_size, access=mmap.ACCESS_READ)
                except ValueError as error:  # cut between the two steps
                    raise CorruptIndexError("was cut while it was opened", str(path)) from error
                self.view = self._map
        finally:
            os.close(fd)
        return self

    @classmethod
    def open_writable(
        cls, path: Path, entry_size: int, files: Files, size_max: int = INDEX_SIZE_MAX
    ) -> "EntryFile":
        """Creates the file if needed, with space for `size_max` bytes of entries.

        The existing entries are those of the last writer, if the disk keeps synced data. If that is
        in doubt, remove the file first and rebuild it from the log."""
        if size_max < entry_size:
            raise ValueError(f"an index of {size_max} bytes has no room for an entry")
        self = cls(path, entry_size)
        file = files.open(path)
        try:
            self.count = used_entries(file.fileno(), entry_size)
            capacity = max(size_max // entry_size, self.count)
            file.truncate(self.count * entry_size)  # zeros follow the entries
            file.truncate(capacity * entry_size)
            self._map = self.view = mmap.mmap(file.fileno(), capacity * entry_size)
        except BaseException:
            file.close()
            raise
        self._file = file
        return self

    @property
    def capacity(self) -> int:
        """The maximum number of entries."""
        return len(self.view) // self.entry_size

    @property
    def is_writable(self) -> bool:
        return self._file is not None

    def is_whole(self) -> bool:
        """Whether the file still has all mapped entries.

        A broker that recovers or truncates its log may cut an index that it had already trimmed.
        Reading such a mapping past the file's new end kills the process. A reader of a directory
        that another process writes calls this before every lookup. If the result is False, it
        reopens the index."""
        return self._map is None or self._map.size() >= self.count * self.entry_size

    @property
    def is_torn(self) -> bool:
        """Whether the file ends within an entry. Later entries may be missing."""
        return self._map is not None and self._map.size() % self.entry_size != 0

    def entry(self, slot: int) -> bytes:
        """The bytes of an entry. ValueError: there is no such entry."""
        if not 0 <= slot < self.count:
            raise ValueError(f"entry {slot} of {self.path.name}, which has {self.count}")
        return self.view[slot * self.entry_size : (slot + 1) * self.entry_size]

    def append(self, entry: Buffer) -> None:
        """ValueError: the file is full."""
        if self.count >= self.capacity:
            raise ValueError(f"{self.path.name} is full: it has room for {self.capacity} entries")
        self._writable().write_at(entry, self.count * self.entry_size)
        self.count += 1

    def truncate(self, count: int) -> None:
        """Keeps the first `count` entries.

        The others stay in the file until they are overwritten or trimmed, because writing zeros may
        need space that the disk does not have. Lookups by such entries find no fitting batch."""
        self._writable()
        self.count = min(count, self.count)

    def sync(self) -> None:
        self._writable().sync()

    def trim(self) -> None:
        """Cuts the file to its entries, because a rolled segment gets no more of them."""
        self._writable().truncate(self.count * self.entry_size)

    def close(self) -> None:
        """Closes the file. It has no entries after that."""
        self.count = 0
        if self._map is not None:
            self._map.close()
            self._map, self.view = None, b""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _writable(self) -> WritableFile:
        if self._file is None:
            raise ValueError(f"{self.path} is open for reading only")
        return self._file


def used_entries(fd: int, entry_size: int) -> int:
    """The number of entries before the zeros at the end of a file.

    Reads by `pread`, because a broker may trim the file to its entries at any time. Zeros in the
    very first slot are an entry if others follow, or if they are the whole file."""
    slots = os.fstat(fd).st_size // entry_size
    if slots <= 1 or _is_used(fd, slots - 1, entry_size):
        return slots
    low, high = 0, slots - 1  # slots below low: used; from high on: not
    while low < high:
        middle = (low + high) // 2
        if _is_used(fd, middle, entry_size):
            low = middle + 1
        else:
            high = middle
    return low


def _is_used(fd: int, slot: int, entry_size: int) -> bool:
    return any(os.pread(fd, entry_size, slot * entry_size))
