"""A result over TCP as tables for a terminal, and whether old clients delay current ones."""

from rich.console import Group, RenderableType
from rich.text import Text

from records.units import format_seconds
from simulator.report.table import STYLES, costs_table, figures_table, verdict_text

from .metrics import FAIR, figures
from .results import LoadResult


def table(result: LoadResult) -> RenderableType:
    parts: list[RenderableType] = [figures_table(figures(result), result.modes)]
    if costs := result.costs:
        parts += [Text(), costs_table(costs, result.options.rounds)]
    if fairness := fairness_lines(result):
        parts.append(Text())
        parts += [Text(line, style=STYLES[is_good]) for line, is_good in fairness]
    return Group(*parts)


def fairness_lines(result: LoadResult) -> list[tuple[str, bool]]:
    """For each mode how much longer current clients wait beside old ones, and whether that is
    acceptable."""
    if result.alone is None:
        return []
    lines = []
    alone = result.alone.middle(lambda run: run.todays(99))
    for mode, rounds in result.modes.items():
        ratio = result.unfairness(mode)
        if ratio is not None:
            beside = rounds.middle(lambda run: run.todays(99))
            words = (
                f"today's clients, p99: {format_seconds(alone)} alone, {format_seconds(beside)} "
                f"beside old ones ({mode}): {ratio:.1f}x"
            )
            lines.append((words, ratio <= FAIR))
    return lines


def verdict(result: LoadResult) -> Text:
    """Whether all checks held."""
    return verdict_text(result.failures(), success(result))


def success(result: LoadResult) -> str:
    """The checks of a result without failures."""
    return (
        f"checked {result.responses:,} responses, every byte; each is one of {result.planned:,} "
        "that were decoded, and compared with an eager conversion"
    )
