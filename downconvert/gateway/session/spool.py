"""Holds a response of the cluster while it is read and converted: in memory, or in a file.

Small responses are kept in memory, and so are larger ones if the process's budget has room. All
others go to files without a name, which are deleted with their last reference. Records in a file
are converted from the file, as on a broker."""

import tempfile
from collections.abc import Callable
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import Any, Final

from downconvert.protocol.decoder import Cursor, reader
from downconvert.protocol.errors import BadRequestError
from downconvert.protocol.schemas import Message
from records import FileRecords, MemoryRecords
from records.budget import MemoryBudget
from records.files.file_records import SharedFile
from records.units import KiB

MEMORY_MAX: Final = 64 * KiB  # bytes of a response that needs no budget


class Spool:
    """Bytes that arrive in pieces, up to a size that is known in advance."""

    def __init__(
        self, size: int, directory: str | None = None, budget: MemoryBudget | None = None
    ) -> None:
        self.size = size
        self.received = 0
        self._directory = directory
        self._budget = budget
        self._is_open = False
        self._memory: bytearray
        self._file: SharedFile | None = None

    @property
    def is_whole(self) -> bool:
        """Whether all bytes have arrived."""
        return self.received == self.size

    def _open(self) -> None:
        if self._is_open:
            return
        self._is_open = True
        if self.size <= MEMORY_MAX:
            self._memory = bytearray(self.size)
        elif self._budget is not None and self._budget.take(self.size):
            self._memory = _Budgeted(self._budget, self.size)
        else:
            self._file = _Unnamed(self._directory or tempfile.gettempdir())

    def write(self, piece: memoryview) -> None:
        """Adds received bytes. The first call is slow, because it allocates the memory or makes the
        file. OSError: the disk is full."""
        self._open()
        end = self.received + len(piece)
        if self._file is None:
            self._memory[self.received : end] = piece
        else:
            self._file.write(piece)
        self.received = end

    def receive(self, read: Callable[[memoryview], int], buffer: memoryview) -> int:
        """Adds the bytes that `read` puts into a buffer. Returns their number, as `read` does.
        `buffer`: for bytes that go to a file. OSError: the disk is full."""
        self._open()
        if self._file is not None:
            size = read(buffer[: self.size - self.received])
            self.write(buffer[:size])
        else:
            size = read(memoryview(self._memory)[self.received :])
            self.received += size
        return size

    def read(self, name: str, version: int, header_version: int, correlation_id: int) -> Message:
        """Parses the message. Its records are not copied: they are FileRecords or MemoryRecords.

        BadRequestError: the bytes are no such message, or answer another request."""
        if self._file is None:
            whole = MemoryRecords(self._memory)
            cursor = _SpoolCursor(memoryview(self._memory), whole.slice)
            return _read(cursor, name, version, header_version, correlation_id)
        file = FileRecords(self._file, 0, self.size)
        with mmap(self._file.fileno(), self.size, access=ACCESS_READ) as mapped:
            view = memoryview(mapped)
            try:
                cursor = _SpoolCursor(view, file.slice)
                return _read(cursor, name, version, header_version, correlation_id)
            finally:
                view.release()


class _Budgeted(bytearray):
    """A buffer that is returned to the budget when no records and no send refer to it."""

    def __init__(self, budget: MemoryBudget, size: int) -> None:
        super().__init__(size)
        self._budget, self._size = budget, size

    def __del__(self) -> None:
        self._budget.release(self._size)


class _Unnamed(SharedFile):
    """A file without a name, deleted when nothing refers to it."""

    def __init__(self, directory: str) -> None:
        descriptor, path = tempfile.mkstemp(dir=directory, prefix="downconvert-")
        Path(path).unlink()
        super().__init__(descriptor, "r+")


class _SpoolCursor(Cursor):
    """Parses a message without copying its records."""

    __slots__ = ("_records",)

    def __init__(self, data: memoryview, records: Callable[[int, int], Any]) -> None:
        super().__init__(data)
        self._records = records

    def records(self, start: int, size: int) -> Any:
        return self._records(start, size)


def _read(
    cursor: Cursor, name: str, version: int, header_version: int, correlation_id: int
) -> Message:
    header = reader("ResponseHeader", header_version)(cursor)
    if header.correlation_id != correlation_id:
        raise BadRequestError(f"{name} to request {header.correlation_id}, not {correlation_id}")
    message: Message = reader(name, version)(cursor)
    if cursor.remaining:
        raise BadRequestError(f"{name} v{version}: {cursor.remaining} bytes after its end")
    return message
