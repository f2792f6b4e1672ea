"""Buffers that are used again: a fetch needs some hundred kilobytes for a few microseconds a chunk.

A new buffer of 256 KiB is zeroed, and its pages are mapped one fault at a time, which costs a
tenth of converting a fetch. So a conversion that is over, or waits, leaves its buffers here for the
next one, in any thread: there are as many as conversions are at work, however many wait. What is
kept is bounded. A buffer that was released must not be used by its former owner.

Not here: how large they are, and when a conversion waits (send.py, converter.py)."""

from typing import Final

SPARES_MAX: Final = 8  # of each size
SIZE_MAX: Final = 1024 * 1024  # of a buffer that is kept

NO_BUFFER: Final = bytearray()
NO_VIEW: Final = memoryview(NO_BUFFER)

_spares: dict[int, list[bytearray]] = {}


def take(size: int) -> bytearray:
    """A buffer of that size, with any contents."""
    try:
        return _spares[size].pop()
    except (KeyError, IndexError):
        return bytearray(size)


def release(buffer: bytearray) -> None:
    """Returns a buffer, for the next `take` of its size."""
    size = len(buffer)
    if 0 < size <= SIZE_MAX:
        spares = _spares.setdefault(size, [])
        if len(spares) < SPARES_MAX:
            spares.append(buffer)
