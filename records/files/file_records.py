"""A range of records in a file, read by position, so that many threads can share one descriptor.

Not here: sending it as it is (zero_copy.py), segments and their indexes (storage)."""

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

# Without O_NONBLOCK, opening a pipe would wait for a writer. (A segment is never a pipe.)
OPEN_FLAGS: Final = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK


class SharedFile(FileIO):
    """A file for reading that is closed when nothing refers to it any more.

    Each reader holds a reference while it reads. So the descriptor cannot become another file's
    during a read, whatever other threads do."""

    def __del__(self) -> None:
        self.close()


class _Access:
    """State shared by all slices: the file, or None once one of them has been closed."""

    __slots__ = ("file", "name")

    def __init__(self, file: SharedFile) -> None:
        self.file: SharedFile | None = file
        self.name = str(file.name)


class FileRecords:
    """A range of a file. Its size is fixed when it is made: later appends are not seen.

    Slices share the file. Once any of them is closed, reading or sending any of them raises
    ClosedRecordsError, because the descriptor may be another file's by then. A slice can be
    sliced again (in Kafka that does not work).

    size: bytes of the range. origin: the position of its first byte in the whole file. view: None.
    The file is read and not mapped, because a truncated mapping would kill the process."""

    __slots__ = ("_access", "first", "origin", "size")
    view: Final = None

    def __init__(
        self,
        file: SharedFile,
        origin: int,
        size: int,
        *,
        first: BatchHeader | None = None,
    ) -> None:
        """`first`: the header of the first entry if the caller has just read it, so that `batches`
        does not read it again. The range must hold that whole entry."""
        self._access = _Access(file)
        self.origin = origin
        self.size = size
        self.first = first

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> "FileRecords":
        """The whole file as it is now. OSError: it cannot be opened, or is not a regular file."""
        name = os.fspath(path)
        file = SharedFile(name, opener=lambda at, _: os.open(at, OPEN_FLAGS))
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            file.close()
            raise OSError(f"{name} is not a regular file")
        return cls(file, 0, status.st_size)

    def close(self) -> None:
        """Ends reading through this object and all slices. The descriptor is closed at once or,
        while another thread is reading from it, after that read."""
        self._access.file = None

    def __enter__(self) -> "FileRecords":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def name(self) -> str:
        """The path of the file, for messages."""
        return self._access.name

    @property
    def file(self) -> SharedFile:
        """The open file, which all slices share. A reference to it keeps it open.

        ClosedRecordsError: it has been closed."""
        file = self._access.file
        if file is None or file.closed:
            raise ClosedRecordsError(self._access.name)
        return file

    def fileno(self) -> int:
        """The descriptor. It is valid only while the caller holds `file`.
        ClosedRecordsError: it has been closed."""
        return self.file.fileno()

    def read_into(self, target: memoryview, position: int) -> int:
        """Reads into `target` from `position` on, in bytes of this range.

        Returns the bytes read: fewer than fit only at the end. ValueError: a negative position.
        OSError; ClosedRecordsError: the file was closed."""
        if position < 0:
            raise ValueError(f"a read at {position}: negative position")
        left = self.size - position
        if len(target) > left:
            target = target[: max(left, 0)]
        file = self._access.file  # held until it is read: another thread may close it
        if file is None or file.closed:
            file = self.file  # raises ClosedRecordsError
        read = os.preadv(file.fileno(), (target,), self.origin + position)
        while read < len(target):  # repeated only if the file was truncated, or above 2 GiB
            more = os.preadv(file.fileno(), (target[read:],), self.origin + position + read)
            if not more:
                break
            read += more
        return read

    def batches(self) -> Iterator[BatchHeader]:
        """The headers of the whole entries, in order. Bodies are not read. A torn last entry ends
        the iteration.

        CorruptRecordsError: the bytes at that position are not an entry."""
        first = self.first
        if first is None:
            return read_headers(self)
        return chain((first,), read_headers(self, first.size))

    def slice(self, position: int, size: int) -> "FileRecords":
        """A range of this one: `size` bytes from `position` on, cut off at its end.

        ValueError: an argument is negative, or `position` is after the end."""
        check_slice(self, position, size)
        size = min(size, self.size - position)
        first = self.first
        if first is not None and (position or first.size > size):
            first = None
        part = FileRecords.__new__(FileRecords)
        part._access = self._access
        part.origin = self.origin + position
        part.size = size
        part.first = first
        return part

    def to_send(self) -> ZeroCopySend:
        """A send of these bytes unchanged, from the page cache to the socket."""
        return ZeroCopySend(self)

    def __repr__(self) -> str:
        return f"FileRecords({self.name!r}, {self.size} bytes at {self.origin})"
