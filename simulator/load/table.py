"""A result over TCP as a table for a terminal: a figure a row, a mode a column, CPU by phase, and
whether old clients make today's wait.

Not here: the same in a browser (load_report.py)."""

from rich import box
from rich.console import Group as Lines
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from records.units import format_seconds

from .metrics import FAIR, figures, phases_of
from .results import LoadResult

_STYLE = {True: "bold green", False: "yellow", None: "dim"}


def table(result: LoadResult) -> RenderableType:
    parts: list[RenderableType] = [_figures(result), Text(), _phases(result)]
    fairness = fairness_lines(result)
    if fairness:
        parts.append(Text())
        parts += [Text(line, style=_STYLE[is_good]) for line, is_good in fairness]
    return Lines(*parts)


def fairness_lines(result: LoadResult) -> list[tuple[str, bool]]:
    """For each mode what today's clients have to bear, and whether that is little."""
    lines = []
    if result.alone is None:
        return []
    alone = result.alone.todays(99)
    for mode, run in result.runs.items():
        ratio = result.unfairness(mode)
        if ratio is not None:
            beside = run.todays(99)
            words = (
                f"today's clients, p99: {format_seconds(alone)} alone, {format_seconds(beside)} "
                f"beside old ones ({mode}): {ratio:.1f}x"
            )
            lines.append((words, ratio <= FAIR))
    return lines


def verdict(result: LoadResult) -> Text:
    """Whether everything was true."""
    failures = result.failures()
    if failures:
        return Text("\n".join(f"FAILED  {failure}" for failure in failures), style="bold red")
    answers = sum(run.answers for run in result.runs.values())
    answers += result.alone.answers if result.alone is not None else 0
    text = f"checked {answers:,} answers, every byte; each is one of {result.planned:,} that were "
    return Text(f"{text}decoded, and compared with an eager conversion", style="green")


def _grid(result: LoadResult, *, is_compared: bool) -> Table:
    grid = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold", show_edge=False)
    grid.add_column("", no_wrap=True)
    for mode in result.runs:
        grid.add_column(mode, justify="right", no_wrap=True)
    if is_compared:
        grid.add_column("lazy vs eager", justify="right", no_wrap=True)
    return grid


def _figures(result: LoadResult) -> Table:
    is_compared = "lazy" in result.runs and "eager" in result.runs
    grid = _grid(result, is_compared=is_compared)
    group = ""
    for figure in figures(result):
        if figure.group != group:
            group = figure.group
            grid.add_row(Text(group, style="dim italic"))
        row: list[str | Text] = [f"  {figure.label}"]
        row += [figure.shown(run) for run in result.runs.values()]
        if is_compared:
            words, is_good = figure.verdict(result)
            row.append(Text(words, style=_STYLE[is_good]))
        grid.add_row(*row)
    return grid


def _phases(result: LoadResult) -> Table:
    grid = _grid(result, is_compared=False)
    grid.add_row(Text("CPU of the broker, us a record", style="dim italic"))
    by_mode = [phases_of(result, run) for run in result.runs.values()]
    for phase in by_mode[0]:
        grid.add_row(f"  {phase}", *(f"{phases[phase]:.2f}" for phases in by_mode))
    return grid
