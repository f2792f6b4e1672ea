"""Records in a file: a range of it, read by position, so that many may read one descriptor.

Not here: sending it as it is (zero_copy.py), segments and their indexes (storage)."""

import mmap
import os
import stat
from collections.abc import Iterator
from io import FileIO
from itertools import chain
from typing import Final

from .batch import BatchHeader
from .source import check_slice, read_headers
from .zero_copy import ZeroCopySend

# Whoever opens a pipe for reading waits for its writer, and a segment is never a pipe.
OPEN_FLAGS: Final = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK


class FileRecords:
    """A range of a file. Its size is fixed when it is made: what is appended later is not seen.

    Slices share the descriptor, which lives until `close` of any of them; reading after that is a
    ValueError. A slice of a slice follows the rules of every slice (Kafka's does not work)."""

    __slots__ = ("_file", "_first", "_origin", "_size", "_view", "is_sealed")

    def __init__(
        self,
        file: FileIO,
        origin: int,
        size: int,
        view: memoryview | None = None,
        *,
        is_sealed: bool = False,
        first: BatchHeader | None = None,
    ) -> None:
        """`is_sealed`: see `sealed`. `first`: see `beginning_with`."""
        self._file = file
        self._origin = origin
        self._size = size
        self._view = view
        self.is_sealed = is_sealed
        self._first = first

    @classmethod
    def open(cls, path: str | os.PathLike[str], *, mapped: bool = False) -> "FileRecords":
        """The whole file as it is now. OSError where it cannot be opened or is none.

        `mapped` maps it into memory, which saves copying every byte of it. Only for files that
        nobody truncates, such as the segments before a log's last one: whoever looks at a page
        that is gone is killed by the system (SIGBUS)."""
        name = os.fspath(path)
        file = FileIO(name, opener=lambda at, _: os.open(at, OPEN_FLAGS))
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            file.close()
            raise OSError(f"{name} is not a regular file")
        view = None
        if mapped and status.st_size:
            view = memoryview(mmap.mmap(file.fileno(), status.st_size, access=mmap.ACCESS_READ))
        return cls(file, 0, status.st_size, view)

    def close(self) -> None:
        """Closes the descriptor. A mapping lives as long as a slice of it does."""
        self._view = None
        self._file.close()

    def __enter__(self) -> "FileRecords":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def size(self) -> int:
        return self._size

    @property
    def origin(self) -> int:
        return self._origin

    @property
    def name(self) -> str:
        return str(self._file.name)

    @property
    def file(self) -> FileIO:
        """The open file, which all slices share."""
        return self._file

    @property
    def view(self) -> memoryview | None:
        return self._view

    def fileno(self) -> int:
        """The descriptor. ValueError once it is closed."""
        return self._file.fileno()

    def read_into(self, target: memoryview, position: int) -> int:
        if position < 0:
            raise ValueError(f"a read at {position}: negative position")
        left = self._size - position
        if len(target) > left:
            target = target[: max(left, 0)]
        read = os.preadv(self._file.fileno(), (target,), self._origin + position)
        while read < len(target):  # only where the file was truncated, or for more than 2 GiB
            more = os.preadv(self._file.fileno(), (target[read:],), self._origin + position + read)
            if not more:
                break
            read += more
        return read

    def batches(self) -> Iterator[BatchHeader]:
        first = self._first
        if first is None:
            return read_headers(self)
        return chain((first,), read_headers(self, first.size))

    def slice(self, position: int, size: int) -> "FileRecords":
        check_slice(self, position, size)
        size = min(size, self._size - position)
        view = None if self._view is None else self._view[position : position + size]
        first = self._first
        if first is not None and (position or first.size > size):
            first = None
        return FileRecords(
            self._file, self._origin + position, size, view, is_sealed=self.is_sealed, first=first
        )

    def beginning_with(self, first: BatchHeader) -> "FileRecords":
        """The same range, of whose first entry the header has just been read: `batches` does not
        read it again. The entry must be whole in the range."""
        first = first._replace(position=0)
        return FileRecords(
            self._file, self._origin, self._size, self._view, is_sealed=self.is_sealed, first=first
        )

    def sealed(self) -> "FileRecords":
        """The same range of a file to which nobody writes any more. What is found out about it may
        be kept for as long as the time of the file's last change and its size are the same."""
        return FileRecords(
            self._file, self._origin, self._size, self._view, is_sealed=True, first=self._first
        )

    def to_send(self) -> ZeroCopySend:
        """A send of these bytes as they are, which go from the page cache to the socket."""
        return ZeroCopySend(self)

    def __repr__(self) -> str:
        return f"FileRecords({self.name!r}, {self._size} bytes at {self._origin})"
