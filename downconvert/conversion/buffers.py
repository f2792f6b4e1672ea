"""Reusable buffers: a conversion needs some hundred kilobytes for a few microseconds a chunk.

A new buffer of 256 KiB is zeroed, and its pages are mapped one fault at a time. This costs a tenth
of converting a fetch. So a conversion that has ended or waits returns its buffers for the next one,
in any thread. The number of buffers follows the active conversions, not the waiting ones. The
number of kept buffers is bounded. The former owner must not use a released buffer.

Not here: the sizes of buffers, and when a conversion waits (send.py, converter.py)."""

from typing import Final

from records.units import MiB

SPARES_MAX: Final = 8  # of each size
SIZE_MAX: Final = MiB  # bytes of a kept buffer

NO_BUFFER: Final = bytearray()
NO_VIEW: Final = memoryview(NO_BUFFER)

_spares: dict[int, list[bytearray]] = {}


def take(size: int) -> bytearray:
    """A buffer of that size, with arbitrary contents."""
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
