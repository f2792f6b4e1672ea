"""Compacts a log that is open for writing, in steps: all of it except the active segment.

A pass reads as many keys of the dirty part as fit into the offset map. Then it cleans all segments
up to there, in groups that fit into one segment. Each group is written to `.cleaned` files. When
these are synced, they become `.swap` files, replace the group, and get their final names. Recovery
completes or undoes an interrupted pass (layout.py). If the map was full, another pass continues.

The log may be read, appended to and cut at its beginning between two steps, and by other threads
during one. Rolled segments do not change, and the log itself is touched only briefly, while `lock`
is held. A pass ends without changes if its segments are truncated or deleted in the meantime.

Not here: the records that stay (compaction.py), the time of cleaning (cleanable.py)."""

from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, nullcontext, suppress
from typing import Final

from downconvert.storage.config import LogConfig
from downconvert.storage.disk.files import Files
from downconvert.storage.disk.open_files import OpenFiles
from downconvert.storage.errors import StorageError
from downconvert.storage.indexes.offset_index import RELATIVE_MAX
from downconvert.storage.log import Log
from downconvert.storage.names import SEGMENT_KINDS, State
from downconvert.storage.producers.transactions import AbortedRanges
from downconvert.storage.segments.segment import Segment
from downconvert.storage.segments.segment_writer import SegmentWriter
from records import CorruptRecordsError, FileRecords, MemoryRecords

from .cleanable import Cleanable, cleanable
from .compaction import Cleaner, CompactionCount, LastOfProducers, note_latest
from .offset_map import BUFFER_SIZE, OffsetMap

NO_LOCK: Final = nullcontext()
NANOSECONDS: Final = 1_000_000  # in a millisecond


class InterruptedPassError(Exception):
    """Segments have been truncated or deleted, or the log closed, since the pass began."""


