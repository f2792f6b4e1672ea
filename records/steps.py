"""Work in steps of some milliseconds, between which other connections have their turns.

A step yields its work in bytes, or the size of the piece that it made, or nothing. The function
that makes the steps says which.

Not here: a turn's number of steps (the servers)."""

from collections.abc import Generator
from typing import TypeAlias, TypeVar

Found = TypeVar("Found")
Steps: TypeAlias = Generator[int, None, Found]


def at_once(steps: Generator[object, None, Found]) -> Found:
    """Runs all steps at once and returns their result."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            found: Found = end.value
            return found
