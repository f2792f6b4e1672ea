"""The error for a broken promise, and the records of an answer.

Not here: what is promised (world.py, client.py, serving.py)."""

from records import MemoryRecords, read

from .any_log import Found


class BrokenPromiseError(AssertionError):
    """A promise does not hold."""


def promised(holds: bool, promise: str, *details: object) -> None:
    if not holds:
        raise BrokenPromiseError(": ".join([promise, *map(repr, details)]))


def delivered(answer: bytes, offset: int) -> list[Found]:
    """The records of an answer from an offset on; a message that was cut has none."""
    records = read(MemoryRecords(answer))
    return [(each.offset, each.key, each.value) for each in records if each.offset >= offset]
