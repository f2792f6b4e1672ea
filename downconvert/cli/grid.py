"""A table on the terminal: names at the left, numbers at the right.

Not here: what is in it (the subcommands)."""

from rich import box
from rich.table import Table


def grid(first: str, *others: str) -> Table:
    """A table with these columns: text in the first, numbers in the others."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, header_style="bold")
    table.add_column(first, no_wrap=True, min_width=12)
    for name in others:
        table.add_column(name, justify="right", no_wrap=True)
    return table
