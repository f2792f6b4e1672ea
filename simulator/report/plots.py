"""Plots as SVG inside of HTML: their text stays text, in the page's own font."""

import re
from collections.abc import Callable, Mapping, Sequence
from io import StringIO
from typing import Any, Final, Protocol, TypeVar

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator, PercentFormatter

from records.units import MiB, format_size
from simulator.measure import percentile, thinned
from simulator.modes import Mode
from simulator.rounds import Rounds

COLOURS: Final[Mapping[Mode, str]] = {
    "lazy": "#0b7a75",
    "eager": "#d1495b",
    "zero-copy": "#8d99ae",
}
INK: Final = "#2b2d42"
FAINT: Final = "#e3e7ee"
WIDE: Final = (10.4, 3.0)  # inches at 72 points, which a page shows as 96 pixels
HALF: Final = (5.1, 3.0)
STYLE: Final[dict[Any, Any]] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "downconvert",
    "font.size": 10,
    "text.color": INK,
    "axes.edgecolor": FAINT,
    "axes.labelcolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": FAINT,
    "xtick.color": INK,
    "ytick.color": INK,
    "xtick.major.size": 0,
    "xtick.minor.size": 0,
    "ytick.major.size": 0,
    "figure.facecolor": "none",
    "axes.facecolor": "none",
    "legend.frameon": False,
}
_MEMORY_POINTS: Final = 500
_SHARES: Final = (*range(100), 99.5, 99.9, 100)

Timeline = Sequence[tuple[float, int]]


class Measured(Protocol):
    """One round. peak: bytes above idle; timeline: seconds since the first request, and bytes."""

    @property
    def peak(self) -> int: ...
    @property
    def timeline(self) -> Timeline: ...


Run = TypeVar("Run", bound=Measured)


def memory_over_time(whose: str, modes: Mapping[Mode, Rounds[Run]]) -> str:
    """Memory above idle, a line a mode: that of the round whose peak is the median."""
    typical = {mode: rounds.typical(lambda run: run.peak) for mode, rounds in modes.items()}
    lines = {mode: run.timeline for mode, run in typical.items()}
    peaks = {mode: run.peak for mode, run in typical.items()}

    def draw(axes: Axes) -> None:
        for mode in reversed(list(lines)):
            line = thinned(lines[mode], _MEMORY_POINTS)
            seconds = [second for second, _ in line]
            sizes = [size / MiB for _, size in line]
            axes.plot(seconds, sizes, color=COLOURS[mode], linewidth=1.6)
            axes.fill_between(seconds, sizes, color=COLOURS[mode], alpha=0.08, linewidth=0)
        axes.set_xlabel("seconds since the first request")
        axes.set_ylabel("MiB above idle")
        axes.set_xlim(left=0)
        axes.set_ylim(bottom=0)
        axes.yaxis.set_major_locator(MaxNLocator(5))
        words = [(COLOURS[mode], f"{mode} {format_size(peak)}") for mode, peak in peaks.items()]
        legend(axes, words)

    return drawn(f"Memory of the {whose} over time", WIDE, draw)


def draw_distribution(axes: Axes, values: Sequence[float], colour: str) -> None:
    """The share of sorted values that are not above a value."""
    times = [percentile(values, share) for share in _SHARES]
    axes.plot(times, _SHARES, color=colour, linewidth=1.8, drawstyle="steps-post")
    axes.set_xscale("log")
    axes.set_ylim(0, 101)
    axes.yaxis.set_major_formatter(PercentFormatter(decimals=0))
    axes.set_xlabel("from the request to the last byte")
    axes.set_ylabel("of the fetches")


def legend(axes: Axes, words: Sequence[tuple[str, str]]) -> None:
    """Above the plot: colours, and what each means."""
    made = axes.legend(
        [Line2D([], [], color=colour, linewidth=3) for colour, _ in words],
        [text for _, text in words],
        loc="lower left",
        bbox_to_anchor=(-0.01, 1.0),
        ncols=len(words),
        handlelength=1,
        columnspacing=1.4,
        borderaxespad=0,
    )
    made.set_in_layout(False)  # it may be wider than the plot


def drawn(title: str, size: tuple[float, float], draw: Callable[[Axes], None]) -> str:
    """An SVG with what `draw` puts into its axes. size: in inches."""
    with mpl.rc_context(STYLE):
        figure = Figure(size, layout=ConstrainedLayoutEngine(rect=(0, 0, 1, 0.92)))
        draw(figure.add_subplot())
        svg = StringIO()
        figure.savefig(svg, format="svg", metadata={"Date": None})
    return _for_html(svg.getvalue(), title)


def _for_html(svg: str, title: str) -> str:
    """The drawing alone: no declarations of a file of its own, and the letters of the page."""
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r' xmlns(:\w+)?="[^"]*"', "", svg)
    svg = re.sub(r"font: ([\d.]+px) [^;\"]*", r"font-size: \1", svg)
    svg = re.sub(r'width="[\d.]+pt" height="[\d.]+pt"', "", svg, count=1)
    return svg.replace("<svg", f'<svg role="img" aria-label="{title}"', 1)
