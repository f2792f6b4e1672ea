"""Finds which offsets of a partition its copies have, and which no copy has.

All copies of a partition form one log. Offsets that one copy lacks are read from another, if their
leader epochs agree. The remaining gaps are reported by offset: nothing is left out silently.

Not here: what a cleaner has removed (compacted.py), which copies there are (trees.py, replicas.py),
reading them (rows.py, batches.py)."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from enum import StrEnum
from typing import Final, NamedTuple

from downconvert.storage.checkpoints.checkpoint import EpochEntry
from downconvert.storage.names import OFFSET_MAX
from downconvert.storage.segments.rising import NOT_RISING, Rising, counted, goes_beyond, limit_of
from records import BatchHeader, CorruptRecordsError, Records, RecordsError
from records.batch import NONE
from records.checksum import verify_checksum
from records.files.source import TRUNCATED
from records.formats import ENTRY_HEAD_SIZE

from .boundaries import first_offset, header_at
from .compacted import cleaned_until
from .opening import OpenedSegment, opened
from .resuming import Resuming
from .segment_files import PartitionLog, SegmentFile
from .splits import Split, whole_file

ZEROS_AT_ONCE: Final = 1024 * 1024


class State(StrEnum):
    """The state of a range of offsets in the copies of a partition."""

    WHOLE = "whole"
    COMPACTED = "compacted"  # a cleaner has removed them
    TORN = "torn"  # a copy of a file ends there
    DAMAGED = "damaged"
    MISSING = "missing"  # unknown whether they ever existed
    SUPERSEDED = "superseded"  # a copy has them, but a later leader has truncated them


class Stretch(NamedTuple):
    """The offsets from `start` up to `end`, in one leader epoch (-1: not known), and their
    positions in a segment's log, in bytes. `after`: the offset after their last batch, which may go
    beyond `end`."""

    start: int
    end: int
    state: State
    epoch: int = NONE
    segment: SegmentFile | None = None
    first: int = 0
    last: int = 0
    after: int = 0


def is_last(file: SegmentFile) -> bool:
    """Whether no following segment is known. Then an incomplete batch, or zeros up to the end of
    the file, are the end of the log."""
    return file.next_offset == OFFSET_MAX


def other_segments(log: PartitionLog, file: SegmentFile) -> tuple[SegmentFile, ...]:
    """The segments that may have offsets that `file` lacks: segments of other copies, and the
    preceding one of this log, because a cleaner may have merged `file` into it."""
    found = [
        one
        for other in log.others
        for one in other.segments
        if one.base_offset < file.next_offset and file.base_offset < one.next_offset
    ]
    at = bisect_left(log.segments, file.base_offset, key=lambda one: one.base_offset)
    if at and not log.segments[at - 1].is_clipped:
        before = log.segments[at - 1]
        found.append(replace(before, next_offset=OFFSET_MAX, merged_at=before.next_offset))
    return tuple(found)


def whole_split(log: PartitionLog, file: SegmentFile) -> Split:
    """A split of a whole segment, with the segments that may have the offsets that it lacks."""
    copies = other_segments(log, file)
    return Split(
        *log.topic_partition,
        file,
        0,
        file.size,
        file.base_offset,
        file.next_offset,
        copies=copies,
        epochs=log.epochs if copies else (),
    )


def is_unwritten(records: Records, position: int) -> bool:
    """Whether only zeros follow, as in a preallocated file."""
    with suppress(CorruptRecordsError):  # bytes that cannot be read may be anything
        return _is_zero(records, position)
    return False


def _is_zero(records: Records, position: int) -> bool:
    head = bytearray(min(ENTRY_HEAD_SIZE, records.size - position))
    records.read_into(memoryview(head), position)
    if any(head):
        return False
    block = bytearray(min(ZEROS_AT_ONCE, records.size - position))
    while position < records.size:
        read = records.read_into(memoryview(block)[: records.size - position], position)
        if not read or block.count(0, 0, read) != read:
            return False
        position += read
    return True


def is_damaged_after(file: SegmentFile, offset: int) -> bool:
    """Whether a log is damaged at its end. A cut-off batch or zeros are no damage if no batch
    follows them. `offset`: the log's end offset. Reading begins shortly before it.

    FileNotFoundError: the segment is gone. SegmentChangedError, StoreError."""
    with closing(opened(whole_file(file, offset))) as found:
        records, start = found.records, found.boundaries().before_offset(offset)
        end, is_cut, rising, lost = start, True, Rising(file.base_offset), 0
        try:
            for header in counted(records.slice(start, records.size - start)):
                if start and not header.position:  # the index confirms this batch's offset
                    rising = Rising(header.base_offset)
                fits = rising.add(header)
                lost = 0 if fits else lost + header.last_offset - header.base_offset + 1
                is_cut = rising.after + lost <= offset or fits  # else it may be beyond the end
                end = start + header.position + header.size if is_cut else end
        except CorruptRecordsError:
            is_cut = is_unwritten(records, end)
        return end < records.size and (
            not is_cut or found.boundaries().from_position(end + 1) is not None
        )


def behind_damage(file: SegmentFile, end: int) -> Iterator[Stretch]:
    """The readable offsets of a damaged segment from `end` on, where its damage begins."""
    return (one for one in scan(file, end, OFFSET_MAX) if one.state is State.WHOLE)


def last_readable(whole: Split, start: int) -> Stretch | None:
    """The last readable offsets of a log from `start` on, where its last segment is damaged: behind
    the damage or in another copy. None: there are none. `whole`: the whole last segment.

    Errors as those of `scan`."""
    pieces = [*behind_damage(whole.segment, start), *stretches_of_copies(whole, start, OFFSET_MAX)]
    found = (one for one in pieces if one.state is State.WHOLE)
    return max(found, key=lambda one: one.end, default=None)


def scan(
    file: SegmentFile, start: int, end: int, copy_of: Sequence[EpochEntry] | None = None
) -> Iterator[Stretch]:
    """The offsets from `start` up to `end` that a segment has, in order, by batch headers and
    checksums. Offsets that a cleaner has removed between two batches count as present.

    `copy_of`: the leader epochs of the log, if the segment belongs to another copy of it. In a
    copy, nothing confirms the offset of the log's last batch. So that batch does not count after a
    gap that no cleaner has made. If the log has a batch of the copy, it also has the one before it,
    whose epoch may be wrong: no checksum covers it.

    FileNotFoundError: the segment is gone. SegmentChangedError, StoreError."""
    with closing(opened(whole_file(file, start, end))) as found:
        position = found.boundaries().before_offset(start)
        end = min(end, file.next_offset)
        yield from _scanned(file, found, position, start, end, copy_of)


class _Found:
    """The readable offsets that a scan has found and not yielded yet: from `start` up to `after`,
    in batches of one leader epoch, at the positions from `first` to `last`."""

    __slots__ = ("_end", "_file", "after", "epoch", "first", "last", "start")

    def __init__(self, file: SegmentFile, position: int, start: int, end: int) -> None:
        self._file, self._end = file, end
        self.start, self.after = max(start, file.base_offset), file.base_offset
        self.first = self.last = position
        self.epoch = NONE

    def taken(self) -> Iterator[Stretch]:
        """Yields them, if there are any. The next ones begin after them."""
        if self.start < (end := min(self.after, self._end)):
            place = self._file, self.first, self.last, self.after
            yield Stretch(self.start, end, State.WHOLE, self.epoch, *place)
        self.start = max(self.start, self.after)

    def add(self, header: BatchHeader, epoch: int) -> None:
        self.epoch, self.last = epoch, header.position + header.size
        self.after = header.last_offset + 1


def _scanned(
    file: SegmentFile,
    segment: OpenedSegment,
    position: int,
    start: int,
    end: int,
    copy_of: Sequence[EpochEntry] | None,
) -> Iterator[Stretch]:
    records, is_copy, epochs = segment.records, copy_of is not None, copy_of or ()
    found = _Found(file, position, start, end)
    indexed_at = position or NONE  # an index entry leads there and confirms the batch's offset
    while position < records.size and found.after < end:
        try:
            header, following, limit = _checked(
                file, records, found, position, position == indexed_at
            )
        except CorruptRecordsError:
            yield from found.taken()
            following = _after(segment, position, found.after, file.offset_max)
            if following is None:
                break
            position = found.first = following.position
            found.after = first_offset(records, following)
            if found.start < found.after < end:
                yield Stretch(found.start, found.after, State.DAMAGED, found.epoch, file)
            found.start = max(found.start, found.after)
            continue
        if header.base_offset >= file.offset_max:
            position = records.size  # the next segment has this batch, or its offset is wrong
            break
        if is_copy and limit == OFFSET_MAX and (gap := first_offset(records, header)) > found.after:
            yield from found.taken()
            if found.start < (until := min(gap, end, file.cleaned)):
                yield Stretch(found.start, until, State.COMPACTED, NONE, file)
            if gap > file.cleaned and position != indexed_at:
                return
            found.start, found.first = max(found.start, min(gap, end)), position
        epoch = min(header.leader_epoch, file.epoch_max)
        if following is not None and _is_of(following, epochs):
            epoch = _epoch_at(header.last_offset, epochs)
        if header.last_offset < found.start:
            found.first = position + header.size
        elif found.start < found.after and epoch != found.epoch:
            yield from found.taken()
            found.first = position
        found.add(header, epoch)
        position += header.size
    yield from found.taken()
    if position == records.size and found.start < end and not is_last(file) and not file.is_clipped:
        until = min(end, cleaned_until(file, found.after))
        if found.start < until:
            yield Stretch(found.start, until, State.COMPACTED, NONE, file)


def _checked(
    file: SegmentFile, records: Records, found: _Found, position: int, is_indexed: bool
) -> tuple[BatchHeader, BatchHeader | None, int]:
    """The headers of the batch at a position and of the next one, and the offset that the batch's
    offsets stay below. `is_indexed`: an index entry confirms its offset.

    CorruptRecordsError: its bytes are damaged, or its offset does not fit."""
    header = _batch_at(records, position)
    following = header_at(records, position + header.size)
    # Before a gap, a batch may have more offsets than its header says.
    is_before_gap = following is None or following.base_offset > found.start
    if header.last_offset >= found.start or is_before_gap:
        verify_checksum(records, header)
    limit = limit_of(header, following, min(file.offset_max, file.merged_at))
    is_beyond = goes_beyond(header, found.after, limit)
    if is_indexed:  # it may still seem to go on in the next segment
        is_wrong = following is None and is_beyond
    else:
        is_wrong = header.base_offset < found.after or is_beyond
    if is_wrong:
        raise CorruptRecordsError(NOT_RISING, position)
    return header, following, limit


def _batch_at(records: Records, position: int) -> BatchHeader:
    """The header of the batch at a position. CorruptRecordsError: damaged or cut off."""
    header = next(records.slice(position, records.size - position).batches(), None)
    if header is None:
        raise CorruptRecordsError(TRUNCATED, position)
    return header._replace(position=position)


def _after(found: OpenedSegment, position: int, after: int, offset_max: int) -> BatchHeader | None:
    """The next readable batch after a damaged one, with a fitting offset; None: not known."""
    resuming = Resuming(found.records, found.boundaries(), offset_max)
    at = resuming.after(position, after).position
    while at is not None and at < found.records.size:
        following = header_at(found.records, at)
        if following is not None and following.base_offset >= after:
            return following
        at = resuming.after(at, after).position
    return None


def stretches_of_copies(split: Split, start: int, end: int) -> list[Stretch]:
    """The offsets from `start` up to `end` in other copies of a split's log, in order: stretches of
    the copies' segments, and stretches that no copy has."""
    found: list[Stretch] = []
    cleaned: list[Stretch] = []
    others = [one for one in split.copies if not one.is_same_file(split.segment)]
    _add_stretches(split, others, start, end, found, cleaned)
    return [left for one in found for left in _without(one, cleaned)]


