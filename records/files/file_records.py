"""Records in a file: a range of it, read by position, so that many may read one descriptor.

Not here: sending it as it is (zero_copy.py), segments and their indexes (storage)."""

import mmap
import os
import stat
from collections.abc import Iterator
from io import FileIO
from itertools import chain
from typing import Final

from records.batch import BatchHeader
from records.errors import ClosedRecordsError

from .source import check_slice, read_headers
from .zero_copy import ZeroCopySend

# Whoever opens a pipe for reading waits for its writer, and a segment is never a pipe.
OPEN_FLAGS: Final = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK


class SharedFile(FileIO):
    """A file for reading that is closed when nothing refers to it any more.

    Whoever reads it holds it for that long. So its descriptor never becomes another file's while it
    is read, whatever other threads do."""

    def __del__(self) -> None:
        self.close()


class _Access:
    """What slices share: the file, or None once one of them has been closed."""

    __slots__ = ("file", "name")

    def __init__(self, file: SharedFile) -> None:
        self.file: SharedFile | None = file
        self.name = str(file.name)


class FileRecords:
    """A range of a file. Its size is fixed when it is made: what is appended later is not seen.

    Slices share the file. Once any of them was closed, reading any of them is a ClosedRecordsError,
    and so is sending it: the descriptor may be another file's then. A slice of a slice follows the
    rules of every slice (Kafka's does not work)."""

    __slots__ = ("_access", "_origin", "_size", "_view", "first", "is_sealed", "is_settled")

    def __init__(
        self,
        file: SharedFile,
        origin: int,
        size: int,
        view: memoryview | None = None,
        *,
        is_sealed: bool = False,
        is_settled: bool = False,
        first: BatchHeader | None = None,
    ) -> None:
        """`is_sealed`: see `sealed`. `is_settled`: see `settled`. `first`: the
        header of the first entry, which has just been read: `batches` does not read it again. The
        entry must be whole in the range."""
        self._access = _Access(file)
        self._origin = origin
        self._size = size
        self._view = view
        self.is_sealed = is_sealed
        self.is_settled = is_settled
        self.first = first

    @classmethod
    def open(cls, path: str | os.PathLike[str], *, mapped: bool = False) -> "FileRecords":
        """The whole file as it is now. OSError where it cannot be opened or is none.

        `mapped` maps it into memory, which saves copying every byte of it. Only for files that
        nobody truncates, such as the segments before a log's last one: whoever looks at a page
        that is gone is killed by the system (SIGBUS)."""
        name = os.fspath(path)
        file = SharedFile(name, opener=lambda at, _: os.open(at, OPEN_FLAGS))
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            file.close()
            raise OSError(f"{name} is not a regular file")
        view = None
        if mapped and status.st_size:
            view = memoryview(mmap.mmap(file.fileno(), status.st_size, access=mmap.ACCESS_READ))
        return cls(file, 0, status.st_size, view)

    def close(self) -> None:
        """Nobody reads the file any more. Its descriptor is closed at once or, where another thread
        is reading it, after that. A mapping lives as long as a slice of it does."""
        self._view = None
        self._access.file = None

    def __enter__(self) -> "FileRecords":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def size(self) -> int:
        """Bytes of the range. Fixed when it was made."""
        return self._size

    @property
    def origin(self) -> int:
        """The position of the first byte in the whole file or buffer, in bytes."""
        return self._origin

    @property
    def name(self) -> str:
        """What to call it in a message to a person: the path of the file."""
        return self._access.name

    @property
    def file(self) -> SharedFile:
        """The open file, which all slices share. Whoever holds it keeps it open.

        ClosedRecordsError: it has been closed."""
        file = self._access.file
        if file is None or file.closed:
            raise ClosedRecordsError(self._access.name)
        return file

    @property
    def view(self) -> memoryview | None:
        """All of the bytes, where the file is mapped; else None."""
        return self._view

    def fileno(self) -> int:
        """The descriptor, which is the file's for as long as the caller holds `file`.
        ClosedRecordsError: it has been closed."""
        return self.file.fileno()

    def read_into(self, target: memoryview, position: int) -> int:
        """Reads into `target` from `position` on, in bytes of this range.

        Returns the bytes read: fewer than fit only at the end. ValueError: a negative position.
        OSError; ClosedRecordsError: the file was closed."""
        if position < 0:
            raise ValueError(f"a read at {position}: negative position")
        left = self._size - position
        if len(target) > left:
            target = target[: max(left, 0)]
        file = self._access.file  # held until it is read: another thread may close it
        if file is None or file.closed:
            file = self.file  # says that
        read = os.preadv(file.fileno(), (target,), self._origin + position)
        while read < len(target):  # only where the file was truncated, or for more than 2 GiB
            more = os.preadv(file.fileno(), (target[read:],), self._origin + position + read)
            if not more:
                break
            read += more
        return read

    def batches(self) -> Iterator[BatchHeader]:
        """The headers of the whole entries, in their order. Bodies are not read.

        CorruptRecordsError: what is there is no entry. A torn last entry ends them."""
        first = self.first
        if first is None:
            return read_headers(self)
        return chain((first,), read_headers(self, first.size))

    def slice(self, position: int, size: int) -> "FileRecords":
        """A range of this one: `size` bytes from `position` on, cut off at its end.

        ValueError: one of them is negative, or it begins after the end."""
        check_slice(self, position, size)
        size = min(size, self._size - position)
        view = None if self._view is None else self._view[position : position + size]
        first = self.first
        if first is not None and (position or first.size > size):
            first = None
        part = FileRecords.__new__(FileRecords)
        part._access = self._access
        part._origin = self._origin + position
        part._size = size
        part._view = view
        part.first = first
        part.is_sealed = self.is_sealed
        part.is_settled = self.is_settled
        return part

    def sealed(self) -> "FileRecords":
        """The same range of a file to which nobody writes any more. What is found out about it may
        be kept for as long as the time of the file's last change and its size are the same."""
        same = self.slice(0, self._size)
        same.is_sealed = True
        return same

    def settled(self) -> "FileRecords":
        """The same range of a file that is only appended to. What is found out about it may be kept
        for as long as the file is open."""
        same = self.slice(0, self._size)
        same.is_settled = True
        return same

    def to_send(self) -> ZeroCopySend:
        """A send of these bytes as they are, which go from the page cache to the socket."""
        return ZeroCopySend(self)

    def __repr__(self) -> str:
        return f"FileRecords({self.name!r}, {self._size} bytes at {self._origin})"
