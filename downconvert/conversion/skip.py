"""Finds the part at the beginning of a range that converts to nothing, without converting the rest.

A log may hold millions of consecutive batches that convert to nothing: markers, batches emptied by
compaction, and batches below the fetch offset. The kernel skips them, a window at a time. If it
stops, one entry at a time is checked.

Not here: the response to such a fetch (downconvert.broker)."""

from typing import Final, NamedTuple

from records.errors import RecordsError
from records.files.source import Records
from records.units import KiB

from .eager import convert
from .engine import COUNTED, LIMIT, Engine
from .policy import ConversionPolicy
from .request import Request

WINDOW_SIZE: Final = 64 * KiB
NO_ROOM: Final = 1  # byte: the kernel stops before the first record that is kept


class Skipped(NamedTuple):
    """size: bytes at the beginning of a range, whole entries, that convert to nothing.
    next_offset: the offset after them; None if there are none."""

    size: int
    next_offset: int | None


def skip(records: Records, to_magic: int, first_offset: int, policy: ConversionPolicy) -> Skipped:
    """Skips the beginning of `records` that converts to nothing for a fetch from `first_offset`. It
    stops before damage and refusals; a conversion from there raises them. Transactions are not
    checked, so do not use it with a policy that leaves out aborted ones."""
    position = 0
    next_offset: int | None = None
    while True:
        before, position = _skipped_by_kernel(records, position, to_magic, first_offset, policy)
        headers = records.slice(before, records.size - before).batches()
        while True:
            try:
                header = next(headers, None)
            except RecordsError:
                header = None
            if header is None:
                return Skipped(position, next_offset)
            start = before + header.position
            if start >= position:
                entry = records.slice(start, header.size)
                if _is_something(entry, to_magic, first_offset, policy):
                    return Skipped(start, next_offset)
                position = start + header.size
            next_offset = header.last_offset + 1
            if position == start + header.size and start - before >= WINDOW_SIZE:
                break


def _skipped_by_kernel(
    records: Records, start: int, to_magic: int, first_offset: int, policy: ConversionPolicy
) -> tuple[int, int]:
    """Lets the kernel skip entries from `start` on that keep no record. Returns two boundaries of
    entries: the beginning of the last window, and the position where the kernel stopped."""
    engine = Engine(records, Request(to_magic, first_offset, policy))
    before = boundary = position = start
    while position < records.size:
        consumed, _, outcome, _, _ = engine.advance(
            position, records.size, WINDOW_SIZE, COUNTED, NO_ROOM, WINDOW_SIZE
        )
        position += consumed
        if outcome != LIMIT or not consumed:
            break
        if not engine.transcoder.in_batch:
            before, boundary = boundary, position
    return before, boundary


def _is_something(
    entry: Records, to_magic: int, first_offset: int, policy: ConversionPolicy
) -> bool:
    try:
        return any(convert(entry, to_magic, first_offset, policy))
    except RecordsError:
        return True
