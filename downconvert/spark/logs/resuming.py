"""Finds the entry at which reading continues after a damaged one.

The size of the damaged entry leads there, or an index entry does. No checksum covers the offset of
the entry there, so it must be between those of its neighbours. An entry with a wrong offset is lost
with the damaged one, unless an index entry leads to it. The damaged entry may have a wrong number
of offsets, which its checksum covers. Then the next entry is right if the one after it begins where
it ends.

Not here: the offsets that are lost (completeness.py, read/entries.py)."""

from typing import NamedTuple

from downconvert.storage.segments.rising import goes_beyond, is_sound, limit_of
from records import BatchHeader, Records

from .boundaries import Boundaries, first_offset, header_at


class Resumed(NamedTuple):
    """The position of the next entry with a fitting offset, and the offset after the entries before
    it, by their headers. None: not known."""

    position: int | None
    end: int | None


class Resuming:
    """The entries of one segment. `offset_max`: all of their offsets are below this one.
    `size_max`: of a record that is read for its offset, in bytes. `verify`: False: all offsets are
    taken as they are."""

    def __init__(
        self,
        records: Records,
        boundaries: Boundaries,
        offset_max: int,
        *,
        size_max: int | None = None,
        verify: bool = True,
    ) -> None:
        self._records = records
        self._boundaries = boundaries
        self._offset_max = offset_max
        self._size_max = size_max
        self._verify = verify

    def after(self, entry: int, start: int | None) -> Resumed:
        """Where reading continues after the damaged entry at the position `entry`. `start`: its
        offset, by the entries before it; None: not known."""
        at, end = entry, start
        while True:
            header = header_at(self._records, at)
            own_end = None if header is None else at + header.size
            following = self._boundaries.after_damage(at, own_end)
            if header is None or following is None or following != own_end:
                return Resumed(following, None)
            end = _end_of(header, end)
            if start is None or not self._is_misplaced(header, following, start):
                return Resumed(following, end)
            at = following

    def base_offset(self, position: int) -> int | None:
        """The first offset of the entry there; None: its header does not have it."""
        header = header_at(self._records, position)
        return None if header is None else first_offset(self._records, header, self._size_max)

    def _is_misplaced(self, damaged: BatchHeader, following: int, start: int) -> bool:
        """Whether the entry at `following` has a wrong offset: it does not begin after the damaged
        one, or it does not end where the next one begins."""
        header = header_at(self._records, following) if self._verify else None
        if header is None or self._boundaries.from_position(following) == following:
            return False
        base = first_offset(self._records, header, self._size_max)
        end = _end_of(damaged, start)
        limit = limit_of(header, self._next(header), self._offset_max)
        if base >= end:
            return goes_beyond(header, end, limit)
        if goes_beyond(damaged, start, base):
            return False
        if is_sound(self._records, damaged):  # offsets may have come twice, and go on
            return not damaged.base_offset < start == base
        return base <= start or limit != header.last_offset + 1

    def _next(self, header: BatchHeader) -> BatchHeader | None:
        return header_at(self._records, header.position + header.size)


def _end_of(damaged: BatchHeader, start: int | None) -> int:
    """The offset after a damaged entry that begins at `start` or later, by its own header."""
    first = max(damaged.base_offset, -1 if start is None else start)
    return first + damaged.last_offset - damaged.base_offset + 1
