"""Reads the records of a split: bytes through the kernel, into columns and record batches.

For ordinary entries the kernel verifies checksums, decompresses, and fills the columns in one pass,
without any Python code per entry. It stops at large, damaged or unusual entries. Those are read
step by step, through rows, which finds out what is wrong and where.

Not here: compressed entries step by step (inflate.py), buffering rows (accumulator.py), columns
(gather.py), positions of entries and reading on after damage (entries.py)."""

from collections.abc import Iterator
from contextlib import closing
from typing import Any, Final

from downconvert.spark.logs.splits import Split
from downconvert.spark.options.options import Options
from downconvert.spark.plan.bounds import Bounds
from downconvert.spark.plan.gather import MICROSECONDS, Gatherer
from records import BatchHeader, Codec, CorruptRecordsError
from records.backend import Transcoder
from records.files.source import TRUNCATED
from records.formats import BATCH_HEADER_SIZE, ENTRY_HEAD_SIZE, PREFIX, V0, V2
from records.kernel import Outcome

from .accumulator import BUFFER_SIZE, Accumulator
from .checksums import sound_until
from .entries import OFFSET, RUNS_PAST, Entries
from .inflate import Inflation
from .order import check_order, look_at_first

# Compressed entries are read through a window of their own. A larger one is streamed.
ENTRIES_SIZE: Final = 256 * 1024  # bytes
# One read of the log. It stays in a core's own cache until its rows are in columns. A larger entry
# needs a larger read.
ORDINARY_SIZE: Final = 256 * 1024  # bytes
NOTHING: Final = memoryview(b"")


def read_records(split: Split, options: Options, bounds: Bounds, schema: Any) -> Iterator[Any]:
    """Record batches of a split's records, with the columns of an Arrow schema.

    FileNotFoundError: the segment is gone. CorruptSegmentError: there is damage, with FAILFAST."""
    opened = Entries(split, options, lambda other: read_records(other, options, bounds, schema))
    with closing(opened) as entries:
        yield from _RowReader(entries, bounds, schema).read()


