"""Reads records: of any format, codec and timestamp type, one after the other.

A batch is never in memory as a whole. Windows of it go through the kernel, which says where keys
and values lie (`columns`). A window grows for a record that is larger, since the caller is given
that record as a whole.

Sources: Kafka's DefaultRecordBatch, AbstractLegacyRecordBatch and RecordBatchIterator.

Not here: where batches begin (source.py), decompression (compressed.py), offsets in compressed
messages (inner_offsets.py), what a row becomes (record.py)."""

from collections.abc import Iterator
from typing import Final

from .backend import Transcoder
from .batch import SIZE_AT, BatchHeader
from .checksum import MISMATCH, verify_checksum
from .compressed import CompressedBytes, DecompressedWindow
from .errors import CorruptRecordsError, RecordTooLargeError
from .formats import BATCH_HEADER_SIZE, PREFIX, SIZE_FIELD, V0, V2, Codec, TimestampType
from .inner_offsets import (
    EVERY_OFFSET,
    NO_MESSAGES,
    ROWS_MAX,
    OffsetScan,
    are_relative,
    offset_delta,
)
from .kernel import ROW_SIZE, Outcome
from .record import ROW, Record, inner_record_of, is_sound, record_of
from .source import Records
from .window import WINDOW_SIZE, Stretch, Window

__all__ = ["Record", "read", "read_batch"]

COMPRESSED_WINDOW_SIZE: Final = 16 * 1024  # bytes


def read(
    records: Records, *, verify: bool = True, record_size_max: int | None = None
) -> Iterator[Record]:
    """All records, without those of control batches: what a consumer is given.

    `record_size_max` bounds memory: a record of more bytes is a RecordTooLargeError, whose size is
    as much of it as was looked at.

    >>> from records import MemoryRecords, Record, build
    >>> made = [Record(offset=n, timestamp=n, value=b"%d" % n) for n in range(3)]
    >>> [record.value for record in read(MemoryRecords(build(made, magic=2)))]
    [b'0', b'1', b'2']"""
    reader = _Reader(records, verify, record_size_max)
    for header in records.batches():
        if not header.is_control:
            yield from reader.read(header)


def read_batch(
    records: Records,
    header: BatchHeader,
    *,
    verify: bool = True,
    record_size_max: int | None = None,
) -> Iterator[Record]:
    """The records of one batch of `records.batches()`, also of a control batch.

    `verify` compares checksums: the batch's at once, and each one's of the messages in a compressed
    message. CorruptRecordsError for damage comes after the good records before it; in a compressed
    v1 message before all of them, for its last entry says what the offsets are."""
    return _Reader(records, verify, record_size_max).read(header)


def read_rows(
    records: Records, header: BatchHeader, *, record_size_max: int | None = None
) -> Iterator[bytearray]:
    """The rows of `columns` (kernel.py) of one v2 batch, some at a time: for callers that want
    offsets, timestamps and sizes only, and no records. Positions in them are of no use: the bytes
    that they point to are gone. Errors come as from `read_batch`; its checksum is not compared."""
    reader = _Reader(records, False, record_size_max)
    for _, rows in reader.batch_rows(header):
        yield rows


