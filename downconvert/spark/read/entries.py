"""Reads the entries of a split one after another. Continues after damage, and after the last entry
of a segment that ends too early.

After an unreadable entry, reading continues at the end that its size states, or at a nearer index
entry. Splits begin at index entries, so the result does not depend on how a segment is split.
Damaged or missing offsets are read from other copies of the log. Offsets that no copy has are
reported.

Not here: the contents of an entry (rows.py, batches.py)."""

import warnings
from collections.abc import Callable, Generator, Iterator
from contextlib import suppress
from dataclasses import replace
from itertools import chain
from struct import Struct
from typing import Any, Final, TypeAlias

import pyarrow as pa

from downconvert.spark.errors import CorruptSegmentError, MissingOffsetsError
from downconvert.spark.logs.compacted import cleaned_until, is_indexed_beyond
from downconvert.spark.logs.completeness import (
    State,
    Stretch,
    is_last,
    is_unwritten,
    stretches_of_copies,
)
from downconvert.spark.logs.opening import OpenedSegment, opened
from downconvert.spark.logs.resuming import Resuming
from downconvert.spark.logs.splits import Split
from downconvert.spark.options.options import Mode, Options
from downconvert.storage.names import OFFSET_MAX
from downconvert.storage.producers.transactions import AbortedRanges
from downconvert.storage.segments.rising import NOT_RISING, counted, fitting
from records import BatchHeader, CorruptRecordsError, Records
from records.checksum import MISMATCH, verify_checksum
from records.formats import BATCH_HEADER_SIZE

from .checksums import is_sound

Read: TypeAlias = Callable[[Split], Iterator[Any]]


