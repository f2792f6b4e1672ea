"""Decompresses compressed batches and messages of a log for conversion.

The kernel recompresses a small entry in one call. A small entry that becomes plain messages is
decompressed all at once. All other entries go through a window, also small ones that expand too
much or are damaged. The resulting messages are the same in all three cases.

Not here: converting the decompressed bytes (body_converter.py), the decision to convert
(converter.py)."""

from collections.abc import Iterator
from typing import Final, NamedTuple

from downconvert.conversion import buffers
from downconvert.conversion.buffers import NO_BUFFER
from downconvert.conversion.request import Request
from downconvert.conversion.rules import rules_for
from records.batches.compressed import CompressedBytes, DecompressedWindow
from records.batches.inner_offsets import NO_MESSAGES, OffsetScan, offset_delta
from records.batches.wrapper import value_range
from records.formats import (
    BATCH_HEADER,
    BATCH_HEADER_SIZE,
    LOG_APPEND_TIME,
    MESSAGE_HEAD,
    PREFIX,
    V1,
    V2,
    Codec,
)
from records.kernel import Transcoder
from records.steps import Steps
from records.units import KiB

from .body import DecompressedBody
from .body_converter import BodyConverter
from .large_inner import InnerFormat
from .output import Output
from .window import LogWindow

# The window over larger decompressed data. A record that does not fit is large.
WINDOW_SIZE_MAX: Final = 64 * KiB


class CompressedEntry(NamedTuple):
    """A compressed batch or message of the log that is to be converted. size: bytes, with its head.
    codec, target_codec: its codec, and the codec of the messages made."""

    size: int
    magic: int
    codec: Codec
    target_codec: Codec

    @property
    def is_wrapped(self) -> bool:
        """Whether the messages are compressed again."""
        return self.target_codec is not Codec.NONE


