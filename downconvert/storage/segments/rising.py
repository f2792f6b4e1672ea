"""The offsets of consecutive batches. Some may be wrong, because no checksum covers them. A right
offset is between those of the neighbours.

Not here: continuing after a wrong offset (spark/read/entries.py)."""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import chain, pairwise
from typing import Final

from downconvert.storage.names import OFFSET_MAX
from records import BatchHeader, CorruptRecordsError, Records
from records.checksum import verify_checksum

NOT_RISING: Final = "offsets do not rise"


class Rising:
    """Consecutive batches. `after`: the offset after the last batch with a fitting offset."""

    __slots__ = ("_before", "_last", "after")

    def __init__(self, base_offset: int) -> None:
        self.after = self._before = base_offset
        self._last: BatchHeader | None = None

    def add(self, header: BatchHeader) -> bool:
        """Adds the next batch. False: its offset is wrong. If it shows that the previous batch had
        a wrong offset, the previous batch no longer counts."""
        if header.base_offset >= self.after:
            self._before = self.after
        elif self._last is None or not goes_beyond(self._last, self._before, header.base_offset):
            return False
        self.after, self._last = header.last_offset + 1, header
        return True


def counted(records: Records) -> Iterator[BatchHeader]:
    """The headers of consecutive batches. A batch may have too high a last offset, which its
    checksum shows. Then it ends where the next batch begins. CorruptRecordsError: damage."""
    before = None
    try:
        for header in records.batches():
            if before is not None:
                yield _up_to(records, before, header.base_offset)
            before = header
    except CorruptRecordsError:
        if before is not None:
            yield before
        raise
    if before is not None:
        yield before


def _up_to(records: Records, header: BatchHeader, following: int) -> BatchHeader:
    if header.base_offset < following <= header.last_offset and not is_sound(records, header):
        return header._replace(last_offset_delta=following - header.base_offset - 1)
    return header


def is_sound(records: Records, header: BatchHeader) -> bool:
    """Whether the checksum of a batch is right."""
    with suppress(CorruptRecordsError):
        verify_checksum(records, header)
        return True
    return False


def below(headers: Iterable[BatchHeader], end: int) -> Iterator[BatchHeader]:
    """The headers of consecutive batches up to offset `end`. A single batch beyond `end` has a
    wrong offset and is left out. Two of them in a row are the end."""
    was_beyond = False
    for header in headers:
        is_beyond = header.base_offset >= end
        if is_beyond and was_beyond:
            return
        if not is_beyond:
            yield header
        was_beyond = is_beyond


def fitting(headers: Iterable[BatchHeader], after: int) -> Iterator[BatchHeader]:
    """The headers of consecutive batches with offsets from `after` on, without those that have a
    wrong offset. CorruptRecordsError: damage follows."""
    held: BatchHeader | None = None
    try:
        for header in headers:
            if held is not None and not goes_beyond(held, after, header.base_offset):
                yield held
                after = held.last_offset + 1
            held = header if header.base_offset >= after else None
    except CorruptRecordsError:
        if held is not None:
            yield held
        raise
    if held is not None:
        yield held


def in_order(headers: Iterable[BatchHeader], base_offset: int, end: int) -> Iterator[BatchHeader]:
    """The headers of consecutive batches of a segment. `end`: the base offset of the next segment;
    OFFSET_MAX: not known. CorruptRecordsError: the next batch has a wrong offset, or damage follows
    it."""
    after = base_offset
    for header, following in pairwise(chain(headers, [None])):
        assert header is not None
        limit = limit_of(header, following, end)
        if header.base_offset < after or goes_beyond(header, after, limit):
            raise CorruptRecordsError(NOT_RISING, header.position)
        after = header.last_offset + 1
        yield header


def limit_of(header: BatchHeader, following: BatchHeader | None, end: int) -> int:
    """A bound: the offsets of a batch are below it. It is the offset of the next batch, or `end`,
    where the next segment begins. OFFSET_MAX: the bound is not known. (A cleaner may have merged
    the next segment into this one, so a batch may begin after `end`.)"""
    if following is not None:
        return following.base_offset
    return OFFSET_MAX if header.base_offset >= end else end


def goes_beyond(header: BatchHeader, after: int, limit: int) -> bool:
    """Whether a batch has a wrong offset, because it is not below `limit`, where the next batch
    begins. False: the next batch may have the wrong one. `after`: the offset after the previous
    batch."""
    return after < header.base_offset and after <= limit <= header.last_offset


def may_have(first: BatchHeader, second: BatchHeader | None, entry: int) -> bool:
    """Whether an entry of an offset index may lead to the v2 batch `first`. `entry`: the offset in
    the entry. It belongs to this batch, or to a later one of the same append. `second`: the next
    batch, if any."""
    is_later = second is not None and second.base_offset <= entry
    return first.base_offset <= entry and (entry <= first.last_offset or is_later)
