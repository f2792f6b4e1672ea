"""A result as tables for a terminal."""

from rich.console import Group, RenderableType
from rich.text import Text

from records.units import format_count, format_size
from simulator.report.table import costs_table, figures_table, verdict_text

from .metrics import FIGURES
from .results import Result


def headline(result: Result) -> Text:
    """A line about the measured workload."""
    files = format_count(result.files, "segment")
    text = Text(result.name, style="bold")
    text.append(f"  {files}, {format_size(result.size)}, {result.records:,} records", style="dim")
    return text


def table(result: Result) -> RenderableType:
    parts: list[RenderableType] = [figures_table(FIGURES, result.modes)]
    if costs := result.costs:
        parts += [Text(), costs_table(costs, result.options.rounds)]
    return Group(*parts)


def verdict(result: Result) -> Text:
    """Whether all checks held."""
    success = f"checked {result.responses:,} responses: bytes as planned, sizes as promised"
    if "lazy" in result.modes:
        success += ", lazy = eager"
    return verdict_text(result.failures(), success)