class _RowReader:
    """Reads one split. `entries.position` is the first byte that has not become rows."""

    def __init__(self, entries: Entries, bounds: Bounds, schema: Any) -> None:
        split, options = entries.split, entries.options
        self._entries = entries
        self._options = options
        self._schema = schema
        self._gatherer = Gatherer(schema, split, bounds)
        self._accumulator = Accumulator(self._gatherer, options.max_record_bytes)
        self._bounds = bounds
        self._first_offset = max(split.first_offset, bounds.offset_min)
        self._last_offset = min(split.read_until - 1, bounds.offset_max)
        self._transcoder = Transcoder(V0, self._first_offset, 0, bool(split.aborted))
        self._inflation = Inflation(
            entries.records, self._transcoder, self._accumulator, verify=options.verify_crc
        )
        self._window: _EntryWindow | None = None
        self._left: int | None = None  # an entry that is not ordinary
        self._anchor = self._entry = self._near = entries.position
        self._verified = entries.position if options.verify_crc else entries.size

    def read(self) -> Iterator[Any]:
        entries = self._entries
        if self._options.verify_crc:
            look_at_first(entries)
        while entries.position < entries.end or entries.position == entries.misplaced:
            try:
                entries.check_place()
                if not self._transcoder.in_batch and entries.position != self._left:
                    yield from self._read_ordinary()
                if entries.position < entries.end:
                    yield from self._read_on()
            except CorruptRecordsError as damage:
                yield from self._rest()
                yield from self._recover(damage)
        yield from self._rest()
        yield from entries.after_last(self._near, self._schema)

    def _rest(self) -> Iterator[Any]:
        yield from self._accumulator.flush()
        yield from self._gatherer.remaining_batches()

    def _recover(self, damage: CorruptRecordsError) -> Iterator[Any]:
        entries = self._entries
        entry = entries.entry_of(entries.position, self._anchor)
        yield from entries.recover(damage, entry, self._before(entry), self._schema)
        self._transcoder.leave()
        self._accumulator.clear()
        self._anchor = self._entry = self._near = entries.position
        if self._options.verify_crc:
            self._verified = entries.position

    def _before(self, entry: int) -> int:
        """Where an entry before this one begins."""
        return self._near if self._anchor >= entry else self._anchor

    # --- ordinary

    def _read_ordinary(self) -> Iterator[Any]:
        """Reads entries up to one that is not ordinary, and notes its position."""
        entries, accumulator, columns = self._entries, self._accumulator, self._gatherer.columns
        verify, transactional = self._options.verify_crc, not entries.split.aborted
        yield from accumulator.flush()
        accumulator.clear()
        size, ahead = ORDINARY_SIZE, OFFSET.size
        while entries.position < entries.end:
            end = entries.fill(accumulator.buffer, size)
            start, is_full = 0, True
            while is_full:
                consumed, is_full = columns.add_entries(
                    accumulator.buffer, start, end + ahead, verify, transactional, BUFFER_SIZE
                )
                start += consumed
                if is_full:
                    yield from self._gatherer.remaining_batches()
            entries.position += start
            self._anchored()
            self._left = entries.position
            if verify:
                self._verified = max(self._verified, entries.position)
            if not start:
                entry_size = PREFIX.unpack_from(accumulator.buffer)[1] + PREFIX.size
                if end < size or not end < entry_size <= len(accumulator.buffer) - ahead:
                    return
            size = ORDINARY_SIZE if start else entry_size

    # --- uncompressed

    def _read_on(self) -> Iterator[Any]:
        """Fills the buffer from the log, and makes rows of its content."""
        entries, accumulator = self._entries, self._accumulator
        room = len(accumulator.buffer) - accumulator.used
        start = accumulator.used
        end = start + min(room, entries.end - entries.position)
        read = entries.records.read_into(accumulator.buffer[start:end], entries.position)
        if start + read < end:
            raise CorruptRecordsError(TRUNCATED, entries.position)
        if self._verified <= entries.position and not self._verify(start, end):
            yield from accumulator.flush()  # makes room for more of the entry
            accumulator.clear()
            return
        limit = min(self._verified, entries.end)
        while entries.position < limit:
            remaining = limit - entries.position
            consumed, _, outcome = accumulator.columns(
                self._transcoder, accumulator.buffer, start, min(end, start + remaining), remaining
            )
            entries.position += consumed
            start += consumed
            accumulator.used = min(start, end)
            if not self._transcoder.in_batch:
                self._reached(entries.position)
            if outcome == Outcome.SOURCE or start > end:
                yield from self._make_room()
                return
            if outcome == Outcome.TARGET:
                yield from accumulator.flush()
            elif outcome == Outcome.DAMAGE:
                reason, index = self._transcoder.damage or ("damaged", start)
                raise CorruptRecordsError(reason, entries.position + index - start)
            elif outcome == Outcome.END:
                self._end(limit)
                return
            else:
                header = self._header()
                if self._is_left_out(header):
                    start += header.size
                    entries.position += header.size
                    self._anchored()
                    if start > end:
                        return
                elif header.codec is Codec.NONE:
                    self._transcoder.accept_next_entry()
                else:
                    yield from self._read_compressed()
                    return

    def _reached(self, position: int) -> None:
        """Notes that all records before `position` have become rows.

        An entry begins there, unless the batch has bytes after its last record. An entry always
        begins at `anchor`."""
        if position != self._entry:
            self._near, self._anchor, self._entry = self._anchor, self._entry, position

    def _anchored(self) -> None:
        """Notes that an entry begins at the next byte to read."""
        position = self._entries.position
        if position != self._anchor:
            self._near = self._anchor
        self._anchor = self._entry = position

    def _make_room(self) -> Iterator[Any]:
        """Makes room for the next record, which is incomplete in the buffer."""
        accumulator = self._accumulator
        if accumulator.used:
            yield from accumulator.flush()
            accumulator.clear()
        elif self._entries.position < self._entries.end:
            accumulator.grow(self._entries.position)

    def _end(self, limit: int) -> None:
        """Handles the bytes after the last complete entry up to `limit`."""
        entries = self._entries
        if entries.position >= limit:
            return
        header = entries.header(entries.position)
        if header is not None:  # it is only cut off by the end of the split
            entries.end = entries.position + header.size
        elif entries.is_torn():
            raise CorruptRecordsError(RUNS_PAST, entries.position)
        else:
            entries.position = entries.end  # a torn tail

    def _header(self) -> BatchHeader:
        header = self._entries.header(self._entries.position)
        if header is None:
            raise CorruptRecordsError(TRUNCATED, self._entries.position)
        return header

    def _is_left_out(self, header: BatchHeader) -> bool:
        return header.is_control or header.records_count == 0 or self._entries.aborted.cover(header)

    # --- checksums

    def _verify(self, start: int, end: int) -> bool:
        """Verifies the checksums of the entries that are complete in `buffer[start:end]`, and notes
        up to where they are right. False: no entry is complete, because the buffer also holds other
        bytes."""
        entries, buffer = self._entries, self._accumulator.buffer
        at = sound_until(buffer, start, end)
        if at > start:
            self._verified = entries.position + at - start
            return True
        # damaged, larger than the rest of the buffer, or torn
        header = entries.header(entries.position)
        if header is None:
            self._verified = entries.size
            return True
        if self._accumulator.used and header.size <= len(buffer):
            return False
        check_order(entries, header, self._before(header.position))
        entries.verify(header, buffer[start : start + header.size])
        self._verified = entries.position + header.size
        return True

    # --- compressed

    def _read_compressed(self) -> Iterator[Any]:
        """Reads compressed entries, up to one that is uncompressed."""
        entries = self._entries
        self._transcoder.leave()
        if self._window is None:
            self._window = _EntryWindow(entries)
        window = self._window
        window.forget()
        while entries.position < entries.end:
            header = window.header(entries.position)
            if header is None or (header.codec is Codec.NONE and not header.is_control):
                return
            self._anchored()
            entry = window.view(header.position, header.size)
            if self._verified <= header.position:  # also of markers, which decide about others
                entries.check_place()
                if self._options.verify_crc:
                    check_order(entries, header, self._before(header.position))
                entries.verify(header, entry or NOTHING)
            if not self._is_left_out(header) and not self._is_unwanted(header):
                yield from self._inflation.read(header, entry)
            entries.position += header.size
            self._anchored()
            if self._options.verify_crc:
                self._verified = max(self._verified, entries.position)

    def _is_unwanted(self, header: BatchHeader) -> bool:
        """Whether none of its records is wanted, so it is not decompressed."""
        if header.last_offset < self._first_offset:
            return True
        if header.magic == V2 and header.base_offset > self._last_offset:
            return True
        return header.magic != V0 and MICROSECONDS * header.max_timestamp < self._bounds.time_min


class _EntryWindow:
    """A stretch of the log in memory."""

    def __init__(self, entries: Entries) -> None:
        self._records = entries.records
        self._size = entries.size
        self._view = memoryview(bytearray(ENTRIES_SIZE))
        self._start = self._end = 0  # positions in the log

    def forget(self) -> None:
        self._start = self._end = 0

    def header(self, position: int) -> BatchHeader | None:
        """The header of the entry there. None: it is not whole."""
        head = self.view(position, min(BATCH_HEADER_SIZE, self._size - position))
        if head is None or len(head) <= ENTRY_HEAD_SIZE:
            return None
        try:
            header = BatchHeader.parse(head, 0, position)
        except ValueError:
            return None
        return header if position + header.size <= self._size else None

    def view(self, position: int, size: int) -> memoryview | None:
        """The bytes there; None: they are too many, or do not exist."""
        if position < self._start or position + size > self._end:
            if size > len(self._view):
                return None
            self._start = position
            self._end = position + self._records.read_into(self._view, position)
            if position + size > self._end:
                return None
        at = position - self._start
        return self._view[at : at + size]
