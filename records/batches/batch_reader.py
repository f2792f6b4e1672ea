"""Reads one batch, a window at a time, even if it is large, damaged or unusual.

A small batch is read and decompressed at once. A large one is read through a window. Both go
through the kernel, which finds the positions of keys and values (`columns`). Records are made from
these, some at a time. A window grows for a larger record, because the caller gets each record
whole.

Sources: Kafka's DefaultRecordBatch, AbstractLegacyRecordBatch and RecordBatchIterator.

Not here: many ordinary batches at once (reader.py), decompression (compressed.py), offsets in
compressed messages (inner_offsets.py), records (record.py)."""

from collections.abc import Iterator
from typing import Final

from records.backend import Transcoder, make_inner_records, make_records
from records.batch import NONE, BatchHeader
from records.checksum import MISMATCH, check_entry, verify_checksum
from records.errors import CorruptRecordsError, RecordTooLargeError
from records.files.source import Records
from records.files.window import WINDOW_SIZE, Stretch, Window
from records.formats import BATCH_HEADER_SIZE, V0, V2, TimestampType
from records.kernel import ROW_SIZE, Outcome
from records.record import Record
from records.units import KiB, MiB

from .compressed import CompressedBytes, DecompressedWindow
from .inner_offsets import (
    EVERY_OFFSET,
    NO_MESSAGES,
    ROWS_MAX,
    OffsetScan,
    are_relative,
    offset_delta,
)

COMPRESSED_WINDOW_SIZE: Final = 16 * KiB  # bytes

# The size up to which entries are read, and decompressed, at once. By default producers make
# batches of 16 KiB, and of 1 MiB at most.
ENTRY_SIZE_MAX: Final = 128 * KiB  # bytes
BODY_SIZE_MAX: Final = MiB


