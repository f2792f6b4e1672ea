"""Reads the records of a split: bytes through the kernel, into columns and record batches.

For ordinary entries the kernel verifies checksums, decompresses, and fills the columns in one pass,
without Python code for each entry. It stops at large, damaged or unusual entries. These are read
step by step, which finds the error and its position.

Not here: an entry step by step (steps.py), columns (gather.py), positions of entries and continuing
after damage (entries.py)."""

from collections.abc import Generator, Iterator
from contextlib import closing
from typing import Any, Final

import numpy as np

from downconvert.spark.logs.splits import Split
from downconvert.spark.options.options import Options
from downconvert.spark.plan.bounds import Bounds
from downconvert.spark.plan.gather import MICROSECONDS, Gatherer
from records import BatchHeader, Codec, CorruptRecordsError
from records.batches.batch_reader import is_message
from records.files.source import TRUNCATED
from records.formats import BATCH_HEADER_SIZE, ENTRY_HEAD_SIZE, MAGIC_AT, PREFIX, V2

from .checksums import is_sound
from .entries import OFFSET, RUNS_PAST, Entries
from .order import check_order, look_at_first
from .steps import StepReader

BUFFER_SIZE: Final = 1024 * 1024  # bytes of an ordinary entry, also decompressed
# One read of the log. It stays in a core's own cache until its rows are in columns. A larger entry
# needs a larger read.
ORDINARY_SIZE: Final = 256 * 1024  # bytes
# A larger compressed entry usually decompresses to more than BUFFER_SIZE.
COMPRESSED_SIZE: Final = 128 * 1024  # bytes
NOTHING: Final = memoryview(b"")


def read_records(split: Split, options: Options, bounds: Bounds, schema: Any) -> Iterator[Any]:
    """Record batches of a split's records, with the columns of an Arrow schema.

    FileNotFoundError: the segment is gone. CorruptSegmentError: there is damage, with FAILFAST."""
    opened = Entries(split, options, lambda other: read_records(other, options, bounds, schema))
    with closing(opened) as entries:
        yield from _RowReader(entries, bounds, schema).read()


