"""Finds the part at the beginning of a range that converts to nothing, without converting the rest.

A log may hold millions of consecutive batches that convert to nothing: markers, batches emptied by
compaction, and batches below the fetch offset. A conversion without room for any message stops at
the first record that is kept.

Not here: the response to such a fetch (downconvert.broker)."""

from contextlib import suppress
from typing import Final, NamedTuple

from records.errors import RecordsError
from records.files.source import Records
from records.units import KiB

from .converter import Converter
from .engine import IN_MEMORY
from .policy import ConversionPolicy
from .request import Request

WINDOW_SIZE: Final = 64 * KiB
NO_ROOM: Final = 1  # byte: no message is as small


class Skipped(NamedTuple):
    """size: bytes at the beginning of a range, whole entries, that convert to nothing.
    next_offset: the offset after them; None if there are none."""

    size: int
    next_offset: int | None


def skip(records: Records, to_magic: int, first_offset: int, policy: ConversionPolicy) -> Skipped:
    """Skips the beginning of `records` that converts to nothing for a fetch from `first_offset`. It
    stops before damage and refusals; a conversion from there raises them. Transactions are not
    checked, so do not use it with a policy that leaves out aborted ones."""
    converter = Converter(records, Request(to_magic, first_offset, policy), WINDOW_SIZE)
    before = boundary = 0  # the last two boundaries of entries that were reached
    try:
        with suppress(RecordsError):
            while done := converter.advance(records.size, IN_MEMORY, NO_ROOM, WINDOW_SIZE):
                _, size, _, messages, _ = done
                if size or messages:
                    break
                if converter.is_between_entries:
                    before, boundary = boundary, converter.position
    finally:
        converter.release()
    skipped = Skipped(before, None)
    with suppress(RecordsError):
        for header in records.slice(before, records.size - before).batches():
            end = before + header.position + header.size
            if end > converter.position:
                break
            skipped = Skipped(end, header.last_offset + 1)
    return skipped