class BatchReader:
    """Reads batch after batch with the same buffers."""

    def __init__(
        self,
        records: Records,
        verify: bool,
        record_size_max: int | None,
        window_size: int = WINDOW_SIZE,
    ) -> None:
        """`window_size`: bytes of a large batch in memory, unless a record is larger."""
        self._records = records
        self._verify = verify
        self._record_size_max = record_size_max
        self._transcoder = Transcoder(V0, EVERY_OFFSET, 0, False)
        self._window_size = window_size
        self._rows = bytearray(ROWS_MAX * ROW_SIZE * (window_size // WINDOW_SIZE))
        self._compressed = memoryview(b"")
        self._scan: OffsetScan | None = None
        self.body_size_max = body_size_max(record_size_max)

    def read(self, header: BatchHeader, entry: memoryview | None) -> Iterator[list[Record]]:
        """The records of a batch, some at a time. `entry`: the whole batch, if it is in memory."""
        if self._verify:
            if entry is None:
                verify_checksum(self._records, header)
            else:
                check_entry(entry, 0, header, self._position(header))
        if header.records_count == 0:  # compaction kept it for its producer
            return iter(())
        if is_message(header):
            return self._inner_records(header, entry)
        return self._batch(header, entry)

    def rows(self, header: BatchHeader) -> Iterator[bytearray]:
        """The rows of a v2 batch, some at a time."""
        held, end = self._records.view, header.position + header.size
        entry = None
        if held is not None and header.size <= ENTRY_SIZE_MAX and end <= len(held):
            entry = held[header.position : end]
        for size, _ in self.parts(header, entry):
            yield self._rows[:size]

    def parts(self, header: BatchHeader, entry: memoryview | None) -> Iterator[tuple[int, Window]]:
        """Fills `buffer` with the rows of a batch, some at a time. Yields their size in bytes, and
        the window that they point into: the records begin at its start. Compares no checksums."""
        if is_message(header):
            window: Window = self._enter_message(header, entry)
        else:
            window = self._enter(header, entry)
        is_empty = True
        for size in self._columns(window, header):
            is_empty = False
            yield size, window
        if is_message(header):
            if is_empty:
                raise CorruptRecordsError(NO_MESSAGES, self._position(header))
        elif header.codec and window.has_more():
            raise window.damage("bytes left after the last record", window.start)

    @property
    def buffer(self) -> memoryview:
        """The memory of rows (kernel.py, `columns`)."""
        return memoryview(self._rows)

    # --- v2 batches, and messages of a log

    def _batch(self, header: BatchHeader, entry: memoryview | None) -> Iterator[list[Record]]:
        base_sequence = header.base_sequence if header.magic == V2 else NONE
        for size, window in self.parts(header, entry):
            yield make_records(
                self._rows, 0, size, window.buffer, header.base_offset, base_sequence
            )

    def _enter(self, header: BatchHeader, entry: memoryview | None) -> Window:
        """Moves before the first record, or before the cause of an error."""
        if header.codec:
            compressed = CompressedBytes.of(self._records, header)
            head = bytearray(BATCH_HEADER_SIZE)
            self._read_head(head, header)
            self._transcoder.enter_batch(head, 0)
            return self._decompressed(compressed, entry)
        self._transcoder.leave()
        self._transcoder.accept_next_entry()  # a control batch is read, too
        if entry is not None and len(entry) <= self.body_size_max:
            return Window(None, entry, self._position(header))
        stretch = Stretch(self._records, header.position, header.position + header.size)
        return Window(stretch, bytearray(self._window_size), self._position(header))

    # --- compressed messages

    def _inner_records(
        self, header: BatchHeader, entry: memoryview | None
    ) -> Iterator[list[Record]]:
        kind = header.timestamp_type
        for size, window in self.parts(header, entry):
            found, at = make_inner_records(
                self._rows, 0, size, window.buffer, window.start, kind, self._verify
            )
            count = len(found)
            yield found
            if count * ROW_SIZE < size:
                raise window.damage(MISMATCH, at)

    def _enter_message(self, header: BatchHeader, entry: memoryview | None) -> DecompressedWindow:
        """Moves before the first inner message and finds that message's offset."""
        compressed = CompressedBytes.of(self._records, header)
        window = self._decompressed(compressed, entry)
        delta = 0
        if are_relative(header.magic, header.base_offset):
            last = self._last_offset_inside(window, header)
            delta = offset_delta(header.magic, header.base_offset, last, self._position(header))
            if window.holds_all:
                window.start = 0
            else:
                window = self._decompressed(compressed, None)
        append_time = None
        if header.timestamp_type is TimestampType.LOG_APPEND:
            append_time = header.max_timestamp
        self._transcoder.enter_entries(header.magic, delta, append_time)
        return window

    def _last_offset_inside(self, window: DecompressedWindow, header: BatchHeader) -> int:
        if self._scan is None:
            self._scan = OffsetScan()
        last = self._scan.last_offset(window, lambda window: self._make_room(window, header))
        if last is None:
            raise CorruptRecordsError(NO_MESSAGES, self._position(header))
        return last

    # --- windows

    def _decompressed(
        self, compressed: CompressedBytes, entry: memoryview | None
    ) -> DecompressedWindow:
        if entry is not None:
            data = entry[compressed.start : compressed.end]
            body = compressed.at_once(data, self.body_size_max)
            if body is not None:
                return DecompressedWindow(None, body, compressed.error_position)
        if not self._compressed:
            self._compressed = memoryview(bytearray(COMPRESSED_WINDOW_SIZE))
        stream = compressed.open(self._compressed)
        return DecompressedWindow(stream, bytearray(self._window_size), compressed.error_position)

    def _columns(self, window: Window, header: BatchHeader) -> Iterator[int]:
        """Fills the rows for one batch, some at a time. Yields their size in bytes. The records
        begin at `window.start`."""
        transcoder, rows = self._transcoder, self._rows
        while True:
            if window.start == window.filled:
                window.fill()
            consumed, produced, outcome = transcoder.columns(
                window.buffer, window.start, window.filled, window.remaining, rows, 0, len(rows)
            )
            if produced:
                yield produced
            window.start += consumed
            if outcome == Outcome.SOURCE:
                self._make_room(window, header)
            elif outcome == Outcome.DAMAGE:
                reason, index = transcoder.damage or ("", window.start)
                raise window.damage(reason, index)
            elif outcome != Outcome.TARGET:
                return

    def _make_room(self, window: Window, header: BatchHeader) -> None:
        """Reads more of the record at the window's start, into a larger window if necessary.
        RecordTooLargeError: the window already holds more than a record may have."""
        limit, held = self._record_size_max, window.filled - window.start
        if limit is not None and held > limit:
            raise RecordTooLargeError(held, limit, self._position(header))
        window.fill()

    # --- the entry

    def _read_head(self, target: bytearray, header: BatchHeader) -> None:
        stretch = Stretch(self._records, header.position, header.position + len(target))
        view = memoryview(target)
        while view:
            view = view[stretch.read_into(view) :]

    def _position(self, header: BatchHeader) -> int:
        """The position of the entry in the file."""
        return self._records.origin + header.position


def is_message(header: BatchHeader) -> bool:
    """Whether this is the header of a compressed v0 or v1 message, which contains messages."""
    return header.magic != V2 and bool(header.codec)


def body_size_max(record_size_max: int | None) -> int:
    """The size in bytes up to which bodies are decompressed at once. It is never less than a
    window, even for a smaller `record_size_max`."""
    if record_size_max is None:
        return BODY_SIZE_MAX
    return min(BODY_SIZE_MAX, max(record_size_max, WINDOW_SIZE))