def _without(whole: Stretch, cleaned: Sequence[Stretch]) -> Iterator[Stretch]:
    """A missing stretch without the offsets that a cleaner has removed. Other stretches stay as
    they are."""
    at = whole.start
    for one in sorted(cleaned, key=lambda one: one.start):
        if whole.state is State.MISSING and at < one.end and one.start < whole.end:
            if at < one.start:
                yield whole._replace(start=at, end=one.start)
            at = one.end
    if at < whole.end:
        yield whole._replace(start=at)


def _scanned_or_none(
    file: SegmentFile, start: int, end: int, epochs: Sequence[EpochEntry]
) -> list[Stretch]:
    try:
        return list(scan(file, start, end, epochs))
    except (OSError, RecordsError):  # the segment is gone
        return []


def _add_stretches(
    split: Split,
    copies: Sequence[SegmentFile],
    start: int,
    end: int,
    found: list[Stretch],
    cleaned: list[Stretch],
) -> None:
    """Adds to `found` what the copies have, and to `cleaned` what a cleaner has removed there."""
    at = start
    for index, file in enumerate(copies):
        if at >= end:
            return
        if not file.base_offset < end or not at < file.next_offset:
            continue
        for piece in _scanned_or_none(file, at, end, split.epochs):
            if piece.state is State.COMPACTED:
                cleaned.append(piece)
            if not _belongs_to(piece, split.epochs):
                continue
            if piece.start > at:
                _add_stretches(split, copies[index + 1 :], at, piece.start, found, cleaned)
            found.append(piece)
            at = piece.end
    if at < end:
        found.append(Stretch(at, end, State.MISSING))


def _belongs_to(piece: Stretch, epochs: Sequence[EpochEntry]) -> bool:
    """Whether a stretch, which has one leader epoch, belongs to the log with these epochs, as far
    as is known. Its last offset decides, because a cleaner may have removed earlier records."""
    if piece.state is not State.WHOLE:
        return False
    known = _epoch_at(piece.after - 1, epochs)
    return NONE in (piece.epoch, known) or known == piece.epoch


def _is_of(header: BatchHeader, epochs: Sequence[EpochEntry]) -> bool:
    """Whether the log with these epochs is known to have a batch."""
    return header.leader_epoch == _epoch_at(header.last_offset, epochs) != NONE


def _epoch_at(offset: int, epochs: Sequence[EpochEntry]) -> int:
    """The leader epoch of an offset in a log with these epochs; -1: not known."""
    at = bisect_right(epochs, offset, key=lambda one: one.start_offset)
    return epochs[at - 1].epoch if at else NONE
