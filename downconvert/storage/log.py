"""The log of one partition: its segments, as one sequence of records.

A broker may be writing to a log that is open for reading. Its appends, rolls, retention, cleaning
and truncation then show while the log is read.

Not here: one segment (segment.py), changes on the disk (follower.py), and changing it
(log_writer.py)."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal, TypeAlias, TypeVar

from records import BatchHeader, CorruptRecordsError, FileRecords
from records.batches.reader import Record, read
from records.paths import named

from .config import LogConfig
from .disk.files import DISK, Files
from .disk.open_files import OpenFiles
from .errors import LogDirOfflineError, OffsetOutOfRangeError
from .follower import ATTEMPTS, Follower, LogView
from .indexes.transaction_index import AbortedTransaction
from .log_writer import LogWriter
from .names import TopicPartition, parse_file_name, parse_partition
from .offline import OfflineView
from .producers.producer_state import ProducerState
from .producers.producers import Producers
from .producers.runs import runs_of
from .producers.transactions import AbortedRanges, aborted_between
from .recovery import RecoveredLog
from .segments.segment import Segment
from .segments.segments import Segments
from .session import Session

Isolation: TypeAlias = Literal["read_uncommitted", "read_committed"]
Found = TypeVar("Found")


class Log:
    """The records of a partition, from `start_offset` up to `end_offset`."""

    def __init__(
        self,
        path: Path,
        view: LogView,
        open_files: OpenFiles,
        writer: LogWriter | None = None,
        session: Session | None = None,
    ) -> None:
        self.path = path
        self.topic_partition: TopicPartition | None = parse_partition(path.name)
        self._view = view
        self._open_files = open_files
        self._writer = writer
        self._session = session

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        *,
        writable: bool = False,
        config: LogConfig | None = None,
        files: Files = DISK,
        open_files: OpenFiles | None = None,
        verify_all: bool = False,
    ) -> "Log":
        """The log in a partition's directory. OSError: there is no such directory; ValueError: the
        path is empty.

        `writable`: recovers the log first, and locks its log directory (LogInUseError). To write
        several logs of a directory, open a `LogDir`. `verify_all`: recovery reads the whole log,
        not only the unflushed part."""
        path, open_files = named(path), open_files or OpenFiles()
        if not writable:
            return cls(path, Follower(path, open_files), open_files)
        session = Session(path.parent, files, verify_all=verify_all)
        try:
            return cls.recover(path, session, config or LogConfig(), open_files, owns=True)
        except BaseException:
            session.end(clean=False)
            raise

    @classmethod
    def recover(
        cls,
        path: Path,
        session: Session,
        config: LogConfig,
        open_files: OpenFiles,
        *,
        again: bool = False,
        owns: bool = False,
    ) -> "Log":
        """Recovers the log in a directory that `session` may write to. `owns`: `close` ends the
        session.

        `again`: this session had opened it before, and may not have closed it properly."""
        files = session.files
        name = parse_partition(path.name)
        if name is None:
            raise ValueError(f"{path.name} is not the name of a partition's directory")
        checkpoints = session.checkpoints.of(name)
        log = RecoveredLog(path, open_files, config, files)
        log.recover(
            clean=session.was_clean and not again,
            recovery_point=0 if session.verifies_all else checkpoints.recovery_point,
            start_offset=checkpoints.start_offset,
        )
        writer = LogWriter(log, checkpoints, config, files, open_files)
        writer.begin()
        return cls(path, writer, open_files, writer, session if owns else None)

    @classmethod
    def offline(cls, path: Path, reason: str, open_files: OpenFiles) -> "Log":
        """A log that cannot be opened: empty, with an `offline_reason`."""
        return cls(path, OfflineView(reason, Producers(path)), open_files)

    def __enter__(self) -> "Log":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes all files. Ranges that `read` returned stay valid."""
        if self._writer is not None and not self._writer.is_in_place():
            self.abandon()  # nothing can be written; this has been logged
            return
        session, self._session = self._session, None
        closed = False
        try:
            self._view.close()
            closed = True
        finally:
            if session is not None:
                # Only this log was closed here. The state of the others is unknown.
                session.end(clean=closed and session.was_clean)

    def abandon(self) -> None:
        """Closes all files as if the process had died: nothing is flushed or written."""
        session, self._session = self._session, None
        if self._writer is None:
            self._view.close()
        else:
            self._writer.abandon()
        if session is not None:
            session.end(clean=False)

    @property
    def is_writable(self) -> bool:
        return self._writer is not None

    @property
    def offline_reason(self) -> str | None:
        """Why the log must not be read or written: it cannot be opened, or its disk has failed and
        data may be lost. None if it is online."""
        return self._view.reason

    @property
    def writer(self) -> LogWriter:
        """The writer of the log. ValueError: it was opened for reading. LogDirOfflineError: it
        could not be opened."""
        if self._writer is None and self._view.reason is not None:
            raise LogDirOfflineError(str(self.path), self._view.reason)
        if self._writer is None:
            raise ValueError(f"{self.path} is open for reading only")
        return self._writer

    # --- offsets and state

    @property
    def segments(self) -> Segments:
        return self._view.segments

    def end_of(self, segment: Segment) -> int:
        """The position after the last valid batch of a segment. Its file may be longer."""
        return self._view.end_of(segment)

    @property
    def start_offset(self) -> int:
        """The current first offset of the log. Files may begin before it."""
        self._view.refresh()
        return self._view.start_offset

    @property
    def end_offset(self) -> int:
        """The offset of the next record, at this time."""
        self._view.refresh()
        return self._view.end_offset

    @property
    def last_stable_offset(self) -> int:
        """The start of the oldest open transaction; without one, the end."""
        self._view.refresh()
        return self._last_stable_offset()

    def look(self, *, stable: bool = False, again: bool = True) -> tuple[int, int, int]:
        """Returns `start_offset`, `end_offset` and `last_stable_offset`, all from one refresh. With
        `again=False`, uses the last refresh. Without `stable`, the third is the end again."""
        if again:
            self._view.refresh()
        end = self._view.end_offset
        return self._view.start_offset, end, self._last_stable_offset() if stable else end

    def _last_stable_offset(self) -> int:
        view = self._view
        first, end = view.producers_at_end().states.first_open_offset, view.end_offset
        return end if first is None else max(view.start_offset, min(first, end))

    @property
    def damage(self) -> CorruptRecordsError | None:
        """The damage after the last good batch, which recovery cuts off. None if there is no
        damage, or only an incomplete batch."""
        return self._view.damage

    def producers(self) -> list[ProducerState]:
        """The states of its producers at the end."""
        self._view.refresh()
        return list(self._view.producers_at_end().states.producers.values())

    def aborted(self, start: int, end: int) -> list[AbortedTransaction]:
        """The aborted transactions with records from offset `start` up to `end`."""
        followed = self._view.producers_at_end().aborted
        return aborted_between(start, end, self.segments, followed)

    # --- reading

    def read(self, offset: int, max_bytes: int, *, up_to: int | None = None) -> FileRecords:
        """The records for a fetch: a range of one segment, from the batch that holds `offset` on.

        It has at most `max_bytes`, but at least one batch. It is empty at the log's end. It may
        begin below `offset` and end within a batch. `up_to`: it has no record from that offset on
        (for example, a high watermark). OffsetOutOfRangeError. ValueError: a negative size."""
        if max_bytes < 0:
            raise ValueError(f"a read of {max_bytes} bytes")
        try:
            return self._read(offset, max_bytes, up_to)
        except FileNotFoundError:
            return self._retried(lambda: self._read(offset, max_bytes, up_to))

    def upper_bound(self, records: FileRecords) -> int:
        """An offset after all records of a range that `read` returned, and close to them."""
        view = self._view
        name = parse_file_name(os.path.basename(records.name))  # noqa: PTH119 - many fetches do this
        segment = None if name is None else next(view.segments.starting_at(name.offset), None)
        if segment is None:
            return view.end_offset
        bound = segment.upper_bound(records.origin + records.size, view.end_of(segment))
        if bound is None:
            following = view.segments.after(segment)
            bound = view.end_offset if following is None else following.base_offset
        return bound

    def batches(self, start: int | None = None) -> Iterator[tuple[FileRecords, BatchHeader]]:
        """The headers from the batch that holds `start` on, up to the current end.

        Each header comes with its range. The header's position is relative to that range."""
        end = self.end_offset
        offset = self._view.start_offset if start is None else start
        while offset < end:
            try:
                for records in self._ranges(offset):
                    for header in records.batches():
                        if header.base_offset >= end:
                            return
                        if header.last_offset >= offset:
                            yield records, header
                            offset = header.last_offset + 1
                return
            except FileNotFoundError:
                # The segment was deleted or cleaned in the meantime. The remaining records follow.
                self._view.refresh(relist=True)
                offset = max(offset, self._view.start_offset)

    def records(
        self, start: int | None = None, isolation: Isolation = "read_uncommitted"
    ) -> Iterator[Record]:
        """The records from offset `start` on, up to the current end.

        `read_committed`: without aborted transactions, and up to the last stable offset.
        CorruptRecordsError comes after all good records before the damage."""
        if isolation not in ("read_uncommitted", "read_committed"):
            raise ValueError(f"unknown isolation {isolation!r}")
        committed = isolation == "read_committed"
        end = self.last_stable_offset if committed else self.end_offset
        first = self._view.start_offset if start is None else start
        self._check(first)
        return self._records(first, end, self.aborted(first, end) if committed else [])

    def offset_for(self, timestamp: int) -> int | None:
        """The offset of the first record that is not older than `timestamp`. None if all are
        older."""
        found = self.find_timestamp(timestamp)
        return None if found is None else found.offset

    def find_timestamp(self, timestamp: int) -> Record | None:
        """The first record that is not older than `timestamp`. None if all are older."""
        self._view.refresh()
        return self._retried(lambda: self._find_timestamp(timestamp))

    # --- details

    def _check(self, offset: int) -> None:
        start, end = self._view.start_offset, self._view.end_offset
        if not start <= offset <= end:
            raise OffsetOutOfRangeError(offset, start, end, self.path.name)

    def _read(self, offset: int, max_bytes: int, up_to: int | None) -> FileRecords:
        view = self._view
        if not view.start_offset <= offset < view.end_offset:
            view.refresh()
            self._check(offset)
        end_offset = view.end_offset if up_to is None else min(up_to, view.end_offset)
        pairs = view.segments.pairs_from(offset) if offset < end_offset else ()
        for segment, following in pairs:
            end = view.end_of(segment)
            after = view.end_offset if following is None else following.base_offset
            # Usually the whole segment may be read, so the end of the read need not be searched.
            if end_offset < after and (bound := segment.find(end_offset, end)) is not None:
                end = bound[0]
            found = segment.read(offset, max_bytes, end)
            if found is not None:
                return found
        return FileRecords(self._open_files.empty(), 0, 0)

    def _ranges(self, offset: int) -> Iterator[FileRecords]:
        """The ranges of the segments with the records from `offset` on."""
        for segment in self._view.segments.starting_at(offset):
            yield segment.slice_from(offset, self._view.end_of(segment))

    def _records(self, start: int, end: int, aborted: list[AbortedTransaction]) -> Iterator[Record]:
        ranges = AbortedRanges(aborted)
        for piece in runs_of(self.batches(start), end, ranges):
            for record in read(piece):
                if start <= record.offset < end:
                    yield record

    def _find_timestamp(self, timestamp: int) -> Record | None:
        view = self._view
        for segment in view.segments.starting_at(view.start_offset):
            youngest = self._youngest(segment)
            if youngest is not None and youngest < timestamp:
                continue
            end = view.end_of(segment)
            found = segment.find_timestamp(timestamp, view.start_offset, end)
            if found is not None:
                return found
        return None

    def _youngest(self, segment: Segment) -> int | None:
        """The highest timestamp of a segment. The time index has it after the roll, and the writer
        knows it before. None: it can only be found by reading the segment."""
        if self._writer is not None:
            return self._writer.max_timestamp(segment)
        return None if self._view.segments.is_last(segment) else segment.max_timestamp()

    def _retried(self, find: Callable[[], Found]) -> Found:
        for _ in range(ATTEMPTS):
            try:
                return find()
            except FileNotFoundError:
                self._view.refresh(relist=True)
        return find()
