"""Takes the place of a generator that has raised an error.

A generator that has raised is over: asked again, it says that there is nothing more, which a send
would take for the end. This raises the error again.

Not here: what is sent instead of what is missing (filler.py)."""

from typing import Never, Self


class Failed:
    """An iterator that raises the same error however often it is asked."""

    __slots__ = ("_error",)

    def __init__(self, error: BaseException) -> None:
        self._error = error

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Never:
        raise self._error.with_traceback(None)  # that of the first time would grow