class _Reader:
    """Reads batch after batch with the same buffers."""

    def __init__(self, records: Records, verify: bool, record_size_max: int | None) -> None:
        self._records = records
        self._verify = verify
        self._record_size_max = record_size_max
        self._transcoder = Transcoder(V0, EVERY_OFFSET, 0, False)
        self._rows = bytearray(ROWS_MAX * ROW_SIZE)
        self._buffer = bytearray(WINDOW_SIZE)
        self._compressed = memoryview(b"")
        self._scan: OffsetScan | None = None

    def read(self, header: BatchHeader) -> Iterator[Record]:
        if header.position + header.size > self._records.size:
            raise ValueError("the header is not one of these records")
        if self._verify:
            verify_checksum(self._records, header)
        if header.records_count == 0:  # kept by compaction for its producer's sake
            return iter(())
        if header.codec is Codec.NONE:
            return self._read_plain(header)
        if header.magic == V2:
            return self._read_compressed_batch(header)
        return self._read_compressed_message(header)

    # --- the three kinds of batches

    def batch_rows(self, header: BatchHeader) -> Iterator[tuple[Window, bytearray]]:
        """The rows of a v2 batch, each with the window that their positions are of."""
        return self._compressed_rows(header) if header.codec else self._plain_rows(header)

    def _read_plain(self, header: BatchHeader) -> Iterator[Record]:
        """A v2 batch or a message as they lie in the log."""
        for window, rows in self._plain_rows(header):
            for row in ROW.iter_unpack(rows):
                yield record_of(window, row, header)

    def _plain_rows(self, header: BatchHeader) -> Iterator[tuple[Window, bytearray]]:
        end = header.position + header.size
        stretch = Stretch(self._records, header.position, end)
        window = Window(stretch, self._buffer, self._position(header))
        self._transcoder.leave()
        self._transcoder.allow_next()  # a control batch is read, too
        for rows in self._columns(window, header):
            yield window, rows

    def _read_compressed_batch(self, header: BatchHeader) -> Iterator[Record]:
        for window, rows in self._compressed_rows(header):
            for row in ROW.iter_unpack(rows):
                yield record_of(window, row, header)

    def _compressed_rows(self, header: BatchHeader) -> Iterator[tuple[Window, bytearray]]:
        compressed = CompressedBytes.of(self._records, header)
        head = bytearray(BATCH_HEADER_SIZE)
        self._read_head(head, header)
        window = self._decompressed(compressed)
        self._transcoder.enter_batch(head, 0, False, False, False)
        for rows in self._columns(window, header):
            yield window, rows
        if window.has_more():
            raise window.damage("bytes left after the last record", window.start)

    def _read_compressed_message(self, header: BatchHeader) -> Iterator[Record]:
        compressed = CompressedBytes.of(self._records, header)
        window = self._decompressed(compressed)
        delta = 0
        if are_relative(header.magic, header.base_offset):
            last = self._last_offset_inside(window, header)
            delta = offset_delta(header.magic, header.base_offset, last, self._position(header))
            if window.holds_all:
                window.start = 0
            else:
                window = self._decompressed(compressed)
        append_time = None
        if header.timestamp_type is TimestampType.LOG_APPEND:
            append_time = header.max_timestamp
        self._transcoder.enter_entries(header.magic, delta, append_time, False, False, False)
        at = -1
        for rows in self._columns(window, header):
            at = window.start
            for row in ROW.iter_unpack(rows):
                end = at + PREFIX.size + SIZE_FIELD.unpack_from(window.buffer, at + SIZE_AT)[0]
                if self._verify and not is_sound(window, at, end):
                    raise window.damage(MISMATCH, at)
                yield inner_record_of(window, row, at, header)
                at = end
        if at < 0:
            raise CorruptRecordsError(NO_MESSAGES, self._position(header))

    def _last_offset_inside(self, window: DecompressedWindow, header: BatchHeader) -> int:
        if self._scan is None:
            self._scan = OffsetScan()
        last = self._scan.last_offset(window, lambda window: self._make_room(window, header))
        if last is None:
            raise CorruptRecordsError(NO_MESSAGES, self._position(header))
        return last

    # --- windows

    def _decompressed(self, compressed: CompressedBytes) -> DecompressedWindow:
        if not self._compressed:
            self._compressed = memoryview(bytearray(COMPRESSED_WINDOW_SIZE))
        stream = compressed.open(self._compressed)
        return DecompressedWindow(stream, self._buffer, compressed.error_position)

    def _columns(self, window: Window, header: BatchHeader) -> Iterator[bytearray]:
        """The rows of one batch, some at a time: of the records that lie from `window.start` on."""
        transcoder, rows = self._transcoder, self._rows
        while True:
            if window.start == window.filled:
                window.fill()
            consumed, produced, outcome = transcoder.columns(
                window.buffer, window.start, window.filled, window.remaining, rows, 0, len(rows)
            )
            if produced:
                # Of a copy: CPython before 3.12.7 crashes where it collects an iterator that reads
                # a memoryview, and errors leave such iterators in their tracebacks (gh-77894).
                yield rows[:produced]
            window.start += consumed
            if outcome == Outcome.SOURCE:
                self._make_room(window, header)
            elif outcome == Outcome.DAMAGE:
                reason, index = transcoder.damage or ("", window.start)
                raise window.damage(reason, index)
            elif outcome != Outcome.TARGET:
                return

    def _make_room(self, window: Window, header: BatchHeader) -> None:
        """Reads more of the record that begins the window, which grows if it must, and may."""
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
        """Where the entry begins in the file."""
        return self._records.origin + header.position
