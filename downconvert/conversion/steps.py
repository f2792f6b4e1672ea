"""Work in steps of some milliseconds, between which other connections have their turns.

A step of a plan yields its work: bytes that went through memory. Recompressed bytes count several
times. A step of `streamed` yields the size of the piece that it made, or 0. Its caller counts the
work.

Not here: the steps (plan.py, recode.py, streamed)."""

from collections.abc import Generator
from typing import TypeAlias, TypeVar

Found = TypeVar("Found")
Steps: TypeAlias = Generator[int, None, Found]


def at_once(steps: Steps[Found]) -> Found:
    """Runs all steps at once and returns their result."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            found: Found = end.value
            return found
