"""Reads records: of any format, codec and timestamp type, one after the other.

A batch is never in memory as a whole. Windows of it go through the kernel, which says where keys
and values lie (`columns`). It grows for a record that is larger, since who reads it gets it.

Sources: Kafka's DefaultRecordBatch, AbstractLegacyRecordBatch and RecordBatchIterator.

Not here: where batches begin (source.py), what a row becomes (record.py), what control records say
(control.py)."""

from collections.abc import Iterator
from typing import Final

from .backend import Transcoder
from .batch import SIZE_AT, BatchHeader, wrapped
from .checksum import MISMATCH, verify_checksum
from .codecs import open_decoder
from .errors import CorruptRecordsError, RecordTooLargeError
from .formats import BATCH_HEADER_SIZE, PREFIX, SIZE_FIELD, V0, V1, V2, Codec, TimestampType
from .kernel import ROW_SIZE, Outcome
from .record import ROW, Record, inner_record_of, is_sound, record_of
from .source import Records
from .window import WINDOW_SIZE, Stream, Stretch, Window
from .wrapper import value_range

__all__ = ["Record", "read", "read_batch"]

ROWS_MAX: Final = 256  # in one call of the kernel
COMPRESSED_WINDOW_SIZE: Final = 16 * 1024  # bytes
EVERY_OFFSET: Final = -(2**63)


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
    """The rows of `columns` (kernel.py) of one v2 batch, some at a time: who wants offsets,
    timestamps and sizes only need not make records. The bytes that positions in them are of are
    gone. Errors come as from `read_batch`; its checksum is not compared."""
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
        window = Window(Stretch(self._records, header.position, end), self._buffer)
        self._transcoder.leave()
        self._transcoder.admit()  # a control batch is read, too
        for rows in self._columns(window, header):
            yield window, rows

    def _read_compressed_batch(self, header: BatchHeader) -> Iterator[Record]:
        for window, rows in self._compressed_rows(header):
            for row in ROW.iter_unpack(rows):
                yield record_of(window, row, header)

    def _compressed_rows(self, header: BatchHeader) -> Iterator[tuple[Window, bytearray]]:
        if header.records_count is not None and header.records_count < 0:
            raise self._damage("negative record count", header)
        head = bytearray(BATCH_HEADER_SIZE)
        self._read_head(head, header)
        window = self._decoded(header, BATCH_HEADER_SIZE, header.size)
        self._transcoder.enter_batch(head, 0, False, False, False)
        for rows in self._columns(window, header):
            yield window, rows
        if window.start == window.filled:
            window.fill()
        if window.remaining:
            raise self._damage("bytes left after the last record", header, window, window.start)

    def _read_compressed_message(self, header: BatchHeader) -> Iterator[Record]:
        if header.codec is Codec.ZSTD:
            raise self._damage("codec does not exist in this message format", header)
        start, end = value_range(self._records, header.position, header.size, header.magic)
        window = self._decoded(header, start, end)
        offset_delta = 0
        if header.magic == V1 and header.base_offset:
            # Offsets inside count from an unknown base; the last one is the message's own. (Old
            # librdkafka producers left that at 0: then the base is 0.)
            last = self._last_offset_inside(window, header)
            if last > header.base_offset:
                raise self._damage("compressed message is at a lower offset than its last", header)
            offset_delta = wrapped(header.base_offset - last)
            if window.holds_all:
                window.start = 0
            else:
                window = self._decoded(header, start, end)
        append_time = None
        if header.timestamp_type is TimestampType.LOG_APPEND:
            append_time = header.max_timestamp
        self._enter(header, offset_delta, append_time)
        at = -1
        for rows in self._columns(window, header):
            at = window.start
            for row in ROW.iter_unpack(rows):
                end = at + PREFIX.size + SIZE_FIELD.unpack_from(window.buffer, at + SIZE_AT)[0]
                if self._verify and not is_sound(window, at, end):
                    raise self._damage(MISMATCH, header, window, at)
                yield inner_record_of(window, row, at, header)
                at = end
        if at < 0:
            raise self._damage("compressed message holds no messages", header)

    # --- compressed messages

    def _last_offset_inside(self, window: Window, header: BatchHeader) -> int:
        self._enter(header, 0, None)
        last = 0
        for rows in self._columns(window, header):
            for row in ROW.iter_unpack(rows):
                last = row[0]
        return last

    def _enter(self, header: BatchHeader, offset_delta: int, append_time: int | None) -> None:
        self._transcoder.enter_entries(header.magic, offset_delta, append_time, False, False, False)

    # --- windows

    def _decoded(self, header: BatchHeader, start: int, end: int) -> Window:
        """A window over what is compressed in `start` to `end` of the entry."""
        if not self._compressed:
            self._compressed = memoryview(bytearray(COMPRESSED_WINDOW_SIZE))
        stretch = Stretch(self._records, header.position + start, header.position + end)

        def pull() -> memoryview:
            return self._compressed[: stretch.read_into(self._compressed)]

        decoder = open_decoder(header.codec, pull, magic=header.magic)
        position = self._records.origin + header.position
        return Window(_Decoded(decoder, position), self._buffer)

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
                self._check_size(window, header)
                window.fill()
            elif outcome == Outcome.DAMAGE:
                reason, index = transcoder.damage or ("", window.start)
                raise self._damage(reason, header, window, index)
            elif outcome != Outcome.TARGET:
                return

    def _check_size(self, window: Window, header: BatchHeader) -> None:
        """Whether the window may grow for the record that begins it, if it must."""
        limit, held = self._record_size_max, window.filled - window.start
        if limit is not None and held > limit:
            position = self._records.origin + header.position
            raise RecordTooLargeError(held, limit, position)

    # --- one place for the head, one for damage

    def _read_head(self, target: bytearray, header: BatchHeader, at: int = 0) -> None:
        start = header.position + at
        stretch = Stretch(self._records, start, start + len(target))
        view = memoryview(target)
        while view:
            view = view[stretch.read_into(view) :]

    def _damage(
        self,
        reason: str,
        header: BatchHeader,
        window: Window | None = None,
        index: int = 0,
    ) -> CorruptRecordsError:
        """At an index of the window where there is one, else at the batch."""
        position = self._records.origin + header.position
        if window is None:
            return CorruptRecordsError(reason, position)
        if header.codec is Codec.NONE:
            return CorruptRecordsError(reason, position + window.base + index)
        return CorruptRecordsError(reason, position, inside=window.base + index)


class _Decoded:
    """A decoder's output. Its errors name the batch, since nobody can look into compressed data."""

    def __init__(self, decoder: Stream, position: int) -> None:
        self._decoder = decoder
        self._position = position

    def read_into(self, target: memoryview) -> int:
        try:
            return self._decoder.read_into(target)
        except CorruptRecordsError as error:
            raise CorruptRecordsError(error.reason, self._position) from error
