"""Repeats a search during which files or directories were removed or replaced.

Not here: files that disappear from a directory while it is listed (trees.py)."""

from collections.abc import Callable
from contextlib import suppress
from typing import Final, TypeVar

from downconvert.spark.errors import SegmentChangedError

ATTEMPTS: Final = 3
# A file was removed or changed since it was found.
GONE: Final = (FileNotFoundError, SegmentChangedError)
Made = TypeVar("Made")


def attempted(search: Callable[[bool], Made]) -> Made:
    """The result of a search, which is made again if something is gone that it has found. `search`:
    called with whether it is the final attempt, whose error is passed on."""
    for _ in range(ATTEMPTS - 1):
        with suppress(*GONE):
            return search(False)
    return search(True)
