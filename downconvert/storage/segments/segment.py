"""A segment for reading: a log file, and the indexes that locate batches in it.

A segment opens its files when it is read and may close them at any time, so ten thousand segments
cost little more than their names. An index entry is only a hint: brokers of different versions
write different offsets, a crash may leave any bytes in it, and a broker may change the files while
they are read. An entry that does not lead to a fitting batch is not used.

Not here: the sequence of segments (log.py), writing (segment_writer.py)."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Final, Generic, TypeAlias, TypeVar

from downconvert.storage.disk.open_files import OpenFiles
from downconvert.storage.indexes.offset_index import OffsetIndex
from downconvert.storage.indexes.scanned_positions import ScannedPositions
from downconvert.storage.indexes.time_index import TimeIndex
from downconvert.storage.indexes.transaction_index import AbortedTransaction, read_transactions
from downconvert.storage.names import Kind, State, file_name
from records import BatchHeader, CorruptRecordsError, FileRecords
from records.batches.reader import Record, read_batch
from records.files.file_records import SharedFile
from records.formats import V2
from records.units import MiB

from .rising import may_have

# A log may grow by this much before a reader in another process reopens its indexes.
INDEXES_AGE_MAX: Final = MiB  # bytes

# If a cleaner replaces the log file, a reader opens the new one, at most this many times.
OPEN_ATTEMPTS: Final = 8

# A truncated log may have index entries after its end. At most this many are skipped.
STEPS_BACK: Final = 8

# The number of remembered offsets. Consumers at the end of a log request the same offsets again and
# again.
FOUND_MAX: Final = 8


Index = TypeVar("Index", OffsetIndex, TimeIndex)
# An open file, and batches in it by requested offset: their positions and headers.
Known: TypeAlias = tuple[SharedFile, dict[int, tuple[int, BatchHeader]]]


@dataclass(slots=True)
class Opened(Generic[Index]):
    """An index of a segment."""

    index: Index | None  # None if there is no such file
    log_size: int  # when it was opened
    is_ours: bool  # written by this process, so always complete and up to date

    def is_good(self, log_size: int) -> bool:
        """Whether the index can still be used."""
        if self.is_ours:
            return True
        is_new = log_size - self.log_size < INDEXES_AGE_MAX
        return is_new and (self.index is None or self.index.file.is_whole())


class Segment:
    """The records from `base_offset` on, up to the next segment's.

    Methods take `end`, the position after the last valid batch, because the file may be longer."""

    __slots__ = (
        "_directory",
        "_file",
        "_found",
        "_offsets",
        "_scanned",
        "_times",
        "base_offset",
        "open_files",
        "state",
    )

    def __init__(
        self, directory: Path, base_offset: int, open_files: OpenFiles, state: State = State.LIVE
    ) -> None:
        self.base_offset = base_offset
        self.state = state
        self._directory = directory
        self.open_files = open_files
        self._file: SharedFile | None = None
        self._offsets: Opened[OffsetIndex] | None = None
        self._times: Opened[TimeIndex] | None = None
        self._scanned: ScannedPositions | None = None  # of the open file
        # The last batches found in the open file, by requested offset: each with its position, and
        # its header as that of a range that begins with it.
        self._found: Known | None = None

    def path(self, kind: Kind = Kind.LOG) -> Path:
        return Path(self.location(kind))

    def location(self, kind: Kind = Kind.LOG) -> str:
        """As `path`, but as a string. Code that checks ten thousand partitions needs it, because
        making a Path costs more than a stat."""
        return f"{self._directory}/{file_name(self.base_offset, kind, self.state)}"

    @property
    def size(self) -> int:
        """Bytes of the log file, as it is now."""
        file = self._log()  # held during the call: another thread may release the segment
        return os.fstat(file.fileno()).st_size

    def bytes_at(self, position: int, size: int) -> bytes:
        """Bytes of the log file, fewer at its end."""
        file = self._log()  # held, as above
        return os.pread(file.fileno(), size, position)

    def slice(self, position: int, end: int) -> FileRecords:
        """A range of the log file. It stays valid when the segment is released, or deleted."""
        return FileRecords(self._log(), position, max(0, end - position))

    # --- finding

    def find(self, offset: int, end: int) -> tuple[int, BatchHeader] | None:
        """The first batch whose last offset is not below `offset`, and its position in the file."""
        records, headers = self._scan_from(offset, end)
        for header in headers:
            if header.last_offset >= offset:
                return records.origin + header.position, header
        return None

    def read(self, offset: int, max_bytes: int, end: int) -> FileRecords | None:
        """A range from the batch that holds `offset` on: at most `max_bytes`, but at least one
        batch. None if there is no such batch."""
        file, known = self._log(), self._found
        if known is None or known[0] is not file:
            known = self._found = (file, {})
        found = known[1].get(offset)
        if found is None or found[0] + found[1].size > end:
            found = _following(known, offset, end)
            if found is None:
                found = self.find(offset, end)
                if found is None:
                    return None
                file = self._log()
                found = found[0], found[1].at(0)
            self._note(known, offset, found)
        position, first = found
        size = min(end - position, max(max_bytes, first.size))
        return FileRecords(file, position, size, first=first)

    def _note(self, known: Known, offset: int, found: tuple[int, BatchHeader]) -> None:
        """Remembers a batch. An open file is only appended to, so the batch stays in its place.
        Does nothing if the search has opened another file, or if another thread has closed this
        one."""
        file, batches = known
        if self._file is not file:
            return
        if len(batches) >= FOUND_MAX:
            del batches[next(iter(batches))]
        batches[offset] = found

    def slice_from(self, offset: int, end: int) -> FileRecords:
        """The range from a batch near the one that holds `offset`, not after it."""
        return self._scan_from(offset, end)[0]

    def upper_bound(self, position: int, end: int) -> int | None:
        """An offset after all records before `position`, by the index. None if the index has
        none."""
        index = self._offset_index(end)
        return None if index is None else index.upper_bound(position, 0)

    def find_timestamp(self, timestamp: int, start: int, end: int) -> Record | None:
        """The first record at or above offset `start` whose timestamp is not below `timestamp`."""
        index = self._time_index(end)
        # Records before this entry's batch are older than the entry, so they are too old.
        hint = self.base_offset if index is None else index.lookup(timestamp)[1]
        records = self.slice_from(max(hint, start), end)
        for header in records.batches():
            if header.max_timestamp < timestamp or header.last_offset < start or header.is_control:
                continue
            for record in read_batch(records, header):
                if record.timestamp >= timestamp and record.offset >= start:
                    return record
        return None

    def max_timestamp(self) -> int | None:
        """The highest timestamp of a rolled segment, by its time index. None if it is unknown."""
        index = self._time_index(self.size)
        is_known = index is not None and len(index) and not index.why_corrupt
        return index.last[0] if index is not None and is_known else None

    def aborted(self) -> list[AbortedTransaction]:
        """The aborted transactions of this segment, from the transaction index."""
        return read_transactions(self.path(Kind.TRANSACTION_INDEX), self.base_offset)

    # --- files

    def attach(self, offsets: OffsetIndex, times: TimeIndex) -> None:
        """Uses the indexes of the segment's writer from now on. The writer closes them."""
        self.release()
        self._offsets = Opened(offsets, 0, is_ours=True)
        self._times = Opened(times, 0, is_ours=True)

    def detach(self) -> None:
        """Call this after the writer has closed its indexes. Files are then opened when they are
        needed."""
        self._offsets = self._times = None
        self.release()

    def release(self) -> None:
        """Releases the files. Each is closed when nothing reads it any more. Returned slices and
        threads that use an index keep their files open."""
        self._file = self._scanned = self._found = None
        offsets = self._offsets
        if offsets is not None and not offsets.is_ours:
            self._offsets = None
        times = self._times
        if times is not None and not times.is_ours:
            self._times = None
        self.open_files.released(self)

    def _log(self) -> SharedFile:
        file = self._file
        if file is None:
            file = self._file = SharedFile(self.location())
        if self.open_files.newest is not self:
            self.open_files.used(self)
        return file

    def _offset_index(self, log_size: int) -> OffsetIndex | None:
        opened = self._offsets
        if opened is None or not opened.is_good(log_size):
            opened = self._offsets = self._opened(OffsetIndex, Kind.OFFSET_INDEX, log_size)
        return opened.index

    def _time_index(self, log_size: int) -> TimeIndex | None:
        opened = self._times
        if opened is None or not opened.is_good(log_size):
            opened = self._times = self._opened(TimeIndex, Kind.TIME_INDEX, log_size)
        return opened.index

    def _opened(self, of: type[Index], kind: Kind, log_size: int) -> Opened[Index]:
        """Opens an index that belongs to the open log file.

        A cleaner replaces the log before its indexes. So if the open log still has its name after
        an index was opened, the index belongs to it."""
        for _ in range(OPEN_ATTEMPTS):
            file = self._log()
            log = os.fstat(file.fileno())
            try:
                index = of.open(self.path(kind), self.base_offset)
            except FileNotFoundError:
                index = None
            if os.path.samestat(log, os.stat(self.location())):  # noqa: PTH116 - see there
                return Opened(index, log_size, is_ours=False)
            self._file = self._scanned = self._found = None
            self._offsets = self._times = None
        return Opened(None, log_size, is_ours=False)

    # --- scanning

    def _scan_from(self, offset: int, end: int) -> tuple[FileRecords, Iterator[BatchHeader]]:
        """The range from a batch near the one that holds `offset`, not after it, and its headers.
        Headers that were read to find it are not read again."""
        wanted = offset
        index = self._offset_index(end)
        for _ in range(STEPS_BACK if index is not None else 0):
            assert index is not None
            entry, position = index.lookup(offset)
            if not position or entry > offset:  # there is no entry, or entries are not sorted
                break
            if position > 0:
                records = FileRecords(self._log(), position, max(0, end - position))
                headers = self._fitting(records, entry)
                if headers is not None:
                    return records, headers
            offset = entry - 1
        return self._scan_on(wanted, end)

    def _fitting(self, records: FileRecords, entry: int) -> Iterator[BatchHeader] | None:
        """The headers of `records`, if an index entry with offset `entry` may point to their
        beginning.

        Bytes within a batch may look like the head of one, but not of two in a row."""
        batches = records.batches()
        try:
            first, second = next(batches, None), next(batches, None)
        except CorruptRecordsError:
            return None
        if first is None or first.last_offset < self.base_offset:
            return None
        # A v0 or v1 message has only its last offset, which may be above that of its append.
        if first.magic == V2 and not may_have(first, second, entry):
            return None
        if second is None:
            return iter((first,)) if first.size == records.size else None
        if first.last_offset >= second.last_offset:
            return None
        return chain((first, second), batches)

    def _scan_on(self, offset: int, end: int) -> tuple[FileRecords, Iterator[BatchHeader]]:
        """As `_scan_from`, without an index: uses positions from earlier scans."""
        file, scanned = self._log(), self._scanned
        if scanned is None or scanned.file is not file:
            scanned = self._scanned = ScannedPositions(file)
        return scanned.scan(offset, end)


def _following(known: Known, offset: int, end: int) -> tuple[int, BatchHeader] | None:
    """The batch that holds `offset`, if it comes right after a known one. This is usual, because a
    consumer at the end of a log reads batch by batch. None: the batch must be searched for, or
    there is none."""
    file, batches = known
    for position, before in tuple(batches.values()):
        if before.last_offset + 1 == offset:
            at = position + before.size
            try:
                header = next(FileRecords(file, at, max(0, end - at)).batches(), None)
            except CorruptRecordsError:  # the search reports it
                return None
            # In a damaged log, offsets may decrease.
            if header is None or min(header.base_offset, header.last_offset) < offset:
                return None
            return at, header
    return None
