"""Handles items larger than a window of the log. Entries are copied in pieces, and large records
and messages are converted.

Not here: reading a large record (large.py), large records in compressed batches
(large_inner.py)."""

from collections.abc import Iterator
from typing import Final

from downconvert.conversion.request import Request
from records.batches.compressed import STEP_SIZE
from records.formats import MAGIC_AT, MESSAGE_HEAD, NO_TIMESTAMP, PREFIX, SIZE_FIELD, V1
from records.kernel import Transcoder
from records.steps import Steps

from .cursors import FileCursor
from .large import LargeMessage, MessageStart, scan_message, scan_record
from .output import Output
from .window import LogWindow

CHANGED: Final = "entry changed while it was read"


class Oversize:
    """Converts an item that begins at the window's position and is larger than the window."""

    __slots__ = ("_output", "_request", "_transcoder", "_window", "messages")

    def __init__(
        self, request: Request, window: LogWindow, output: Output, transcoder: Transcoder
    ) -> None:
        self._request = request
        self._window = window
        self._output = output
        self._transcoder = transcoder
        self.messages = 0  # large v1 messages converted

    def convert(self, left: int) -> Steps[None]:
        """Converts the item, `left` bytes before the end of the range. Yields sizes of pieces."""
        window = self._window
        if self._transcoder.in_batch:
            yield from self._record(left)
        else:
            offset, size = PREFIX.unpack_from(window.source, window.start)
            magic = window.source[window.start + MAGIC_AT]
            if magic <= self._request.to_magic:
                yield from self._copy(size + PREFIX.size)
            elif magic == V1:
                yield from self._message(offset, size + PREFIX.size)
            else:  # the kernel had found a message here
                raise window.damaged(CHANGED)
        window.passed(window.item_size)

    def _copy(self, size: int) -> Iterator[int]:
        """Copies an entry unchanged."""
        target = self._output.target
        self._output.temporary_bytes += size
        self._window.item_size = size
        if self._output.is_measuring:
            yield size
        else:
            cursor, left = self._cursor(), size
            while left:
                count = cursor.read_into(target[: min(left, len(target))])
                left -= count
                yield count
        self._transcoder.leave()  # `accept_next_entry` was for this entry alone

    def _record(self, left: int) -> Iterator[int]:
        """Converts a record of an uncompressed v2 batch."""
        window, transcoder, request = self._window, self._transcoder, self._request
        place = window.source, window.start, window.filled, left
        offset, timestamp, size, message = yield from scan_record(
            transcoder, place, self._cursor(), request.to_magic, self._scratch, window.damaged
        )
        window.item_size = size
        kept = offset >= request.first_offset
        transcoder.record_converted(size, offset, timestamp, message.size if kept else 0)
        if kept:
            yield from self._pieces(message)

    def _message(self, offset: int, size: int) -> Iterator[int]:
        """Converts an uncompressed v1 message for a client that reads v0."""
        window, request = self._window, self._request
        before_key = MESSAGE_HEAD[V1].size + SIZE_FIELD.size
        timestamp = MESSAGE_HEAD[V1].unpack_from(window.source, window.start)[5]
        window.item_size = size
        message = yield from scan_message(
            self._cursor(),
            size,
            before_key,
            MessageStart(request.to_magic, offset, timestamp, log_append=False),
            self._scratch,
            window.damaged,
        )
        if offset >= request.first_offset:
            if timestamp < NO_TIMESTAMP:
                raise window.damaged("negative timestamp")
            self.messages += 1
            self._output.temporary_bytes += size + message.size
            yield from self._pieces(message)

    def _pieces(self, message: LargeMessage) -> Iterator[int]:
        if self._output.is_measuring:
            yield message.size
        else:
            yield from message.pieces(self._cursor(), self._output.target)

    def _cursor(self) -> FileCursor:
        return FileCursor(self._window.records, self._window.position)

    @property
    def _scratch(self) -> memoryview | None:
        """A buffer for reading bytes for a CRC. Measuring needs none."""
        return None if self._output.is_measuring else self._output.target[:STEP_SIZE]
