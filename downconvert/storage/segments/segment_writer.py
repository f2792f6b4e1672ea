"""The active segment of a log, which is appended to.

The log file is written first, then the indexes. Indexes are rebuilt if they may not have reached
the disk. A failed append leaves nothing behind.

A broker may have ten thousand active segments, and few of them are written to. So files are opened
when there is something to write: the log for an append, the indexes for an entry. `release` closes
them.

Not here: checking batches, and the time of a roll (log_writer.py)."""

import os
from collections.abc import Sequence
from typing import Final

from downconvert.storage.config import LogConfig
from downconvert.storage.disk.files import Files, WritableFile
from downconvert.storage.errors import OffsetOverflowError, StorageError
from downconvert.storage.indexes.index_builder import IndexBuilder, open_both
from downconvert.storage.indexes.offset_index import RELATIVE_MAX, OffsetIndex
from downconvert.storage.indexes.time_index import TimeIndex
from downconvert.storage.indexes.transaction_index import AbortedTransaction, TransactionIndex
from downconvert.storage.names import Kind
from records import BatchHeader
from records.formats import NO_TIMESTAMP
from records.kernel import Buffer

from .segment import Segment

INDEX_FILES: Final = 4  # of two indexes: a descriptor each, and one that each mapping keeps


class SegmentWriter:
    """Appends to a segment. `position` and `next_offset` are its end. log: its file, if open."""

    __slots__ = (
        "_created",
        "_files",
        "_first_timestamp",
        "_has_timestamps",
        "_indexes",
        "_is_synced",
        "_is_unchanged",
        "_transactions",
        "config",
        "inode",
        "log",
        "next_offset",
        "position",
        "segment",
    )

    def __init__(
        self, segment: Segment, position: int, next_offset: int, config: LogConfig, files: Files
    ) -> None:
        """The log is good up to `position`. Cuts the rest off."""
        self.segment = segment
        self.position = position
        self.next_offset = next_offset
        self.config = config
        self._files = files
        self._created: int | None = None  # milliseconds; the time of the first append
        self._first_timestamp: int | None = None
        self._has_timestamps = False  # whether the timestamps of earlier records are known
        self._is_synced = self._is_unchanged = True
        self.log: WritableFile | None = None
        interval = config.index_interval_bytes
        self._indexes = IndexBuilder(self._open_indexes, segment.base_offset, interval)
        self._transactions = TransactionIndex(
            segment.path(Kind.TRANSACTION_INDEX), segment.base_offset, files
        )
        self.inode = 0
        try:
            self._make_files()
        except BaseException:
            self.abandon()
            raise

    def _make_files(self) -> None:
        """Creates missing files. An existing file is opened only if it must be cut."""
        found = _status(self.segment)
        if found is None or found.st_size != self.position:
            log = self._open_log()
            log.truncate(self.position)
            self._is_synced = self._is_unchanged = False
            found = os.fstat(log.fileno())
        self.inode = found.st_ino
        for kind in (Kind.OFFSET_INDEX, Kind.TIME_INDEX):
            if _status(self.segment, kind) is None:
                self._files.open(self.segment.path(kind)).close()
                self._is_unchanged = False
        self._release_if_too_many()

    # --- files

    @property
    def is_open(self) -> bool:
        return self.log is not None or self._indexes.is_open

    def open(self) -> None:
        """Opens all files now. Some callers must not open a file later, because the directory may
        belong to another log then."""
        self._open_log()
        self._indexes.open()

    def is_in_place(self) -> bool:
        """Whether the log file is still the one that was opened first, with the expected length."""
        found = _status(self.segment)
        if found is None:
            return False
        return found.st_ino == self.inode and found.st_size >= self.position

    def release(self) -> None:
        """Closes the files. The next append opens them again. Unflushed data is flushed later."""
        self._transactions.sync()
        if self._indexes.is_open:
            self.segment.detach()
            self._indexes.release()
            self.segment.open_files.written.add(-INDEX_FILES)
        self._close_log()
        self._transactions.close()

    def _release_if_too_many(self) -> None:
        if not self.segment.open_files.written.has_room:
            self.release()

    def _open_log(self) -> WritableFile:
        if self.log is None:
            self.log = self._files.open(self.segment.path())
            self.segment.open_files.written.add(1)
        return self.log

    def _close_log(self) -> None:
        log, self.log = self.log, None
        if log is not None:
            log.close()
            self.segment.open_files.written.add(-1)

    def _open_indexes(self) -> tuple[OffsetIndex, TimeIndex]:
        segment = self.segment
        offsets, times = open_both(segment.path, segment.base_offset, self._files, self.config)
        segment.attach(offsets, times)
        segment.open_files.written.add(INDEX_FILES)
        return offsets, times

    # --- timestamps of the records

    @property
    def max_timestamp(self) -> int:
        """The highest timestamp so far; -1 if there is none."""
        self._read_timestamps()
        return self._indexes.max_timestamp

    def is_due(
        self, headers: Sequence[BatchHeader], size: int, following: int, now: int | None
    ) -> bool:
        """Whether the segment must be rolled before these batches of `size` bytes are appended.
        `following`: the offset after them."""
        position = self.position
        if not position:
            return False
        if not self._has_timestamps:
            self._read_timestamps()
        if position + size > self.config.segment_bytes or self._indexes.is_full:
            return True
        if following - 1 - self.segment.base_offset > RELATIVE_MAX:
            return True
        # Records without timestamps are as old as their segment.
        newest, oldest, first = now, self._created, self._first_timestamp
        if first is not None and first >= 0:
            newest, oldest = NO_TIMESTAMP, first
            for header in headers:
                if header.max_timestamp > newest:
                    newest = header.max_timestamp
        if newest is None or oldest is None:
            return False
        return newest - oldest > self.config.roll_ms

    def is_old(self, now: int) -> bool:
        """Whether the segment has records, and has been written to for longer than `roll_ms`.

        Time counts from the first append, or from the first call after a reopening."""
        if not self.position:
            return False
        if self._created is None:
            self._created = now
        return now - self._created > self.config.roll_ms

    def append(
        self,
        data: Buffer,
        headers: Sequence[BatchHeader],
        following: int,
        aborted: Sequence[AbortedTransaction],
        now: int | None = None,
    ) -> None:
        """Appends whole batches. The positions of `headers` are relative to `data`. `following`:
        the offset after them.

        DiskFullError, or any other OSError: the segment is unchanged."""
        position, segment, last_offset = self.position, self.segment, following - 1
        base_offset = segment.base_offset
        lowest = last_offset if len(headers) == 1 else headers[0].last_offset
        if lowest < base_offset or last_offset - base_offset > RELATIVE_MAX:
            offset = lowest if lowest < base_offset else last_offset
            raise OffsetOverflowError(offset, base_offset, str(segment.path()))
        if not self._has_timestamps:
            self._read_timestamps()
        log = self.log or self._open_log()
        self._is_synced = self._is_unchanged = False
        try:
            log.write_at(data, position)
            for header in headers:
                self._indexes.add(header, position + header.position)
            for entry in aborted:
                self._transactions.append(entry)
        except (OSError, StorageError):
            self._cut(position, self.next_offset)
            raise
        self.position = position + len(data)
        self.next_offset = following
        if self._first_timestamp is None:
            self._first_timestamp = headers[0].max_timestamp
        if self._created is None:
            self._created = now
        if not segment.open_files.written.has_room:
            self.release()

    def truncate_to(self, offset: int) -> None:
        """Removes every batch with a record at or above `offset`. More can be appended."""
        found = self.segment.find(offset, self.position)
        if found is None:
            return
        position = found[0]
        records = self.segment.slice_from(max(offset - 1, self.segment.base_offset), position)
        next_offset = self.segment.base_offset
        for header in records.batches():
            next_offset = header.last_offset + 1
        self._cut(position, next_offset)
        self._open_log().sync()
        if not position:
            self._created = None

    def flush(self) -> None:
        """Returns when all appended data is synced."""
        if not self._is_synced:
            self._open_log().sync()
            self._is_synced = True
        self._indexes.sync()
        self._transactions.sync()
        self._release_if_too_many()

    def close(self) -> None:
        """Trims the indexes. Returns when all data is synced."""
        if not self._is_unchanged:
            self._read_timestamps()
            self._indexes.finish()
        self.flush()
        self.abandon()

    def abandon(self) -> None:
        """Closes the files without changing them."""
        if self._indexes.is_open:
            self.segment.detach()
            self._indexes.close()
            self.segment.open_files.written.add(-INDEX_FILES)
        self.segment.release()
        self._transactions.close()
        self._close_log()

    def _cut(self, position: int, next_offset: int) -> None:
        self._is_synced = self._is_unchanged = self._has_timestamps = False
        self._open_log().truncate(position)
        self.segment.release()  # else readers might get old bytes in place of those written here
        self.position, self.next_offset = position, next_offset
        self._indexes.truncate_to(next_offset)
        self._transactions.truncate_to(next_offset)

    def _read_timestamps(self) -> None:
        """Reads the first and the highest timestamp: from the time index up to its last entry, and
        from the batches after that."""
        if self._has_timestamps:
            return
        segment = self.segment
        self._first_timestamp, timestamp, offset = None, NO_TIMESTAMP, segment.base_offset
        if self.position:
            first = next(segment.slice(0, self.position).batches(), None)
            self._first_timestamp = None if first is None else first.max_timestamp
            timestamp, offset = self._last_entry()
            for header in segment.slice_from(offset, self.position).batches():
                if header.max_timestamp > timestamp:
                    timestamp, offset = header.max_timestamp, header.last_offset
        self._indexes.continue_from(timestamp, offset)
        self._has_timestamps = True
        segment.release()  # a reader opens the files that it needs

    def _last_entry(self) -> tuple[int, int]:
        """The last entry of the time index: timestamp and offset."""
        if self._indexes.is_open:
            return self._indexes.times.last
        path = self.segment.path(Kind.TIME_INDEX)
        index = TimeIndex.open(path, self.segment.base_offset)
        try:
            return index.last
        finally:
            index.close()


def _status(segment: Segment, kind: Kind = Kind.LOG) -> os.stat_result | None:
    """The status of a file. None if there is no such file, or it cannot be reached."""
    try:
        return os.stat(segment.location(kind))  # noqa: PTH116 - see there
    except OSError:
        return None
