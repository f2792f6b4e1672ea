"""The plots of a report on the path over TCP.

Not here: the common part of all plots (simulator/report/plots.py), the page (report.py)."""

from collections.abc import Callable, Mapping
from typing import Final

from matplotlib.axes import Axes
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

from records.units import format_seconds
from simulator.report.plots import COLOURS, HALF, INK, WIDE, draw_distribution, drawn, legend

from .metrics import phases_of
from .results import ALONE, LoadResult, LoadRun

COLOURS_OF_RUNS: Final[Mapping[str, str]] = {
    **{str(mode): colour for mode, colour in COLOURS.items()},
    ALONE: INK,
}
PHASES: Final = {
    "find and measure": "#8d99ae",
    "read": "#cbd5e1",
    "decompress": "#f4a261",
    "convert": "#0b7a75",
    "compress": "#d1495b",
    "send": "#457b9d",
    "event loop": "#e9c46a",
}
_ROW: Final = 0.5  # inches a kind of clients
_LANE: Final = 0.22  # of a row, between modes


def latencies(result: LoadResult) -> str:
    """The median and the 99th percentile of fetches, by kind of clients and mode."""
    kinds = [group.kind for group in result.options.clients]
    runs = list(result.named.items())
    lanes = (len(runs) - 1) / 2

    def draw(axes: Axes) -> None:
        for row, kind in enumerate(kinds):
            for lane, (name, rounds) in enumerate(runs):
                if kind not in rounds.each[0].kinds:
                    continue
                at = row + (lane - lanes) * _LANE
                half, most = (rounds.middle(_last_byte(kind, percent)) for percent in (50, 99))
                colour = COLOURS_OF_RUNS[name]
                axes.plot([half, most], [at, at], color=colour, linewidth=3, alpha=0.35)
                axes.plot([half], [at], "o", color=colour, markersize=5)
                axes.plot([most], [at], "|", color=colour, markersize=9, markeredgewidth=2)
                axes.annotate(
                    format_seconds(most),
                    (most, at),
                    (7, 0),
                    textcoords="offset points",
                    va="center",
                    fontsize=8,
                    color=colour,
                )
        axes.set_xscale("log")
        _times(axes)
        low, high = axes.get_xlim()
        low, high = low / 1.2, high * 1.2  # also if all fetches take the same time
        axes.set_xlim(low, high * (high / low) ** 0.1)  # space for words
        axes.set_yticks(range(len(kinds)), kinds)
        axes.set_ylim(len(kinds) - 0.5, -0.5)
        axes.grid(False, axis="y")
        axes.set_xlabel("from the request to the last byte: half of the fetches ●, 99 of 100 |")
        legend(axes, [(COLOURS_OF_RUNS[name], name) for name, _ in runs])

    size = (WIDE[0], 1.2 + _ROW * len(kinds) * max(1.0, len(runs) / 2))
    return drawn("Latency of fetches by kind of clients", size, draw)


def fairness(result: LoadResult) -> str:
    """Distribution of the latency of current clients, beside old ones and alone."""
    kinds = [group.kind for group in result.options.clients if not group.is_old]

    def draw(axes: Axes) -> None:
        words = []
        for name, rounds in reversed(result.named.items()):
            if name == "zero-copy":  # its old clients are like current ones
                continue
            values = sorted(
                value
                for run in rounds.each
                for kind in kinds
                for value in run.kinds[kind].latencies
            )
            draw_distribution(axes, sorted(values), COLOURS_OF_RUNS[name], name)
            p99 = format_seconds(rounds.middle(lambda run: run.todays(99)))
            words.append((COLOURS_OF_RUNS[name], f"{name} {p99}"))
        _times(axes, (1, 3))
        legend(axes, words[::-1])

    return drawn("Latency of today's clients beside old ones", HALF, draw)


def cpu(result: LoadResult, size: tuple[float, float] = HALF) -> str:
    """The broker's CPU time for a record, divided by phase, a bar a mode."""
    modes = list(result.modes)
    by_mode = [
        phases_of(rounds.typical(lambda run: run.cpu_per_record), result.shares)
        for rounds in result.modes.values()
    ]
    shown = [phase for phase in PHASES if any(phases[phase] > 0 for phases in by_mode)]

    def draw(axes: Axes) -> None:
        left = [0.0] * len(modes)
        for phase in shown:
            widths = [phases[phase] for phases in by_mode]
            axes.barh(modes, widths, left=left, color=PHASES[phase], height=0.55)
            left = [start + width for start, width in zip(left, widths, strict=True)]
        for row, total in enumerate(left):
            axes.text(total, row, f"  {total:.2f}", va="center", fontsize=9)
        axes.set_xlim(0, 1.18 * max(left))
        axes.invert_yaxis()
        axes.grid(False, axis="y")
        axes.xaxis.set_major_locator(MaxNLocator(5))
        axes.set_xlabel("microseconds of CPU per record")
        phases = axes.legend(
            [Patch(color=PHASES[phase]) for phase in shown],
            shown,
            loc="upper center",
            bbox_to_anchor=(0.45, -0.28),
            ncols=len(shown) if size == WIDE else 4,
            fontsize=8,
            handlelength=1,
            columnspacing=1.2,
        )
        phases.set_in_layout(True)

    return drawn("CPU time of the broker by phase", size, draw)


def _times(axes: Axes, marks: tuple[int, ...] = (1, 2, 5)) -> None:
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: format_seconds(value)))
    axes.xaxis.set_major_locator(LogLocator(subs=marks, numticks=9))
    axes.xaxis.set_minor_locator(NullLocator())


def _last_byte(kind: str, percent: float) -> Callable[[LoadRun], float]:
    return lambda run: run.last_byte_of(kind, percent)
