"""A table on the terminal, with names on the left and numbers on the right.

Nothing is ever cut off. If a terminal is too narrow, cells are wrapped. Without a terminal, for
example in a file, each row is a line.

Not here: the contents (the subcommands)."""

from typing import Any, Final

from rich import box
from rich.console import Console
from rich.table import Table

FILE_WIDTH: Final = 10_000  # characters: wider than any table


def grid(first: str, *others: str) -> Table:
    """A table with these columns: text in the first, numbers in the others."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, header_style="bold")
    table.add_column(first, overflow="fold", min_width=12)
    for name in others:
        table.add_column(name, justify="right", overflow="fold")
    return table


def output(**options: Any) -> Console:
    """Standard output, for a command's results. `options`: of rich's Console."""
    console = Console(highlight=False, markup=False, **options)
    if not console.is_terminal:
        console.width = FILE_WIDTH
    return console
