"""A file of entries of one size, mapped for reading: what the indexes of a segment are.

The file of an active segment is as large as it may ever become, with zeros after its entries;
nothing says how many there are. A rolled or closed one is cut to its entries. Either is read here,
also while a broker works on it.

Entries are written by `pwrite` and not through the mapping: a full disk is then an error, where
storing into a hole of a mapped file kills the process.

Not here: what an entry means and how one is found (offset_index.py, time_index.py, search.py)."""

import mmap
import os
from pathlib import Path
from typing import Final

from downconvert.storage.errors import CorruptIndexError
from records.kernel import Buffer

from .files import Files, WritableFile

INDEX_SIZE_MAX: Final = 10 * 1024 * 1024  # bytes; Kafka's segment.index.bytes
assert INDEX_SIZE_MAX < 2**31 - 1


class EntryFile:
    """Entries `0 <= slot < count` of a file; `view` is the bytes of all of them.

    For reading, `open`: exactly the entries that there are now are mapped. For writing,
    `open_writable`: the file is extended to `size_max`, and all of it is mapped."""

    __slots__ = ("_file", "_map", "count", "entry_size", "path", "view")

    def __init__(self, path: Path, entry_size: int) -> None:
        self.path = path
        self.entry_size = entry_size
        self.count = 0
        self._map: mmap.mmap | None = None
        # The mapped bytes: entries, and after them the room for more.
        self.view: mmap.mmap | bytes = b""
        self._file: WritableFile | None = None

    @classmethod
    def open(cls, path: Path, entry_size: int) -> "EntryFile":
        """OSError where there is no such file. A torn last entry is not one."""
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
        """Makes the file if there is none, and room for `size_max` bytes of entries in it.

        Where the disk keeps what it is told, the entries are those of the last writer. Where there
        is doubt, the file must be removed first, and written anew from the log."""
        if size_max < entry_size:
            raise ValueError(f"an index of {size_max} bytes has no room for an entry")
        self = cls(path, entry_size)
        file = files.open(path)
        try:
            self.count = used_entries(file.fileno(), entry_size)
            capacity = max(size_max // entry_size, self.count)
            file.truncate(self.count * entry_size)  # what follows is zeros, whatever it was before
            file.truncate(capacity * entry_size)
            self._map = self.view = mmap.mmap(file.fileno(), capacity * entry_size)
        except BaseException:
            file.close()
            raise
        self._file = file
        return self

    @property
    def capacity(self) -> int:
        """How many entries there is room for."""
        return len(self.view) // self.entry_size

    @property
    def is_writable(self) -> bool:
        return self._file is not None

    def is_whole(self) -> bool:
        """Whether the file still has all the entries that are mapped.

        A broker that recovers or truncates its log may cut an index that it had already trimmed. To
        read such a mapping past the file's new end kills the process. A reader of a directory that
        another process writes calls this before every lookup, and opens the index again if not."""
        return self._map is None or self._map.size() >= self.count * self.entry_size

    def entry(self, slot: int) -> bytes:
        """The bytes of an entry. ValueError: there is no such entry."""
        if not 0 <= slot < self.count:
            raise ValueError(f"entry {slot} of {self.path.name}, which has {self.count}")
        return self.view[slot * self.entry_size : (slot + 1) * self.entry_size]

    def append(self, entry: Buffer) -> None:
        """ValueError: there is no room left."""
        if self.count >= self.capacity:
            raise ValueError(f"{self.path.name} is full: it has room for {self.capacity} entries")
        self._writable().write_at(entry, self.count * self.entry_size)
        self.count += 1

    def truncate(self, count: int) -> None:
        """Leaves the first `count` entries.

        The others stay in the file until they are overwritten or trimmed: to write zeros there may
        need space that the disk does not have. Lookups through them find no fitting batch."""
        self._writable()
        self.count = min(count, self.count)

    def sync(self) -> None:
        self._writable().sync()

    def trim(self) -> None:
        """Cuts the file to its entries: a segment that has been rolled takes no more of them."""
        self._writable().truncate(self.count * self.entry_size)

    def close(self) -> None:
        """Closes the file; there are no entries any more."""
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
    """How many entries come before the zeros that end a file.

    Reads by `pread`, since a broker may trim the file meanwhile, down to its entries. An entry of
    zeros in the very first slot is one if others follow, or if it is the whole file."""
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
