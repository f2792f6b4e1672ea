"""Notices and progress, beside the output.

They go to standard error, so that programs can read standard output. A command that shows none,
such as a gateway, does not load the library for it.

Not here: the output itself (the subcommands)."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Final

from records.backend import ENVIRONMENT_VARIABLE, NAME, REFERENCE

if TYPE_CHECKING:
    from rich.console import Console

Step = Callable[[str, float, float], None]  # the current activity, its progress, and the total

_FORCED: Final = (
    f"note: {ENVIRONMENT_VARIABLE}={REFERENCE} asks for the Python reference, which is a hundred "
    "times slower than the compiled kernel; unset it to use that"
)
# --no-cache-dir: without it, pip would reuse its cached wheel, which has no kernel.
_NOT_BUILT: Final = (
    "note: the compiled kernel is not here, so this runs on the Python reference, a hundred times "
    "slower. To build it: install Rust (https://rustup.rs), then pip install --force-reinstall "
    "--no-cache-dir --no-binary lazy-downconvert lazy-downconvert"
)
REFERENCE_NOTICE: Final = _FORCED if os.environ.get(ENVIRONMENT_VARIABLE) else _NOT_BUILT


def notices() -> "Console":
    """The console for notices."""
    from rich.console import Console

    return Console(stderr=True, highlight=False, soft_wrap=True)


@cache
def name_the_backend() -> None:
    """Prints a line if the reference runs instead of the compiled kernel, once in a process."""
    if NAME == REFERENCE:
        notices().print(REFERENCE_NOTICE, style="yellow")


@contextmanager
def progress() -> Iterator[Step]:
    """A progress bar for successive steps. It is shown only on a terminal, and disappears at the
    end."""
    console = notices()
    if not console.is_terminal:
        yield lambda _what, _done, _total: None
        return
    from rich.progress import (
        BarColumn,
        Progress,
        TaskProgressColumn,
        TextColumn,
        TimeElapsedColumn,
    )

    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=30),
        TaskProgressColumn(),
        TimeElapsedColumn(),
        console=console,
        transient=True,
    )
    with bar:
        task = bar.add_task("", total=1)
        current = ""

        def step(what: str, done: float, total: float) -> None:
            nonlocal current
            if what != current:
                current = what
                bar.reset(task, description=what)
            bar.update(task, completed=min(done, total), total=total or 1)

        yield step
