"""Finds entries with wrong offsets. No checksum covers an offset, but it must be between those of
the neighbours. A wrong offset would hide records, or give them other records' offsets.

Not here: continuing after a wrong offset (entries.py)."""

from collections.abc import Callable
from contextlib import suppress
from typing import TypeAlias

from downconvert.storage.segments.rising import NOT_RISING, goes_beyond, limit_of
from records import BatchHeader, CorruptRecordsError

from .entries import Entries

HeaderAt: TypeAlias = Callable[[int], BatchHeader | None]


def look_at_first(entries: Entries) -> None:
    """Notes the first entry of a segment as misplaced if it begins before the segment."""
    with suppress(CorruptRecordsError):
        header = entries.header(entries.position)
        if header is not None and header.base_offset < entries.split.segment.base_offset:
            entries.misplace(entries.position)


def check_order(entries: Entries, header: BatchHeader, header_at: HeaderAt | None = None) -> None:
    """Compares an entry's offsets with the offset of the next entry, or of the next segment. If the
    next entry is the wrong one, notes it as misplaced. `header_at`: as `Entries.header`, for bytes
    in memory.

    CorruptRecordsError: the offsets of this entry are wrong."""
    end, following = header.position + header.size, None
    with suppress(CorruptRecordsError):
        following = (header_at or entries.header)(end)
    if following is None and end < entries.size:
        return
    limit = limit_of(header, following, entries.split.segment.offset_max)
    if limit > header.last_offset:
        return
    after = entries.start_of(header.position)
    if after is not None and goes_beyond(header, after, limit):
        raise CorruptRecordsError(NOT_RISING, header.position)
    if following is not None:
        entries.misplace(following.position, max(header.last_offset + 1, after or 0))
