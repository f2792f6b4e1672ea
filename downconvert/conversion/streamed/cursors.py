"""Reads forward from a position, in a log's file or in a batch's decompressed bytes.

A cursor serves data that does not fit in a window. It never returns zero bytes. If fewer bytes are
left than a record's size states, the record is damaged or the file has changed.

Not here: the meaning of the bytes (large.py)."""

from typing import Final, TypeAlias

from records.files.source import Records

from .body import DecompressedBody, Replay, ended

_READ_AHEAD: Final = 512


class FileCursor:
    """Bytes of a log, from a position on."""

    def __init__(self, records: Records, position: int) -> None:
        self._records = records
        self._position = position
        self._ahead = bytearray(_READ_AHEAD)
        self._ahead_at = 0
        self._ahead_size = 0

    def read_into(self, target: memoryview) -> int:
        count = self._records.read_into(target, self._position)
        if count == 0:
            raise ended(self._records.origin + self._position)
        self._position += count
        return count

    def skip(self, size: int) -> None:
        self._position += size

    def byte(self) -> int:
        index = self._position - self._ahead_at
        if index >= self._ahead_size:
            self._ahead_at, index = self._position, 0
            self._ahead_size = self._records.read_into(memoryview(self._ahead), self._position)
            if self._ahead_size == 0:
                raise ended(self._records.origin + self._position)
        self._position += 1
        return self._ahead[index]


class BodyCursor:
    """A batch's decompressed bytes from its window's start on. Reading consumes them."""

    def __init__(self, body: DecompressedBody) -> None:
        self._body = body

    def read_into(self, target: memoryview) -> int:
        body = self._body
        self._fill()
        count = min(len(target), body.filled - body.start)
        target[:count] = body.view[body.start : body.start + count]
        body.start += count
        return count

    def skip(self, size: int) -> None:
        self._body.skip_to(self._body.base + self._body.start + size)

    def byte(self) -> int:
        body = self._body
        self._fill()
        body.start += 1
        return body.buffer[body.start - 1]

    def _fill(self) -> None:
        if not self._body.has_more():
            raise ended(self._body.position)


Scan: TypeAlias = FileCursor | BodyCursor  # also reads single bytes
Cursor: TypeAlias = Scan | Replay
