"""Reads a log at positions: a file by its descriptor, or all of its bytes."""

import os

from records.kernel import Buffer


def check(source: int | Buffer, position: int) -> None:
    """Raises ValueError if there cannot be such a position."""
    if isinstance(source, int):
        if source < 0:
            raise ValueError("no descriptor")
    elif position > len(memoryview(source)):
        raise ValueError("the position is after the buffer")


def read(source: int | Buffer, position: int, size: int) -> Buffer:
    """Bytes from that position on. Empty if nothing can be read."""
    if not isinstance(source, int):
        return memoryview(source)[position : position + size]
    try:
        return os.pread(source, size, position)
    except OSError:
        return b""
