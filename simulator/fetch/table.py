"""A result as a table for a terminal: a figure a row, a mode a column, and lazy beside eager in
words.

Not here: the same in a browser (report.py)."""

from rich import box
from rich.table import Table
from rich.text import Text

from records.units import format_count, format_size

from .metrics import METRICS
from .results import Result


def headline(result: Result) -> Text:
    """What was measured, in a line."""
    files = format_count(result.files, "segment")
    text = Text(result.name, style="bold")
    text.append(f"  {files}, {format_size(result.size)}, {result.records:,} records", style="dim")
    return text


def table(result: Result) -> Table:
    modes = list(result.modes)
    compared = "lazy" in modes and "eager" in modes
    grid = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold", show_edge=False)
    grid.add_column("", no_wrap=True)
    for mode in modes:
        grid.add_column(mode, justify="right", no_wrap=True)
    if compared:
        grid.add_column("lazy vs eager", justify="right", no_wrap=True)
    group = ""
    for metric in METRICS:
        if metric.group != group:
            group = metric.group
            grid.add_row(Text(group, style="dim italic"))
        row: list[str | Text] = [f"  {metric.label}"]
        row += [metric.shown(result.modes[mode]) for mode in modes]
        if compared:
            words, is_good = metric.verdict(result)
            style = {True: "bold green", False: "yellow", None: "dim"}[is_good]
            row.append(Text(words, style=style))
        grid.add_row(*row)
    return grid


def verdict(result: Result) -> Text:
    """Whether everything was true."""
    failures = result.failures()
    if failures:
        return Text("\n".join(f"FAILED  {failure}" for failure in failures), style="bold red")
    answers = sum(mode.run.reading.answers for mode in result.modes.values())
    text = f"checked {answers:,} answers: bytes as planned, sizes as promised"
    if "lazy" in result.modes:
        text += ", lazy = eager"
    return Text(text, style="green")
