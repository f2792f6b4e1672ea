"""The log of one partition: its segments, as one sequence of records.

Opened for reading, its directory may be one that a broker is writing to: the log grows, is rolled,
cut at its beginning, cleaned and truncated while it is read, and what is read here goes along with
that.

Not here: one segment (segment.py), what changes on the disk (follower.py), and changing it
(log_writer.py)."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal, TypeAlias, TypeVar

from records import BatchHeader, CorruptRecordsError, FileRecords
from records.reader import Record, read

from .config import LogConfig
from .errors import LogDirOfflineError, OffsetOutOfRangeError
from .files import DISK, Files
from .follower import ATTEMPTS, Extent, Follower
from .log_writer import LogWriter
from .names import TopicPartition, parse_file_name, parse_partition
from .offline import OfflineExtent
from .open_files import OpenFiles, SharedFile
from .producers import Producers
from .recovery import RecoveredLog
from .runs import runs_of
from .segment import Segment
from .segments import Segments
from .session import Session
from .transaction_index import AbortedTransaction
from .transactions import AbortedRanges, aborted_between

Isolation: TypeAlias = Literal["read_uncommitted", "read_committed"]
Found = TypeVar("Found")


_NO_FILE: list[SharedFile] = []


def _no_file() -> SharedFile:
    """What ranges of nothing are of: one open file for all of them, as most fetches get nothing."""
    if not _NO_FILE or _NO_FILE[0].closed:  # closed by somebody who closed a range of it
        _NO_FILE[:] = [SharedFile(os.devnull)]
    return _NO_FILE[0]


class Log:
    """The records of a partition, from `start_offset` up to `end_offset`."""

    def __init__(
        self,
        path: Path,
        extent: Extent,
        writer: LogWriter | None = None,
        session: Session | None = None,
    ) -> None:
        self.path = path
        self.topic_partition: TopicPartition | None = parse_partition(path.name)
        self._extent = extent
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
        distrust: bool = False,
    ) -> "Log":
        """The log in a partition's directory. OSError where there is no such directory.

        `writable`: it is brought into order first, and changed only through this. The directory
        around it is then ours alone (LogInUseError); for several of its logs open a `LogDir`.
        `distrust`: all of it is read for that, not only what had not been flushed."""
        path, open_files = Path(path), open_files or OpenFiles()
        if not writable:
            return cls(path, Follower(path, open_files))
        session = Session(path.parent, files, distrust=distrust)
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
        """The log in a directory that `session` may write to; `owns`: closing it ends that.

        `again`: it was open in this session already, and may not have been closed as it should."""
        files = session.files
        name = parse_partition(path.name)
        if name is None:
            raise ValueError(f"{path.name} is not the name of a partition's directory")
        checkpoints = session.checkpoints.of(name)
        log = RecoveredLog(path, open_files, config, files)
        log.recover(
            clean=session.was_clean and not again,
            recovery_point=0 if session.distrusts else checkpoints.recovery_point,
            start_offset=checkpoints.start_offset,
        )
        writer = LogWriter(log, checkpoints, config, files, open_files)
        return cls(path, writer, writer, session if owns else None)

    @classmethod
    def offline(cls, path: Path, reason: str) -> "Log":
        """The place of a log that cannot be opened. It is empty, and says why: `offline_reason`."""
        return cls(path, OfflineExtent(reason, Producers(path)))

    def __enter__(self) -> "Log":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Lets go of all files. Ranges that were handed out stay good."""
        if self._writer is not None and self._writer.reason is not None:
            self.abandon()  # nothing can be written down any more, and all knew that already
            return
        session, self._session = self._session, None
        closed = False
        try:
            self._extent.close()
            closed = True
        finally:
            if session is not None:
                # Only this log was ours to close: of the others what was known before holds.
                session.end(clean=closed and session.was_clean)

    def abandon(self) -> None:
        """Lets go of all files as if the process had died: nothing is flushed or noted."""
        session, self._session = self._session, None
        if self._writer is None:
            self._extent.close()
        else:
            self._writer.abandon()
        if session is not None:
            session.end(clean=False)

    @property
    def is_writable(self) -> bool:
        return self._writer is not None

    @property
    def offline_reason(self) -> str | None:
        """Why nobody is to read or write it: it cannot be opened, or its disk has failed, and what
        seems to be there may be lost. None: all is well."""
        return self._extent.reason

    @property
    def writer(self) -> LogWriter:
        """What changes the log. ValueError: it was opened for reading. LogDirOfflineError: it
        could not be opened."""
        if self._writer is None and self._extent.reason is not None:
            raise LogDirOfflineError(str(self.path), self._extent.reason)
        if self._writer is None:
            raise ValueError(f"{self.path} is open for reading only")
        return self._writer

    # --- what there is

    @property
    def segments(self) -> Segments:
        return self._extent.segments

    def end_of(self, segment: Segment) -> int:
        """The position behind the last batch of a segment that counts: its file may be longer."""
        return self._extent.end_of(segment)

    @property
    def start_offset(self) -> int:
        """The first offset that is part of the log, as of now. Files may begin in front of it."""
        self._extent.refresh()
        return self._extent.start_offset

    @property
    def end_offset(self) -> int:
        """The offset that the next record will have, as of now."""
        self._extent.refresh()
        return self._extent.end_offset

    @property
    def last_stable_offset(self) -> int:
        """Where the oldest open transaction begins; the end where none is open."""
        end = self.end_offset
        first = self._extent.producers_at_end().states.first_open_offset
        return end if first is None else max(self._extent.start_offset, min(first, end))

    @property
    def damage(self) -> CorruptRecordsError | None:
        """What is behind the last good batch, if it is no torn tail: recovery cuts it off."""
        return self._extent.damage

    def aborted(self, start: int, end: int) -> list[AbortedTransaction]:
        """The aborted transactions with records from offset `start` up to `end`."""
        followed = self._extent.producers_at_end().aborted
        return aborted_between(start, end, self.segments, followed)

    # --- reading

    def read(self, offset: int, max_bytes: int, *, up_to: int | None = None) -> FileRecords:
        """What a fetch sends: a range of one segment, from the batch that holds `offset` on.

        At most `max_bytes`, but at least one batch; nothing at the end. It may begin below `offset`
        and end within a batch. `up_to`: nothing from that offset on (a high watermark, say).
        OffsetOutOfRangeError; ValueError for a negative size."""
        if max_bytes < 0:
            raise ValueError(f"a read of {max_bytes} bytes")
        return self._retried(lambda: self._read(offset, max_bytes, up_to))

    def upper_bound(self, records: FileRecords) -> int:
        """An offset behind all records of a range that `read` gave, and not far behind."""
        extent = self._extent
        name = parse_file_name(Path(records.name).name)
        segment = None if name is None else next(extent.segments.starting_at(name.offset), None)
        if segment is None:
            return extent.end_offset
        bound = segment.upper_bound(records.origin + records.size, extent.end_of(segment))
        if bound is None:
            following = extent.segments.after(segment)
            bound = extent.end_offset if following is None else following.base_offset
        return bound

    def batches(self, start: int | None = None) -> Iterator[tuple[FileRecords, BatchHeader]]:
        """The headers from the batch that holds `start` on, up to what is the end now.

        With each comes the range that it was read from, in which its position counts."""
        end = self.end_offset
        offset = self._extent.start_offset if start is None else start
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
                # Deleted or cleaned meanwhile. What is gone is gone; the rest follows.
                self._extent.refresh(relist=True)
                offset = max(offset, self._extent.start_offset)

    def records(
        self, start: int | None = None, isolation: Isolation = "read_uncommitted"
    ) -> Iterator[Record]:
        """The records from offset `start` on, up to what is the end now.

        `read_committed`: without those of aborted transactions, and up to the last stable offset.
        CorruptRecordsError comes after all that is good in front of the damage."""
        if isolation not in ("read_uncommitted", "read_committed"):
            raise ValueError(f"unknown isolation {isolation!r}")
        committed = isolation == "read_committed"
        end = self.last_stable_offset if committed else self.end_offset
        first = self._extent.start_offset if start is None else start
        self._check(first)
        return self._records(first, end, self.aborted(first, end) if committed else [])

    def offset_for(self, timestamp: int) -> int | None:
        """The offset of the first record that is not older than `timestamp`; None if all are."""
        found = self.find_timestamp(timestamp)
        return None if found is None else found.offset

    def find_timestamp(self, timestamp: int) -> Record | None:
        """The first record that is not older than `timestamp`; None if all are."""
        self._extent.refresh()
        return self._retried(lambda: self._find_timestamp(timestamp))

    # --- how

    def _check(self, offset: int) -> None:
        start, end = self._extent.start_offset, self._extent.end_offset
        if not start <= offset <= end:
            raise OffsetOutOfRangeError(offset, start, end, self.path.name)

    def _read(self, offset: int, max_bytes: int, up_to: int | None) -> FileRecords:
        extent = self._extent
        if not extent.start_offset <= offset < extent.end_offset:
            extent.refresh()
            self._check(offset)
        end_offset = extent.end_offset if up_to is None else min(up_to, extent.end_offset)
        for segment in extent.segments.starting_at(offset) if offset < end_offset else ():
            end = extent.end_of(segment)
            if up_to is not None and (bound := segment.find(up_to, end)) is not None:
                end = bound[0]
            found = segment.read(offset, max_bytes, end)
            if found is not None:
                return found
        return FileRecords(_no_file(), 0, 0)

    def _ranges(self, offset: int) -> Iterator[FileRecords]:
        """The ranges of the segments that hold the records from `offset` on."""
        for segment in self._extent.segments.starting_at(offset):
            yield segment.slice_from(offset, self._extent.end_of(segment))

    def _records(self, start: int, end: int, aborted: list[AbortedTransaction]) -> Iterator[Record]:
        ranges = AbortedRanges(aborted)
        for piece in runs_of(self.batches(start), end, ranges):
            for record in read(piece):
                if start <= record.offset < end:
                    yield record

    def _find_timestamp(self, timestamp: int) -> Record | None:
        extent = self._extent
        for segment in extent.segments.starting_at(extent.start_offset):
            # Only the time index of a rolled segment says how young its records are.
            if not extent.segments.is_last(segment):
                youngest = segment.max_timestamp()
                if youngest is not None and youngest < timestamp:
                    continue
            end = extent.end_of(segment)
            found = segment.find_timestamp(timestamp, extent.start_offset, end)
            if found is not None:
                return found
        return None

    def _retried(self, find: Callable[[], Found]) -> Found:
        for _ in range(ATTEMPTS):
            try:
                return find()
            except FileNotFoundError:
                self._extent.refresh(relist=True)
        return find()