class _RowReader:
    """Reads one split. `entries.position` is that of the first entry that has not become rows."""

    def __init__(self, entries: Entries, bounds: Bounds, schema: Any) -> None:
        split, options = entries.split, entries.options
        self._entries = entries
        self._verify = options.verify_crc
        self._schema = schema
        self._bounds = bounds
        self._first_offset = max(split.first_offset, bounds.offset_min)
        self._last_offset = min(split.read_until - 1, bounds.offset_max)
        # No later batch is in an aborted transaction.
        self._aborted_until = max((one.last_offset for one in split.aborted), default=-1)
        self._gatherer = Gatherer(schema, split, bounds)
        self._steps = StepReader(
            entries.records, self._gatherer, options.max_record_bytes, verify=self._verify
        )
        # A small segment does not touch all pages, and untouched pages cost nothing.
        self._buffer: memoryview = np.empty(BUFFER_SIZE, np.uint8).data
        self._window = _EntryWindow(entries, self._buffer)

    def read(self) -> Iterator[Any]:
        entries = self._entries
        if self._verify:
            look_at_first(entries)
        while entries.position < entries.end:
            try:
                entries.check_place()
                yield from self._read_ordinary()
                yield from self._read_others()
            except CorruptRecordsError as damage:
                yield from self._gatherer.remaining_batches()
                yield from entries.recover(damage, self._schema)
        yield from self._gatherer.remaining_batches()
        yield from entries.after_last(self._schema)

    def _read_ordinary(self) -> Iterator[Any]:
        """Reads entries up to one that is not ordinary."""
        entries, buffer = self._entries, self._buffer
        size, ahead = ORDINARY_SIZE, OFFSET.size
        while entries.position < entries.end:
            start, end = 0, entries.fill(buffer, size)
            is_read = True
            while is_read:
                is_committed = OFFSET.unpack_from(buffer, start)[0] > self._aborted_until
                start = yield from self._add(start, end, transactional=is_committed)
                header = None if is_committed else self._transactional(start, end)
                if header is None:
                    break
                after = start + header.size
                if entries.aborted.cover(header):
                    is_read = not self._verify or is_sound(buffer[start:after])
                else:
                    is_read = (yield from self._add(start, after, transactional=True)) > start
                start = after if is_read else start
            entries.move_to(entries.position + start)
            if not start:
                entry_size = PREFIX.unpack_from(buffer)[1] + PREFIX.size
                if end < size or not end < entry_size <= len(buffer) - ahead:
                    return
            size = ORDINARY_SIZE if start else entry_size

    def _add(self, start: int, end: int, *, transactional: bool) -> Generator[Any, None, int]:
        """Adds the entries from `start` up to `end` in the buffer, up to one that the kernel leaves
        out. Returns where that begins."""
        is_full, until = True, end + OFFSET.size
        while is_full:
            consumed, is_full = self._gatherer.columns.add_entries(
                self._buffer, start, until, self._verify, transactional, BUFFER_SIZE
            )
            start += consumed
            if is_full:
                yield from self._gatherer.remaining_batches()
        return start

    def _transactional(self, start: int, end: int) -> BatchHeader | None:
        """The header of the whole transactional batch at `start` in the buffer. None: there is
        something else, which is read step by step."""
        if end - start < BATCH_HEADER_SIZE or self._buffer[start + MAGIC_AT] != V2:
            return None
        try:
            header = BatchHeader.parse(self._buffer, start, 0)
        except CorruptRecordsError:
            return None
        after = start + header.size
        if not header.is_transactional or after > end:
            return None
        rises = header.last_offset < OFFSET.unpack_from(self._buffer, after)[0]
        return header if rises else None

    def _read_others(self) -> Iterator[Any]:
        """Reads an entry step by step, and also the following ones, up to one that the kernel
        reads."""
        entries, window, is_left = self._entries, self._window, True
        window.forget()
        while is_left and entries.position < entries.end:
            header = window.header(entries.position)
            if header is None:
                self._end()
                return
            entries.check_place()
            with_next = min(header.size + BATCH_HEADER_SIZE, entries.size - header.position)
            window.view(header.position, with_next)
            entries.verify(header, window.view(header.position, header.size) or NOTHING)
            if self._verify:  # also for transaction markers: other records depend on them
                check_order(entries, header, window.header)
            entry = window.view(header.position, header.size)
            is_large = header.codec is not Codec.NONE and header.size > COMPRESSED_SIZE
            is_large = is_large and not is_message(header)
            if not self._is_left_out(header) and not self._is_unwanted(header):
                yield from self._steps.read(header, None if is_large else entry)
            entries.move_to(header.position + header.size)
            is_left = is_message(header) or is_large

    def _end(self) -> None:
        """Handles the bytes after the last whole entry. CorruptRecordsError: more must follow."""
        entries = self._entries
        if not entries.records.read_into(memoryview(bytearray(1)), entries.size - 1):
            raise CorruptRecordsError(TRUNCATED, entries.position)
        if entries.is_torn():
            raise CorruptRecordsError(RUNS_PAST, entries.position)
        entries.position = entries.end

    def _is_left_out(self, header: BatchHeader) -> bool:
        return header.is_control or header.records_count == 0 or self._entries.aborted.cover(header)

    def _is_unwanted(self, header: BatchHeader) -> bool:
        """Whether none of its records is wanted, so it is not decompressed."""
        if header.last_offset < self._first_offset:
            return True
        if header.magic == V2 and header.base_offset > self._last_offset:
            return True
        return MICROSECONDS * header.max_timestamp < self._bounds.time_min


class _EntryWindow:
    """A stretch of the log in memory."""

    def __init__(self, entries: Entries, memory: memoryview) -> None:
        self._records = entries.records
        self._size = entries.size
        self._view = memory
        self._start = self._end = 0  # positions in the log
        self._latest: BatchHeader | None = None

    def forget(self) -> None:
        self._start = self._end = 0

    def header(self, position: int) -> BatchHeader | None:
        """The header of the entry there. None: it is not whole."""
        if self._latest is not None and self._latest.position == position:
            return self._latest
        head = self.view(position, min(BATCH_HEADER_SIZE, self._size - position))
        if head is None or len(head) <= ENTRY_HEAD_SIZE:
            return None
        try:
            header = BatchHeader.parse(head, 0, position)
        except ValueError:
            return None
        if position + header.size > self._size:
            return None
        self._latest = header
        return header

    def view(self, position: int, size: int) -> memoryview | None:
        """The bytes there; None: they are too many, or do not exist."""
        if position < self._start or position + size > self._end:
            if size > len(self._view):
                return None
            target = self._view[: max(size, ORDINARY_SIZE)]
            self.forget()  # a read that fails may have changed the bytes
            self._start, self._end = position, position + self._records.read_into(target, position)
            if position + size > self._end:
                return None
        at = position - self._start
        return self._view[at : at + size]
