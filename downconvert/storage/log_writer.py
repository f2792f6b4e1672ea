"""Writes one partition's log: appends, rolls, flushes, truncates, removes and replaces segments.

Flushed data survives any crash. A crash may cut off unflushed batches at the end. A change of
several files is made in an order that leaves a valid log after each step: files are created before
anything refers to them, and removed from the end that nothing depends on.

Not here: the log's view (local_log.py), the active segment's files (segment_writer.py), the other
segments' files (segment_directory.py), finding old segments (retention.py)."""

from collections.abc import Sequence
from typing import Final

from records import BatchHeader, MemoryRecords
from records.kernel import Buffer
from records.logged import log_of

from .errors import StorageError
from .local_log import LocalLog
from .segments.appended import check_appended, first_offset
from .segments.segment import Segment
from .segments.tail import Tail

LOG: Final = log_of(__name__)


class LogWriter(LocalLog):
    """A log that this process changes."""

    def begin(self) -> None:
        """Makes the log ready for appends, after its recovery."""
        if self.start_offset > self.end_offset:
            self.truncate_fully_and_start_at(self.start_offset)
        self.flush()
        if len(self.recovery.checked) > 1:  # the next recovery need not read these segments again
            self._checkpoints.raise_recovery_point(self.flushed_offset)

    # --- appending

    def append(
        self, data: Buffer, now: int | None = None, headers: Sequence[BatchHeader] | None = None
    ) -> int:
        """Appends batches that have their offsets. Returns the offset after them.

        CorruptRecordsError: they are damaged, incomplete, or not above the log's end. `now` is the
        age of records without timestamps, for rolling by time. `headers`: those of all batches, if
        their checksums have been compared."""
        active = self.active
        self._guard.check(active)
        headers, following = check_appended(data, active.next_offset, headers)
        if not headers:
            return following
        if len(data) > self.config.segment_bytes:
            raise ValueError(f"an append of {len(data)} bytes is larger than a segment may be")
        if active.is_due(headers, len(data), following, now):
            rolled = active.segment
            self.roll(first_offset(headers, active.next_offset))
            LOG.info(
                "%s: a new segment begins at offset %d (segment.bytes)",
                self.path.name,
                self.active.segment.base_offset,
                extra={"fields": {"partition": self.path.name, "bytes": rolled.size}},
            )
        self._epochs.add(headers)
        for header in headers:
            if header.producer_id >= 0:
                self.producers_at_end()  # their states before these batches
                with self._producers.following(MemoryRecords(data), headers) as aborted:
                    self.active.append(data, headers, following, aborted, now)
                return following
        self.active.append(data, headers, following, (), now)
        if self._producers.offset is not None:  # their states have been needed
            self._producers.offset = following
        return following

    def begin_epoch(self, epoch: int) -> None:
        """Begins a leader epoch for the following records. An epoch without records is removed.

        Ignores an epoch that is not above the last one."""
        self._epochs.begin(epoch, self.end_offset)

    def flush(self) -> None:
        """Returns when all appended data is synced."""
        self._guard.check(self.active)
        self.active.flush()
        self.flushed_offset = self.end_offset

    def release(self) -> None:
        """Flushes, and closes the files. They are opened again for the next write."""
        if self.active.is_open or self.flushed_offset < self.end_offset:
            self.flush()
            self.active.release()

    def roll(self, base_offset: int = 0) -> None:
        """Begins a new segment, unless the active one is empty and begins there already.

        All appended data is flushed first, and the recovery point is written. After a crash only
        later data is read again."""
        base_offset = max(base_offset, self.end_offset)
        if base_offset == self.active.segment.base_offset:
            return
        # The old segment is synced before the new one exists. Else a crash may leave a gap.
        self.flush()
        if self._checkpoints.recovery_point >= base_offset:  # as after a truncation to that offset
            # Else recovery would take the old segment's indexes for finished.
            self._checkpoints.set_recovery_point(self.active.segment.base_offset)
        self._write_snapshot(base_offset)
        segment = Segment(self.path, base_offset, self._open_files)
        try:
            following = self._open_segment(segment, 0, base_offset)
            self._directory.sync()
            try:
                self.active.close()
            except (OSError, StorageError):
                following.abandon()
                raise
        except (OSError, StorageError):
            self._directory.remove_files(segment)
            raise
        self.active = following
        self.segments.add(segment)
        self.flushed_offset = base_offset
        self._checkpoints.raise_recovery_point(self.flushed_offset)
        self._start.note_if_there_is_room()

    def close(self) -> None:
        """Flushes everything, and leaves the directory in the state of a clean shutdown.

        DiskFullError, or another OSError: files are closed all the same, and the log is recovered
        at the next start."""
        is_changed = self.generation or self.end_offset != self._opened_at
        self.generation += 1
        self.is_closed = True
        try:
            self.flush()  # first, because it needs no space
            if is_changed or self.end_offset not in self.snapshots:
                self._write_snapshot(self.end_offset)
            self.active.close()
            self._start.note()
            self._epochs.flush()
            self._checkpoints.set_recovery_point(self.flushed_offset)
        except BaseException:
            self.active.abandon()
            raise
        finally:
            for segment in self.segments:
                segment.release()

    def abandon(self) -> None:
        """Closes all files, and leaves the directory unchanged."""
        self.generation += 1
        self.is_closed = True
        self.active.abandon()
        for segment in self.segments:
            segment.release()

    # --- removing

    def truncate_to(self, offset: int) -> None:
        """Removes every batch with a record at or above `offset`, and every epoch from there on.

        ValueError: the offset is before the log. DiskFullError: the call may be repeated."""
        self._guard.check(self.active)
        if offset >= self.end_offset:
            # An epoch without records may begin at the end.
            self._epochs.truncate_from_end(offset)
            return
        if offset < self.start_offset:
            raise ValueError(f"truncation to {offset}, before the start at {self.start_offset}")
        self.generation += 1
        self._checkpoints.lower_cleaner_point(offset)
        # This comes first: later data from there on must not count as flushed.
        self.flushed_offset = min(self.flushed_offset, offset)
        self._checkpoints.set_recovery_point(
            min(self.flushed_offset, self._checkpoints.recovery_point)
        )
        try:
            while self.active.segment.base_offset > offset and len(self.segments) > 1:
                self._drop_active()
            self._directory.sync()  # else removed segments might come back after a crash
            self.active.truncate_to(offset)
            self.flushed_offset = min(
                self.flushed_offset, self.end_offset
            )  # whole batches were removed
            if self.end_offset < self.start_offset:  # the start was within a removed batch
                self.truncate_fully_and_start_at(self.start_offset)
        finally:
            self._forget_after_end()

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Removes everything. The next record will be at `offset`."""
        self._guard.check(self.active)
        self.generation += 1
        self._checkpoints.lower_cleaner_point(0)
        self.flushed_offset = 0
        self._checkpoints.set_recovery_point(0)
        self._directory.remove_snapshots(above=-1)  # they describe offsets before the new start
        while len(self.segments) > 1:
            self._drop_active()
        self._directory.sync()
        old = self.active
        old.truncate_to(old.segment.base_offset)
        self._producers.truncate_fully_and_start_at(offset)  # before steps that need space
        self._epochs.truncate_from_end(0)
        if old.segment.base_offset != offset:
            segment = Segment(self.path, offset, self._open_files)
            self.active = self._open_segment(segment, 0, offset)
            old.abandon()
            self._directory.remove_or_fence(old.segment)
            self.segments.add(segment)
            self._directory.sync()
        self.flushed_offset = offset
        self._start.move(offset)
        self._start.note()

    def delete_records(self, before: int) -> int:
        """Moves the start of the log up to `before`, or to the log's end if that is lower.

        Segments completely before it are removed. Returns the new start. This works on a full disk:
        changes that need space come last, or later (log_start.py)."""
        self._guard.check(self.active)
        start = min(before, self.end_offset)
        if start > self.start_offset:
            self._start.move(start)
            for segment in list(self.segments):
                following = self.segments.after(segment)
                if following is None or following.base_offset > start:
                    break
                self._directory.remove(segment)
            self._directory.sync()
            self._start.note_if_there_is_room()
        return self.start_offset

    def remove_oldest(self, segments_count: int) -> None:
        """Removes segments from the beginning. If none would be left, rolls a new one first."""
        self._guard.check(self.active)
        if segments_count >= len(self.segments):
            self.roll()
            segments_count = min(segments_count, len(self.segments) - 1)
        for _ in range(segments_count):
            oldest = self.segments[0]
            self._start.offset = max(self.start_offset, self.segments[1].base_offset)
            self._directory.remove(oldest)
        self._directory.sync()

    def replace_segments(self, group: Sequence[Segment], cleaned: Segment) -> None:
        """Replaces neighbouring segments, none of them the active one, by one `cleaned` segment.

        Its files have the suffix `.cleaned`, and are flushed. DiskFullError: the log is valid, with
        the old records or the new ones."""
        self._guard.check(self.active)
        self._directory.replace(group, cleaned)

    # --- details

    def _drop_active(self) -> None:
        """Makes the segment before the active one the active one."""
        last = self.active
        previous = self.segments[len(self.segments) - 2]
        tail = Tail(previous)
        tail.advance()
        self.active = self._open_segment(previous, tail.position, tail.next_offset)
        last.abandon()
        self._directory.remove_or_fence(last.segment)

    def _forget_after_end(self) -> None:
        end = self.end_offset
        self._directory.remove_snapshots(above=end)
        self._producers.forget()
        self.producers_at_end()
        self._epochs.truncate_from_end(end)
