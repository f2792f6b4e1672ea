"""A table on the terminal, with names on the left and numbers on the right.

Nothing is ever cut off. If a terminal is too narrow, cells are wrapped, and names are folded. If
the words of the other columns do not fit even then, each row becomes a block of lines. Without a
terminal, for example in a file, each row is one line.

Not here: the contents (the subcommands)."""

from itertools import chain
from typing import Any, Final

from rich import box
from rich.console import Console
from rich.table import Table

FILE_WIDTH: Final = 10_000  # characters; wider than any table
NAME_WIDTH: Final = 12  # characters, at least, of folded names
GAP: Final = 3  # characters between two columns


def grid(first: str, *others: str) -> Table:
    """A table with these columns: text in the first, numbers in the others."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, header_style="bold")
    table.add_column(first, overflow="fold", min_width=NAME_WIDTH)
    for name in others:
        table.add_column(name, justify="right", overflow="fold")
    return table


def output(**options: Any) -> Console:
    """Standard output, for a command's results. `options`: of rich's Console."""
    console = Console(highlight=False, markup=False, **options)
    if not console.is_terminal:
        console.width = FILE_WIDTH
    return console


def print_table(table: Table, console: Console | None = None) -> None:
    """Prints a table of `grid` on a console, or on standard output."""
    console = output() if console is None else console
    if _width_min(table) <= console.width:
        console.print(table)
        return
    columns = [[str(cell) for cell in column.cells] for column in table.columns]
    headings = [str(column.header) for column in table.columns]
    margin = max(map(len, headings))
    for row, cells in zip(table.rows, zip(*columns, strict=True), strict=True):
        for heading, cell in zip(headings, cells, strict=True):
            indented = cell.replace("\n", "\n" + " " * (margin + 2))
            console.print(f"{heading:<{margin}}  {indented}", style=row.style, soft_wrap=True)
        console.print()


def _width_min(table: Table) -> int:
    """The narrowest width at which no word is broken, except in the first column."""
    width = NAME_WIDTH
    for column in table.columns[1:]:
        words = chain(str(column.header).split(), *(str(cell).split() for cell in column.cells))
        width += GAP + max(map(len, words), default=0)
    return width
