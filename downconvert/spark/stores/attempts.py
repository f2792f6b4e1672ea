"""Repeats a search if files or directories were removed or replaced meanwhile.

Not here: files that disappear from a directory while it is listed (logs/trees.py)."""

from collections.abc import Callable
from contextlib import suppress
from typing import Final, TypeVar

from downconvert.spark.errors import SegmentChangedError

ATTEMPTS: Final = 3
# A file was removed or changed since it was found.
GONE: Final = (FileNotFoundError, SegmentChangedError)
Made = TypeVar("Made")


def attempted(search: Callable[[bool], Made]) -> Made:
    """Calls `search`, and calls it again if a file is gone that it has found. The argument is
    whether this is the final attempt. Its error is passed on."""
    for _ in range(ATTEMPTS - 1):
        with suppress(*GONE):
            return search(False)
    return search(True)
