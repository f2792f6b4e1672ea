"""Figures as tables for a terminal: a figure a row, a mode a column, and lazy compared with eager
in words."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from simulator.modes import Mode
from simulator.rounds import Rounds

from .costs import FIRST, LATER, Cost, verdict
from .figures import Figure, M, is_compared, share

STYLES: Final = {True: "bold green", False: "yellow", None: "dim"}


def figures_table(figures: Iterable[Figure[M]], modes: Mapping[Mode, Rounds[M]]) -> Table:
    has_comparison = is_compared(modes)
    headings: list[str] = list(modes)
    if has_comparison:
        headings.append("lazy vs eager")
    grid = _grid(headings)
    group = ""
    for figure in figures:
        if figure.group != group:
            group = figure.group
            grid.add_row(Text(group, style="dim italic"))
        row: list[str | Text] = [f"  {figure.label}"]
        row += [figure.shown(rounds) for rounds in modes.values()]
        if has_comparison:
            words, is_good = figure.comparison(modes)
            row.append(Text(words, style=STYLES[is_good]))
        grid.add_row(*row)
    return grid


def costs_table(costs: Sequence[Cost], rounds: int) -> RenderableType:
    """The cost of lazy compared with eager, and the verdict."""
    spread = ["spread"] if rounds > 1 else []
    grid = _grid(["lazy", "eager", "ratio", "wanted", "verdict", *spread])
    grid.add_row(Text("what lazy costs", style="dim italic"))
    for cost in costs:
        grid.add_row(
            f"  {cost.label}",
            cost.lazy,
            cost.eager,
            Text(cost.ratio_text, style=STYLES[cost.is_met if rounds > 1 else None]),
            cost.wanted,
            Text(cost.is_met_text if rounds > 1 else "", style=STYLES[cost.is_met]),
            *(Text(share(cost.spread), style="dim") for _ in spread),
        )
    words, is_met = verdict(costs, rounds)
    return Group(
        grid, Text(), Text(words, style=STYLES[is_met]), Text(f"{FIRST} {LATER}", style="dim")
    )


def verdict_text(failures: Sequence[str], success: str) -> Text:
    """Whether all checks held: each failure, or the success."""
    if failures:
        return Text("\n".join(f"FAILED  {failure}" for failure in failures), style="bold red")
    return Text(success, style="green")


def _grid(headings: Sequence[str]) -> Table:
    grid = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold", show_edge=False)
    grid.add_column("", overflow="fold")
    for heading in headings:
        grid.add_column(heading, justify="right", overflow="fold")
    return grid