class Entries:
    """The entries of a split; `position` is the next byte to read."""

    def __init__(self, split: Split, options: Options, read: Read) -> None:
        """`read`: reads record batches of a split of another copy of the log.

        FileNotFoundError: the segment is gone. SegmentChangedError: it was cleaned or cut."""
        self._read = read
        self._is_reported = False  # whether offsets missing after the segment's end are reported
        # where reading last continued after damage: the position, and its offset if that is known
        self._resumed: tuple[int, int | None] = (-1, None)
        self.misplaced = -1  # the position of an entry with offsets that do not rise
        self._misplaced_from: int | None = None  # the offset at which it begins; None: not known
        self._opened: OpenedSegment = opened(split)
        self.size = self._opened.records.size
        self.split = split
        self.options = options
        self.aborted = AbortedRanges(split.aborted)
        self.position = self._before = self._opened.start
        self.end = self._end = self._opened.end  # the last entry may extend beyond it
        self.records: Records = self._opened.records
        self.path = self.records.name

    def close(self) -> None:
        self._opened.close()

    def move_to(self, position: int) -> None:
        """Moves `position` to the beginning of a later entry."""
        if position != self.position:
            self._before, self.position = self.position, position

    def header(self, position: int) -> BatchHeader | None:
        """The header of the entry there; None: it is incomplete, as at the end of a log."""
        window = bytearray(min(BATCH_HEADER_SIZE, self.size - position))
        read = self.records.read_into(memoryview(window), position)
        if read < len(window):
            return None
        try:
            header = BatchHeader.parse(window, 0, position)
        except ValueError:
            return None
        return header if header.position + header.size <= self.size else None

    def is_torn(self) -> bool:
        """Whether the entry at `position`, which extends beyond the end, is damaged, because other
        entries or segments follow it. Otherwise it is the current end of the log."""
        if self.position >= self.size:
            return False
        return not is_last(self.split.segment) or self._boundary(self.position + 1) is not None

    def verify(self, header: BatchHeader, held: memoryview) -> None:
        """CorruptRecordsError: checksums are verified, and this one is wrong.

        `held`: the entry's bytes. If some are missing, they are read."""
        if not self.options.verify_crc:
            return
        if len(held) < header.size:
            verify_checksum(self.records, header)
        elif not is_sound(held):
            raise CorruptRecordsError(MISMATCH, header.position)

    def fill(self, view: memoryview, size: int) -> int:
        """Reads up to `size` bytes from `position` on, followed by the offset of the next entry.
        After the last entry, writes a bound there, below which the entry's offsets must be. Returns
        the number of bytes read, without that offset. `view` has room for both."""
        wanted = min(size, self.end - self.position)
        read = self.records.read_into(view[: wanted + OFFSET.size], self.position)
        if read < wanted + OFFSET.size:
            read = min(read, wanted)
            OFFSET.pack_into(view, read, self.split.segment.offset_max)
        return read

    def misplace(self, position: int, start: int | None = None) -> None:
        """Notes that the entry at a position has a wrong offset. `start`: the right one, by the
        entry before it; None: not known."""
        self.misplaced, self._misplaced_from = position, start

    def check_place(self) -> None:
        """CorruptRecordsError: the entry at `position` was found to be misplaced."""
        if self.position == self.misplaced:
            raise CorruptRecordsError(NOT_RISING, self.position)

    def recover(self, damage: CorruptRecordsError, schema: Any) -> Iterator[Any]:
        """Handles damage in the entry at `position`, and moves `position` to the entry where
        reading continues.

        Yields the lost records, from other copies. With mode PERMISSIVE it also yields a record
        batch of one row, which reports the offsets that no copy has. CorruptSegmentError with
        FAILFAST."""
        self.end, entry = self._end, self.position
        if is_last(self.split.segment) and self._is_unwritten(entry):
            self.position = self.end
            return
        start = self.start_of(entry)
        following, end = self._resuming().after(entry, start)
        lost = self._lost(start, following, end)
        state = self._state_of(entry, following)
        valid_until = self.split.segment.valid_until
        if lost is not None and lost[1] > valid_until:
            # From `valid_until` on, nothing belongs to this log. `after_last` handles the rest.
            following, lost = self.size, (min(lost[0], valid_until), valid_until)
        if lost is not None and lost[0] >= self.split.end_offset:
            self.position = self.end = self.size  # none of the split's records are left
            self._is_reported = True
            return
        if lost is not None:
            lost = max(lost[0], self.split.first_offset), lost[1]
        absent: list[tuple[int, int] | None] = [lost]
        if lost is not None and lost[0] >= lost[1]:
            self._continue_at(following, lost)  # none of the lost records is wanted
            return
        if self.split.copies and lost is not None:
            first, last = lost
            absent = yield from self._from_copies(first, min(last, self.split.end_offset))
            if not absent:
                self._continue_at(following, lost)
                return
        if self.options.mode is Mode.FAILFAST:
            raise CorruptSegmentError(self.path, damage)
        self._continue_at(following, lost)
        for one in absent:
            offsets = _offsets(one)
            if following is None:
                left = f"{offsets}; nothing after it in this segment can be read"
            else:
                left = f"; reading goes on at byte {following}{offsets}"
            yield from self._report(entry, f"{damage}{left}", one, state, schema)

    def after_last(self, schema: Any) -> Iterator[Any]:
        """Handles offsets between the last entry of a segment and the next segment, if the split
        reads the last entry.

        Yields as `recover` does. MissingOffsetsError with FAILFAST."""
        split, file = self.split, self.split.segment
        if is_last(file) or self._is_reported:
            return
        if split.is_followed and self._end < self.size:
            return
        if split.is_cut and self._opened.start >= self.size:
            return  # the previous split reads up to the end: there is no boundary in between
        until = min(file.next_offset, split.end_offset)
        if until <= split.first_offset:
            return
        position, after = self._resumed
        if position < self.size or after is None:
            known, reached = self._offset_after(self._before, self.size, until)
            # Otherwise the offsets of that entry are not the segment's.
            after = known if reached > self._before else self.start_of(self._before) or known
        is_superseded = after >= file.valid_until
        after = min(after, file.valid_until)
        start = max(after, split.first_offset)
        if start >= until:
            return
        absent = yield from self._from_copies(start, until)
        if not absent:
            return
        known = cleaned_until(file, after, self.records)
        for first, last in ((max(first, known), last) for first, last in absent if last > known):
            follows = "the next segment begins at"
            if file.is_disputed:
                follows = "another copy, which a later leader may have truncated, at"
            what = (
                f"{split.topic}-{split.partition}: offsets {first} up to {last} are missing: "
                f"{self.path} ends at {after}, and {follows} {file.next_offset}"
            )
            if self.options.mode is Mode.PERMISSIVE:
                is_cut = not is_superseded and is_indexed_beyond(file, after)
                state = State.TORN if is_cut else State.MISSING
                yield from self._report(self.size, what, (first, last), state, schema)
            elif not self.options.fail_on_data_loss:
                warnings.warn(what, RuntimeWarning, stacklevel=2)
            elif self.options.mode is Mode.FAILFAST:
                raise MissingOffsetsError(what)

    def _from_copies(self, start: int, end: int) -> Generator[Any, None, list[Any]]:
        """Yields records of these offsets from other copies; returns the offsets that no copy
        has."""
        absent: list[Any] = []
        for piece in stretches_of_copies(self.split, start, end):
            if piece.state is State.WHOLE:
                yield from self._read(_split_of(piece, self.split))
            elif piece.state is State.MISSING:
                absent.append((piece.start, piece.end))
        return absent

    def _continue_at(self, following: int | None, lost: tuple[int, int] | None) -> None:
        self.position = self.size if following is None else following
        is_superseded = lost is not None and lost[1] == self.split.segment.valid_until
        self._is_reported = self.position >= self.size and not is_superseded
        self._before = self.position
        self._resumed = self.position, None if lost is None else lost[1]

    def _lost(
        self, start: int | None, following: int | None, own_end: int | None
    ) -> tuple[int, int] | None:
        """The offsets from `start` on that damage before the entry at `following` makes unreadable;
        None: not known. `own_end`: their end by the damaged headers."""
        file = self.split.segment
        end: int | None = file.next_offset
        if following is not None and following < self.size:
            end = self._resuming().base_offset(following)
            if end is None:
                end = own_end
        elif following is not None and is_last(file):
            end = own_end
            if end is not None:  # other copies may go on
                pieces = stretches_of_copies(self.split, end, OFFSET_MAX)
                end = max((end, *(one.end for one in pieces if one.state is State.WHOLE)))
        elif start is not None:  # the next segment, or a later copy, may go on before the damage
            end = max(start, file.next_offset)
        if start is None or end is None:
            return None
        end = min(end, max(start, file.offset_max))
        is_known = start < end or self.split.end_offset <= start == end
        return (start, end) if is_known else None

    def start_of(self, entry: int) -> int | None:
        """The offset at which an entry begins, by the entries before it; None: not known."""
        if entry == self._resumed[0] and self._resumed[1] is not None:
            return self._resumed[1]
        if entry == self.misplaced and self._misplaced_from is not None:
            return self._misplaced_from
        if not entry:
            return self.split.segment.base_offset
        indexed = (self._opened.boundaries().before_position(at) for at in [entry - 1])
        for begin in chain((self._before, self._resumed[0], self.split.start, 0), indexed):
            if 0 <= begin < entry:
                after, end = self._offset_after(begin, entry)
                if end == entry:
                    return after
        return self._resuming().base_offset(entry)

    def _offset_after(self, near: int, end: int, until: int = OFFSET_MAX) -> tuple[int, int]:
        """The offset after the last complete entry that ends at or before `end` and has offsets of
        this segment. Also the position after that entry; `near` if there is none. Looks no further
        than the offset `until`."""
        after, reached = self.split.segment.base_offset, near
        with suppress(CorruptRecordsError):
            headers = counted(self.records.slice(near, self.size - near))
            for header in fitting(headers, self.split.segment.base_offset):
                position = near + header.position + header.size
                if position > end or header.base_offset >= self.split.segment.offset_max:
                    break
                after, reached = header.last_offset + 1, position
                if after >= until:
                    break
        return after, reached

    def _state_of(self, entry: int, following: int | None) -> State:
        """Whether an entry is cut off (TORN) or damaged."""
        is_cut = False
        if following is None:
            with suppress(CorruptRecordsError):
                is_cut = self.header(entry) is None
        return State.TORN if is_cut else State.DAMAGED

    def _report(
        self,
        position: int,
        reason: str,
        lost: tuple[int, int] | None,
        state: State,
        schema: Any,
    ) -> Iterator[Any]:
        column = self.options.corrupt_column
        if self.options.mode is Mode.PERMISSIVE and column in schema.names:
            start, end = (None, None) if lost is None else lost
            report: dict[str, Any] = {"segment": self.path, "position": position}
            report |= {"reason": reason, "state": state.value}
            report |= {"startOffset": start, "endOffset": None if end == OFFSET_MAX else end}
            yield self._row({column: report}, schema)

    def _row(self, known: dict[str, Any], schema: Any) -> Any:
        """A row with only the partition and these columns set."""
        known |= {"topic": self.split.topic, "partition": self.split.partition}
        arrays = [pa.array([known.get(field.name)], field.type) for field in schema]
        return pa.RecordBatch.from_arrays(arrays, schema=schema)

    def _resuming(self) -> Resuming:
        return Resuming(
            self.records,
            self._opened.boundaries(),
            self.split.segment.offset_max,
            size_max=self.options.max_record_bytes,
            verify=self.options.verify_crc,
        )

    def _boundary(self, position: int) -> int | None:
        return self._opened.boundaries().from_position(position)

    def _is_unwritten(self, position: int) -> bool:
        return is_unwritten(self.records, position) and self._boundary(position + 1) is None


def _split_of(piece: Stretch, split: Split) -> Split:
    """A split of another copy with these offsets, which were verified already."""
    assert piece.segment is not None
    file = replace(piece.segment, next_offset=OFFSET_MAX)
    return replace(
        split,
        segment=file,
        start=piece.first,
        end=piece.last,
        first_offset=piece.start,
        end_offset=piece.end,
        is_cut=False,
        is_verified=True,
        copies=(),
    )


def _offsets(lost: tuple[int, int] | None) -> str:
    if lost is None:
        return ""
    start, end = lost
    return f"; offsets from {start} " + ("on" if end == OFFSET_MAX else f"up to {end}")


RUNS_PAST: Final = "entry runs past the end of its segment"
OFFSET: Final = Struct(">q")
