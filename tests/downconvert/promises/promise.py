"""The error for a broken promise, and the records of a response.

Not here: what is promised (world.py, client.py, serving.py)."""

from collections.abc import Iterable

from records import MemoryRecords, read
from records.formats import NO_TIMESTAMP, V0

from .any_log import Found


class BrokenPromiseError(AssertionError):
    """A promise does not hold."""


def promised(holds: bool, promise: str, *details: object) -> None:
    if not holds:
        raise BrokenPromiseError(": ".join([promise, *map(repr, details)]))


def delivered(response: bytes, offset: int) -> list[Found]:
    """The records of a response from an offset on; a message that was cut has none."""
    records = read(MemoryRecords(response))
    return [
        (each.offset, each.timestamp, each.key, each.value)
        for each in records
        if each.offset >= offset
    ]


def expected(truth: Iterable[Found], to_magic: int, offset: int) -> list[Found]:
    """The records that a client is to get from an offset on. Messages of v0 have no timestamp."""
    wanted = [each for each in truth if each[0] >= offset]
    if to_magic == V0:
        return [(at, NO_TIMESTAMP, *contents) for at, _, *contents in wanted]
    return wanted
