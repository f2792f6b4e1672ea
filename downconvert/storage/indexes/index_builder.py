"""Decides which batches get entries in the indexes. Appending and recovery use the same rule.

A batch gets an entry if more than `index_interval_bytes` lie between the last batch with an entry
(or the beginning) and its own first byte. Kafka does the same since 3.9. Older brokers decided once
for a whole append, and wrote other offsets (offset_index.py)."""

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import TypeAlias

from downconvert.storage.config import LogConfig
from downconvert.storage.disk.files import Files
from downconvert.storage.errors import OffsetOverflowError
from downconvert.storage.names import Kind, file_name
from records import BatchHeader, FileRecords
from records.formats import NO_TIMESTAMP

from .offset_index import RELATIVE_MAX, OffsetIndex
from .time_index import TimeIndex

OpenIndexes: TypeAlias = Callable[[], tuple[OffsetIndex, TimeIndex]]


class IndexBuilder:
    """Writes the indexes of a segment, batch after batch. They are opened at the first write, and
    may be closed between any two batches."""

    __slots__ = (
        "_bytes_since_entry",
        "_interval",
        "_open",
        "_opened",
        "is_full",
        "is_synced",
        "max_timestamp",
        "max_timestamp_offset",
    )

    def __init__(self, open_indexes: OpenIndexes, base_offset: int, interval_bytes: int) -> None:
        """Continues after the existing entries. Call `continue_from` with their contents. Bytes
        before a reopening are not counted."""
        self._open = open_indexes
        self._opened: tuple[OffsetIndex, TimeIndex] | None = None
        self._interval = interval_bytes
        self._bytes_since_entry = 0
        self.is_full = False
        self.is_synced = True  # also if there is nothing to sync
        self.max_timestamp, self.max_timestamp_offset = NO_TIMESTAMP, base_offset

    @property
    def is_open(self) -> bool:
        return self._opened is not None

    @property
    def offsets(self) -> OffsetIndex:
        return self.open()[0]

    @property
    def times(self) -> TimeIndex:
        return self.open()[1]

    def open(self) -> tuple[OffsetIndex, TimeIndex]:
        if self._opened is None:
            self._opened = self._open()
            self._note_room()
        return self._opened

    def add(self, header: BatchHeader, position: int) -> None:
        """Adds the next batch, at that position of the log."""
        if header.max_timestamp > self.max_timestamp:
            self.max_timestamp = header.max_timestamp
            self.max_timestamp_offset = header.last_offset
        if self._bytes_since_entry > self._interval and self._has_place_for(header):
            self.is_synced = False
            self.offsets.append(header.last_offset, position)
            if self.max_timestamp > NO_TIMESTAMP:
                self.times.append(self.max_timestamp, self.max_timestamp_offset)
            self._bytes_since_entry = 0
            self._note_room()
        self._bytes_since_entry += header.size

    def _has_place_for(self, header: BatchHeader) -> bool:
        # Without an entry, lookups are only slower. There is no place for one in a full index,
        # before which segments are rolled, or if offsets decrease, as in a damaged segment with
        # valid checksums.
        lowest = self.offsets.last_offset + 1 if len(self.offsets) else self.offsets.base_offset
        rises = header.last_offset >= lowest
        return rises and self.max_timestamp_offset >= self.times.last[1] and not self.is_full

    def _note_room(self) -> None:
        self.is_full = self.offsets.is_full or self.times.is_full

    def finish(self) -> None:
        """Ends a rolled or closed segment: adds its highest timestamp, and trims the files."""
        self.is_synced = False  # for the new sizes: recovery does not check rolled segments
        if self.max_timestamp > self.times.last[0]:
            self.times.append(self.max_timestamp, self.max_timestamp_offset, last=True)
        self._trim()

    def truncate_to(self, offset: int) -> None:
        """Removes all batches from `offset` on. Call `continue_from` next."""
        self.is_synced = False
        self.offsets.truncate_to(offset)
        self.times.truncate_to(offset)
        self._bytes_since_entry = 0
        self._note_room()

    def sync(self) -> None:
        """Returns when all entries are on the disk."""
        if not self.is_synced:
            self.offsets.file.sync()
            self.times.file.sync()
            self.is_synced = True

    def release(self) -> None:
        """Closes the files, cut to their entries. They are opened again when needed."""
        if self.is_open:
            self._trim()
            self.close()

    def close(self) -> None:
        """Closes the files without trimming them."""
        if self._opened is not None:
            for index in self._opened:
                index.close()
            self._opened = None

    def _trim(self) -> None:
        self.offsets.file.trim()
        self.times.file.trim()

    def continue_from(self, max_timestamp: int, offset: int) -> None:
        """Sets the highest timestamp so far, and the last offset of the first batch with it."""
        self.max_timestamp, self.max_timestamp_offset = max_timestamp, offset


@contextmanager
def new_indexes(
    path_of: Callable[[Kind], Path], base_offset: int, files: Files, config: LogConfig
) -> Iterator[IndexBuilder]:
    """Makes indexes for a segment without any. They are complete and synced at the end of the
    block."""
    open_indexes = partial(open_both, path_of, base_offset, files, config)
    with closing(IndexBuilder(open_indexes, base_offset, config.index_interval_bytes)) as builder:
        yield builder
        builder.finish()
        builder.is_synced = False  # new files must be synced even without entries
        builder.sync()


def open_both(
    path_of: Callable[[Kind], Path], base_offset: int, files: Files, config: LogConfig
) -> tuple[OffsetIndex, TimeIndex]:
    """The indexes of a segment, for writing."""
    size_max = config.segment_index_bytes
    path = path_of(Kind.OFFSET_INDEX)
    offsets = OffsetIndex.open_writable(path, base_offset, files, size_max)
    try:
        path = path_of(Kind.TIME_INDEX)
        return offsets, TimeIndex.open_writable(path, base_offset, files, size_max)
    except BaseException:
        offsets.close()
        raise


def write_indexes(
    records: FileRecords, directory: Path, base_offset: int, files: Files, config: LogConfig
) -> int:
    """Writes the indexes of a whole segment into a directory. Returns the number of batches.

    OffsetOverflowError: a batch's offset does not fit the segment. CorruptRecordsError."""

    def path_of(kind: Kind) -> Path:
        return directory / file_name(base_offset, kind)

    count = 0
    with new_indexes(path_of, base_offset, files, config) as builder:
        for header in records.batches():
            if not 0 <= header.last_offset - base_offset <= RELATIVE_MAX:
                raise OffsetOverflowError(header.last_offset, base_offset, records.name)
            builder.add(header, header.position)
            count += 1
    return count
