"""Follows the producers of a log through its batches, from the nearest snapshot of their state.

Not here: the effect of a batch on a producer's state (producer_state.py)."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from operator import attrgetter
from pathlib import Path
from typing import Final

from downconvert.storage.errors import CorruptFileError, StorageError
from downconvert.storage.indexes.transaction_index import AbortedTransaction
from downconvert.storage.names import Kind, file_name
from downconvert.storage.segments.segment import Segment
from downconvert.storage.segments.segments import Segments
from records import BatchHeader, CorruptRecordsError, Records

from .producer_state import ProducerStates, read_marker, read_snapshot

PRODUCER_ID: Final = attrgetter("producer_id")


class Producers:
    """The producers' states at `offset`; `aborted` are the aborted transactions seen so far."""

    __slots__ = ("_path", "aborted", "offset", "states")

    def __init__(self, path: Path) -> None:
        self._path = path
        self.offset: int | None = None
        self.states = ProducerStates()
        self.aborted: list[AbortedTransaction] = []

    def follow(self, records: Records, header: BatchHeader) -> AbortedTransaction | None:
        """Applies the next batch. Returns the transaction that it aborts."""
        if self.offset is not None or header.producer_id >= 0:
            self.offset = header.last_offset + 1
        if header.producer_id < 0:
            return None
        try:
            marker = read_marker(records, header)
        except CorruptRecordsError:
            # An unreadable marker ends nothing. A reader of the records gets the error.
            marker = None
        return self.states.update(header, marker)

    @contextmanager
    def following(
        self, records: Records, headers: Sequence[BatchHeader]
    ) -> Iterator[list[AbortedTransaction]]:
        """Applies batches, and yields the transactions that they abort. If the block that appends
        them fails, restores the earlier states."""
        states, offset = self.states, self.offset
        before = states.of(header.producer_id for header in headers)
        try:
            entries = [self.follow(records, header) for header in headers]
            yield [entry for entry in entries if entry is not None]
        except (OSError, StorageError):
            states.restore(before)
            self.offset = offset
            raise

    def forget(self) -> None:
        """Call this if the log may have changed. The next `advance` begins at a snapshot again."""
        self.states, self.offset, self.aborted = ProducerStates(), None, []

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Removes all producers, because the log has nothing before `offset`."""
        self.forget()
        self.offset = offset

    def advance(
        self,
        offset: int,
        segments: Segments,
        end_of: Callable[[Segment], int],
        snapshots: list[int],
    ) -> None:
        """Moves to `offset`, from the current offset or, if that is later, from a snapshot.

        Only offsets are compared. Call `forget` first if the log was truncated, or segments were
        replaced."""
        if self.offset is None or self.offset > offset:
            self._start(offset, snapshots)
        start = self.offset or 0
        if start == offset:
            return
        for segment in segments.starting_at(start):
            if segment.base_offset >= offset:
                break
            records = segment.slice_from(start, end_of(segment))
            try:
                for header in records.batches():
                    if header.base_offset >= offset:
                        break
                    if header.last_offset >= start:
                        entry = self.follow(records, header)
                        if entry is not None:
                            self.aborted.append(entry)
            except CorruptRecordsError:  # a reader gets the error; the segment's rest is lost
                continue
        self.offset = offset

    def _start(self, offset_max: int, snapshots: list[int]) -> None:
        self.aborted = []
        for offset in reversed(snapshots):
            if offset <= offset_max:
                try:
                    self.states = read_snapshot(self._path / file_name(offset, Kind.SNAPSHOT))
                except (CorruptFileError, FileNotFoundError):
                    continue
                self.offset = offset
                return
        self.states, self.offset = ProducerStates(), 0
