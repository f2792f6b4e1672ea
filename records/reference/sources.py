"""Reads a log at positions: a file by its descriptor, or all of its bytes."""

import os

from records.kernel import Buffer


def check(source: int | Buffer, end: int) -> None:
    """Raises ValueError if bytes up to `end` cannot exist."""
    if isinstance(source, int):
        if source < 0:
            raise ValueError("no descriptor")
    elif end > len(source):
        raise ValueError("the end is after the buffer")


def read(source: int | Buffer, position: int, size: int) -> Buffer:
    """Bytes from that position on. Empty if nothing can be read."""
    if not isinstance(source, int):
        return memoryview(source)[position : position + size]
    try:
        return os.pread(source, size, position)
    except OSError:
        return b""
