"""Reusable buffers: each chunk needs some hundred kilobytes for a few microseconds.

A new buffer of 256 KiB is zeroed, and each of its pages costs a page fault. Together that is a
tenth of the time to convert a fetch. So a conversion releases its buffers when it ends or waits,
and the next conversion takes them, in any thread. Only running conversions hold buffers. The number
of spare buffers is bounded. The former owner must not use a released buffer.

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
