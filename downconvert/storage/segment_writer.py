"""The active segment of a log: the one that is appended to.

The log file comes first. When it has the bytes, the indexes get their entries; they can be rebuilt,
and are, where it is not certain that they reached the disk. An append that fails leaves nothing.

Not here: which batches may be appended, and when a segment is rolled (log_writer.py)."""

from collections.abc import Sequence
from contextlib import ExitStack

from records import BatchHeader
from records.kernel import Buffer

from .config import LogConfig
from .errors import OffsetOverflowError, StorageError
from .files import Files, WritableFile
from .index_builder import IndexBuilder
from .names import Kind
from .offset_index import RELATIVE_MAX, OffsetIndex
from .segment import Segment
from .time_index import TimeIndex
from .transaction_index import AbortedTransaction, TransactionIndex


class SegmentWriter:
    """Appends to a segment. `position` and `next_offset` are where it ends."""

    __slots__ = (
        "_created",
        "_file",
        "_first_timestamp",
        "_indexes",
        "_transactions",
        "config",
        "next_offset",
        "position",
        "segment",
    )

    def __init__(
        self, segment: Segment, position: int, next_offset: int, config: LogConfig, files: Files
    ) -> None:
        """The log up to `position` is good; what is after it is cut off."""
        self.segment = segment
        self.position = position
        self.next_offset = next_offset
        self.config = config
        self._created: int | None = None  # milliseconds; the time that came with the first append
        with ExitStack() as undo:
            self._open(files, undo)
            self._file.truncate(position)
            first = next(segment.slice(0, position).batches(), None)
            self._first_timestamp = None if first is None else first.max_timestamp
            self._find_max_timestamp()
            undo.pop_all()

    def _open(self, files: Files, undo: ExitStack) -> None:
        segment, size_max = self.segment, self.config.segment_index_bytes
        base_offset = segment.base_offset
        self._file: WritableFile = files.open(segment.path())
        undo.callback(self._file.close)
        offsets = OffsetIndex.open_writable(
            segment.path(Kind.OFFSET_INDEX), base_offset, files, size_max
        )
        undo.callback(offsets.close)
        times = TimeIndex.open_writable(segment.path(Kind.TIME_INDEX), base_offset, files, size_max)
        undo.callback(times.close)
        self._indexes = IndexBuilder(offsets, times, self.config.index_interval_bytes)
        transactions = segment.path(Kind.TRANSACTION_INDEX)
        self._transactions = TransactionIndex(transactions, base_offset, files)
        segment.attach(offsets, times)
        undo.callback(segment.detach)

    @property
    def max_timestamp(self) -> int:
        """The highest so far; -1 if there is none."""
        return self._indexes.max_timestamp

    def is_due(self, headers: Sequence[BatchHeader], size: int, now: int | None) -> bool:
        """Whether the segment must be rolled before these batches of `size` bytes are appended."""
        if not self.position:
            return False
        config = self.config
        if self.position + size > config.segment_bytes or self._indexes.is_full:
            return True
        if headers[-1].last_offset - self.segment.base_offset > RELATIVE_MAX:
            return True
        if self._first_timestamp is not None and self._first_timestamp >= 0:
            youngest = max(header.max_timestamp for header in headers)
            return youngest - self._first_timestamp > config.roll_ms
        # Records without timestamps are as old as their segment.
        if now is None or self._created is None:
            return False
        return now - self._created > config.roll_ms

    def is_old(self, now: int) -> bool:
        """Whether it has records, and has been written to for longer than `roll_ms`.

        Time counts from the first append, or from the first question after a reopening."""
        if not self.position:
            return False
        if self._created is None:
            self._created = now
        return now - self._created > self.config.roll_ms

    def append(
        self,
        data: Buffer,
        headers: Sequence[BatchHeader],
        aborted: Sequence[AbortedTransaction],
        now: int | None = None,
    ) -> None:
        """Appends whole batches, whose `headers` have positions in `data`.

        DiskFullError, or any other OSError: the segment is as it was."""
        position, next_offset = self.position, self.next_offset
        if headers[-1].last_offset - self.segment.base_offset > RELATIVE_MAX:
            path = str(self.segment.path())
            raise OffsetOverflowError(headers[-1].last_offset, self.segment.base_offset, path)
        try:
            self._file.write_at(data, position)
            for header in headers:
                self._indexes.add(header, position + header.position)
            for entry in aborted:
                self._transactions.append(entry)
        except (OSError, StorageError):
            self._cut(position, next_offset)
            raise
        self.position += len(data)
        self.next_offset = headers[-1].last_offset + 1
        if self._first_timestamp is None:
            self._first_timestamp = headers[0].max_timestamp
        if self._created is None:
            self._created = now

    def truncate_to(self, offset: int) -> None:
        """Removes every batch with a record at or above `offset`, and leaves it open for more."""
        found = self.segment.find(offset, self.position)
        if found is None:
            return
        position = found[0]
        records = self.segment.slice_from(max(offset - 1, self.segment.base_offset), position)
        next_offset = self.segment.base_offset
        for header in records.batches():
            next_offset = header.last_offset + 1
        self._cut(position, next_offset)
        self._file.sync()
        if not position:
            self._first_timestamp = self._created = None

    def flush(self) -> None:
        """Returns when everything appended is on the disk."""
        self._file.sync()
        self._indexes.offsets.file.sync()
        self._indexes.times.file.sync()
        self._transactions.sync()

    def close(self) -> None:
        """Trims the indexes, and returns when everything is on the disk."""
        self._indexes.finish()
        self.flush()
        self.abandon()

    def abandon(self) -> None:
        """Closes the files as they are."""
        self.segment.detach()
        self._indexes.offsets.close()
        self._indexes.times.close()
        self._transactions.close()
        self._file.close()

    def _cut(self, position: int, next_offset: int) -> None:
        self._file.truncate(position)
        self.segment.release()  # nobody takes what will be written here for what was
        self.position, self.next_offset = position, next_offset
        self._indexes.truncate_to(next_offset)
        self._transactions.truncate_to(next_offset)
        self._find_max_timestamp()

    def _find_max_timestamp(self) -> None:
        """The time index knows up to its last entry; the batches after that say the rest."""
        timestamp, offset = self._indexes.times.last
        for header in self.segment.slice_from(offset, self.position).batches():
            if header.max_timestamp > timestamp:
                timestamp, offset = header.max_timestamp, header.last_offset
        self._indexes.continue_from(timestamp, offset)
