"""A replacement for a generator that has raised an error.

A generator that has raised an error is finished. Its next call raises StopIteration, which a send
would take for the end of the data. This class raises the error on each later call instead.

Not here: the filler for missing bytes (filler.py)."""

from typing import Never, Self


class Failed:
    """An iterator that raises the same error on every call."""

    __slots__ = ("_error",)

    def __init__(self, error: BaseException) -> None:
        self._error = error

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Never:
        raise self._error.with_traceback(None)  # the first traceback would grow