class Compaction:
    """One pass over a log. `count` has its results so far."""

    def __init__(
        self,
        log: Log,
        config: LogConfig,
        part: Cleanable,
        *,
        now: int,
        buffer_size: int = BUFFER_SIZE,
        files: Files | None = None,
        lock: AbstractContextManager[object] = NO_LOCK,
    ) -> None:
        """Call this with `lock` held. `part`: the result of `cleanable` for the log. `now`:
        milliseconds. `buffer_size`: bytes of the offset map."""
        self.part = part
        self.end = part.end  # the pass cleans up to this offset; final when all keys are noted
        self.count = CompactionCount()
        self._log = log
        self._config = config
        self._now = now
        self._buffer_size = buffer_size
        self._files = files or log.writer.files
        self._lock = lock
        self._generation = log.writer.generation
        self._segments = [s for s in log.segments if s.base_offset < part.end]
        self._ends = [*(s.base_offset for s in self._segments), part.end][1:]
        self._aborted = log.aborted(0, part.end)
        self._last = LastOfProducers(log.writer.producers.values())
        # Kafka's rule for tombstones of v0 and v1, which have no delete horizon.
        before = [s for s in self._segments if s.base_offset < part.first_dirty]
        since = _modified(before[-1]) - config.delete_retention_ms if before else 0
        self._legacy_horizon = since
        self._work = self._run()

    def step(self, size: int) -> bool:
        """Reads about `size` bytes, and at least one batch. Returns whether there is more to do.

        InterruptedPassError; CorruptRecordsError: records cannot be read; OSError, StorageError:
        the disk failed. After an error only finished groups of segments have changed."""
        done = 0
        try:
            for read in self._work:
                done += read
                if done >= size:
                    return True
        except CorruptRecordsError:
            with self._lock:
                self._check()  # a truncation in the meantime is not damage
            raise
        return False

    def close(self) -> None:
        """Ends the pass, and removes unfinished files."""
        self._work.close()

    # --- the pass

    def _run(self) -> Generator[int, None, None]:
        """Yields the number of bytes read since the last yield."""
        with closing(OffsetMap(self._buffer_size)) as latest:
            yield from self._note_keys(latest)
            cleaner = Cleaner(
                latest,
                AbortedRanges(self._aborted),
                self._last,
                now=self._now,
                delete_retention_ms=self._config.delete_retention_ms,
                end=self.end,
            )
            self.count = cleaner.count
            for group in self._groups():
                yield from self._clean(group, cleaner)
        with self._lock:
            self._check()
            self._log.writer.note_cleaner_point(self.end)

    def _note_keys(self, latest: OffsetMap) -> Iterator[int]:
        first_dirty = self.part.first_dirty
        aborted = AbortedRanges(self._aborted)
        for segment, end in zip(self._segments, self._ends, strict=True):
            if end <= first_dirty:
                continue
            records, _ = self._opened(segment)
            for header in records.batches():
                if not note_latest(latest, records, header, aborted, first_dirty):
                    self.end = latest.last_offset + 1
                    return
                yield header.size

    def _groups(self) -> Iterator[list[Segment]]:
        """Groups of neighbouring segments that fit into one, by their current sizes."""
        with self._lock:
            segments = [s for s in self._segments if s.base_offset < self.end]
            self._check(segments)
            sizes = [self._log.writer.size_of(s) for s in segments]
        group: list[Segment] = []
        group_size = 0
        for segment, size, end in zip(segments, sizes, self._ends, strict=False):
            is_far = group and end - 1 - group[0].base_offset > RELATIVE_MAX
            if group and (group_size + size > self._config.segment_bytes or is_far):
                yield group
                group, group_size = [], 0
            group.append(segment)
            group_size += size
        if group:
            yield group

    def _clean(self, group: Sequence[Segment], cleaner: Cleaner) -> Iterator[int]:
        first = group[0]
        cleaned = Segment(first.path().parent, first.base_offset, OpenFiles(), State.CLEANED)
        with self._lock:
            self._check(group)  # the directory may belong to another log by now
            for kind in SEGMENT_KINDS:  # an earlier attempt may have been interrupted
                self._files.remove(cleaned.path(kind))
            writer = SegmentWriter(cleaned, 0, first.base_offset, self._config, self._files)
            writer.open()
        try:
            modified = 0
            for segment in group:
                records, modified = self._opened(segment)
                keeps_tombstones = modified > self._legacy_horizon
                yield from self._fill(writer, segment, records, cleaner, keeps_tombstones)
            writer.close()
            cleaned.release()
            with self._lock:
                self._check(group)
                self._files.set_modified(cleaned.path(), modified * NANOSECONDS)
                self._log.writer.replace_segments(group, cleaned)
        except BaseException:
            writer.abandon()
            cleaned.release()
            if not self._log.writer.is_closed:  # else the directory may belong to another log
                with suppress(OSError, StorageError):  # recovery removes the rest
                    for kind in SEGMENT_KINDS:
                        self._files.remove(cleaned.path(kind))
            raise

    def _fill(
        self,
        writer: SegmentWriter,
        segment: Segment,
        records: FileRecords,
        cleaner: Cleaner,
        keeps_tombstones: bool,
    ) -> Iterator[int]:
        """Writes the records of a segment that stay. Yields the number of bytes read."""
        with self._lock:
            self._check([segment])
            aborted = {entry.last_offset: entry for entry in segment.aborted()}
        for header in records.batches():
            data = cleaner.clean(records, header, keeps_tombstones=keeps_tombstones)
            if data is not None:
                headers = list(MemoryRecords(data).batches())
                ended = [aborted[h.last_offset] for h in headers if h.last_offset in aborted]
                with self._lock if ended else NO_LOCK:
                    if ended:  # the first one creates the transaction index, see `_clean`
                        self._check([segment])
                    writer.append(data, headers, headers[-1].last_offset + 1, ended)
            yield header.size

    # --- the log, which other threads may change between two steps

    def _check(self, segments: Iterable[Segment] = ()) -> None:
        """Called with the lock held."""
        if self._log.writer.generation != self._generation:
            raise InterruptedPassError("the log was truncated or closed")
        if not all(segment in self._log.segments for segment in segments):
            raise InterruptedPassError("a segment was deleted")

    def _opened(self, segment: Segment) -> tuple[FileRecords, int]:
        """The batches of a segment, and the modification time of its file in milliseconds."""
        with self._lock:
            self._check([segment])
            return segment.slice(0, segment.size), _modified(segment)


def compact(
    log: Log,
    config: LogConfig,
    *,
    now: int,
    up_to: int | None = None,
    buffer_size: int = BUFFER_SIZE,
    files: Files | None = None,
) -> CompactionCount:
    """Keeps the last record of each key before the active segment and the last stable offset. `now`
    is in milliseconds. Makes as many passes as needed, even if the log is not due."""
    total = CompactionCount()
    while True:
        part = cleanable(log, config, now, up_to)
        one = Compaction(log, config, part, now=now, buffer_size=buffer_size, files=files)
        with closing(one):
            while one.step(part.clean_bytes + part.dirty_bytes + 1):
                pass
        total.add(one.count)
        if one.end >= part.end:
            return total


def _modified(segment: Segment) -> int:
    return segment.path().stat().st_mtime_ns // NANOSECONDS
