"""What is said beside the output: notices, and progress where somebody watches.

All of it goes to standard error, so that standard output can be read by programs.

Not here: the output itself (the subcommands)."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

from records.backend import NAME

Step = Callable[[str, float, float], None]  # what is being done, how far it is, of how much

REFERENCE_NOTICE = (
    "note: the compiled kernel is not here, so this runs on the Python reference, a hundred times "
    "slower. To build it: install Rust (https://rustup.rs), then pip install . again"
)


def notices() -> Console:
    """Where notices go."""
    return Console(stderr=True, highlight=False, soft_wrap=True)


def name_the_backend() -> None:
    """One line where the reference runs; nothing where the kernel does."""
    if NAME == "reference":
        notices().print(REFERENCE_NOTICE, style="yellow")


@contextmanager
def progress() -> Iterator[Step]:
    """A progress bar for one step after the other, gone at the end. Only on a terminal."""
    console = notices()
    if not console.is_terminal:
        yield lambda _what, _done, _total: None
        return
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
