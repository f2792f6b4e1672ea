"""Walks through a log from offset to offset, in all of its copies.

Not here: what one segment or one copy has (completeness.py)."""

from collections.abc import Iterator

from downconvert.storage.names import OFFSET_MAX

from .compacted import cleaned_until
from .completeness import (
    State,
    Stretch,
    is_damaged_after,
    is_last,
    scan,
    stretches_of_copies,
    whole_split,
)
from .segment_files import PartitionLog, SegmentFile
from .splits import Split
from .stored_headers import last_batch, records_near


def whole_log(log: PartitionLog, start: int) -> Iterator[Stretch]:
    """The offsets of a log from `start` on, in order: stretches of its segments, stretches of other
    copies where a segment is damaged or incomplete, and stretches that no copy has.

    FileNotFoundError: a segment is gone. SegmentChangedError, StoreError."""
    for file in log.segments:
        if file.next_offset <= start or (is_last(file) and not file.size):
            continue
        whole = whole_split(log, file)
        at = max(start, file.base_offset)
        for piece in scan(file, at, file.valid_until):
            if piece.state is State.COMPACTED:  # another copy may still have its records
                break
            is_sound = piece.state is not State.DAMAGED
            yield from stretches_of_copies(whole, at, piece.start if is_sound else piece.end)
            if is_sound:
                yield piece
            at = piece.end
        if is_last(file):
            yield from stretches_of_copies(whole, at, known_end(file, at))
        elif at < file.next_offset:
            yield from _rest(whole, at)


def known_end(last: SegmentFile, at: int) -> int:
    """The end offset of a log by its last segment, but at least `at`. OFFSET_MAX: damage hides the
    end."""
    header = last_batch(last).header if last.size else None
    end = at if header is None else max(at, header.last_offset + 1)
    return OFFSET_MAX if is_damaged_after(last, end) else end


def _rest(whole: Split, at: int) -> Iterator[Stretch]:
    """The offsets from `at` up to the next segment. Those that a cleaner has removed are not
    missing."""
    file, known = whole.segment, at
    if not is_damaged_after(file, at):
        with records_near(file, file.base_offset) as records:
            known = cleaned_until(file, at, records)
    for piece in stretches_of_copies(whole, at, file.next_offset):
        if piece.state is not State.MISSING:
            yield piece
        elif piece.end > known:
            yield piece._replace(start=max(piece.start, known))