class CompressedEntries:
    """Converts entries one after the other, each from the window's position.

    The first entry that needs buffers takes them. They are held until `release`."""

    __slots__ = (
        "_body",
        "_converter",
        "_decompressed",
        "_input",
        "_log",
        "_one_shot",
        "_output",
        "_request",
        "_transcoder",
        "_whole_size",
        "_window",
        "_window_size",
    )

    def __init__(
        self,
        request: Request,
        window: LogWindow,
        output: Output,
        transcoder: Transcoder,
    ) -> None:
        self._one_shot = rules_for(request.policy, request.to_magic).recodes.body_size_max
        self._window_size = min(WINDOW_SIZE_MAX, self._one_shot)
        self._request = request
        self._log = window
        self._output = output
        self._transcoder = transcoder
        self._window = self._input = NO_BUFFER
        self._converter: BodyConverter | None = None
        self._body: DecompressedBody | None = None  # the body that is read a window at a time
        self._whole_size = 0  # bytes of the body that was decompressed at once
        self._decompressed = 0  # bytes of earlier bodies

    @property
    def held_bytes(self) -> int:
        """The size of the buffers for compressed batches."""
        inner = 0 if self._converter is None else self._converter.held_bytes
        return len(self._window) + len(self._input) + self._whole_size + inner

    def release(self) -> None:
        """Releases the buffers until the next entry."""
        for buffer in (self._window, self._input):
            buffers.release(buffer)
        self._window = self._input = NO_BUFFER
        if self._converter is not None:
            self._converter.release()

    @property
    def decompressed(self) -> int:
        """Bytes decompressed a window at a time. Bytes decompressed twice count twice."""
        return self._decompressed + (self._body.decompressed if self._body else 0)

    def convert(self, entry: CompressedEntry) -> Steps[None]:
        """Converts an entry. Its head is in the log's window. Yields the sizes of pieces, 0 if a
        step made none."""
        self._log.item_size = entry.size
        made = self._recoded(entry) if entry.is_wrapped else None
        if made is None:
            yield from self._through_a_window(entry)
        else:
            yield self._output.emit_wrappers(made)
        self._log.passed(entry.size)

    def _through_a_window(self, entry: CompressedEntry) -> Iterator[int]:
        batches = self._transcoder.totals[1]
        if entry.magic == V2:
            entered = self._enter_batch(entry)
        else:
            entered = yield from self._enter_message(entry)
        if entered is None:
            return
        body, inner = entered
        if self._converter is None:
            capacity = 3 * self._one_shot // 2
            self._converter = BodyConverter(self._request, self._output, self._transcoder, capacity)
        try:
            yield from self._converter.convert(body, entry.target_codec, inner)
            if inner.is_batch and body.has_more():
                raise body.damage("bytes left after the last record", body.start)
        finally:  # also if the caller stops at the last piece
            self._transcoder.leave()
            self._decompressed, self._body, self._whole_size = self.decompressed, None, 0
            if self._transcoder.totals[1] > batches:  # a record was kept
                self._output.temporary_bytes += entry.size

    def _recoded(self, entry: CompressedEntry) -> bytes | None:
        """The compressed messages, made by the kernel in one call. None if the entry must go
        through a window."""
        source = self._compressed(0, entry.size)
        if source is None:
            return None
        return self._transcoder.recode(source, 0, entry.size, entry.target_codec)

    def _trims(self, entry: CompressedEntry) -> bool:
        """Whether records below the first offset are left out. Plain messages always trim."""
        return self._request.policy.trim_compressed or not entry.is_wrapped

    def _enter_batch(self, entry: CompressedEntry) -> tuple[DecompressedBody, InnerFormat] | None:
        """Enters a v2 batch. None if no record is kept."""
        log, request = self._log, self._request
        header = BATCH_HEADER.unpack_from(log.source, log.start)
        base_offset, last_offset_delta, records_count = header[0], header[6], header[12]
        trim = self._trims(entry)
        if records_count == 0 or (trim and base_offset + last_offset_delta < request.first_offset):
            return None
        self._transcoder.enter_batch(log.source, log.start, entry.is_wrapped)
        compressed = CompressedBytes(
            log.records, log.position, BATCH_HEADER_SIZE, entry.size, entry.codec, V2
        )
        return self._open(compressed), InnerFormat(request.to_magic, trim, is_batch=True)

    def _enter_message(
        self, entry: CompressedEntry
    ) -> Steps[tuple[DecompressedBody, InnerFormat] | None]:
        """Enters a v0 or v1 message, after reading all of it. None if no message inside is kept."""
        log, request, magic = self._log, self._request, entry.magic
        value = value_range(log.records, log.position, entry.size, magic)
        head = MESSAGE_HEAD[magic].unpack_from(log.source, log.start)
        offset, attributes = head[0], head[4]
        trim = self._trims(entry)
        if trim and offset < request.first_offset:
            return None
        compressed = CompressedBytes(log.records, log.position, *value, entry.codec, magic)
        append_time = head[5] if magic == V1 and attributes & LOG_APPEND_TIME else None
        last_inner = yield from OffsetScan().steps(self._open(compressed), self._skip_large)
        if last_inner is None:
            raise self._log.damaged(NO_MESSAGES)
        delta = offset_delta(magic, offset, last_inner, compressed.error_position)
        to_magic = min(magic, request.to_magic)
        inner = InnerFormat(to_magic, trim, is_batch=False, offset_delta=delta)
        self._transcoder.enter_entries(inner.magic, delta, append_time, entry.is_wrapped)
        return self._open(compressed), inner

    def _skip_large(self, window: DecompressedWindow) -> Steps[int | None]:
        """Makes room by skipping a message larger than the window. Returns its offset field.
        Returns None if the message fits, and only its end was not read yet."""
        if not window.is_full:
            window.fill()
            yield 0
            return None
        offset: int
        offset, size = PREFIX.unpack_from(window.buffer, window.start)
        yield from window.skip_in_steps(window.base + window.start + size + PREFIX.size)
        return offset

    def _open(self, compressed: CompressedBytes) -> DecompressedBody:
        """The decompressed bytes."""
        chunk_size = self._request.policy.chunk_size
        data = self._compressed(compressed.start, compressed.size)
        if data is not None:
            whole = compressed.at_once(data, self._one_shot)
            if whole is not None:
                self._whole_size = len(whole)
                return DecompressedBody(compressed, whole, chunk_size, whole=True)
        if not self._window:
            self._window = buffers.take(self._window_size)
        self._decompressed = self.decompressed
        self._body = DecompressedBody(compressed, self._window, chunk_size, whole=False)
        return self._body

    def _compressed(self, begins: int, size: int) -> memoryview | None:
        """The compressed bytes, if they are few enough to be held at once."""
        log = self._log
        if size > self._one_shot:
            return None
        start = log.start + begins
        if start + size <= log.filled:
            return log.view[start : start + size]
        if not self._input:
            self._input = buffers.take(self._one_shot)
        window = memoryview(self._input)[:size]
        if log.records.read_into(window, log.position + begins) < size:
            return None
        return window
