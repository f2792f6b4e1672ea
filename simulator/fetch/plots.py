"""The plots of a report, as SVG to stand inside of HTML: their text is text, in the page's own
letters.

Not here: the page (report.py), the numbers (results.py)."""

import re
from collections.abc import Callable, Mapping, Sequence
from io import StringIO
from typing import Any, Final

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, MaxNLocator, NullFormatter, PercentFormatter

from records.units import MiB, format_rate, format_seconds, format_size
from simulator.measure import percentile, thinned

from .options import Mode
from .results import Result

COLOURS: Final[Mapping[Mode, str]] = {
    "lazy": "#0b7a75",
    "eager": "#d1495b",
    "zero-copy": "#8d99ae",
}
INK: Final = "#2b2d42"
FAINT: Final = "#e3e7ee"
WIDE: Final = (10.4, 3.0)  # inches at 72 points, which a page shows as 96 pixels
HALF: Final = (5.1, 3.0)
MEMORY_POINTS: Final = 500
_STYLE: Final[dict[Any, Any]] = {
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


def memory_over_time(result: Result) -> str:
    """The sender's memory above idle, a line a mode."""

    def draw(axes: Axes) -> None:
        for mode in reversed(list(result.modes)):
            line = thinned(result.modes[mode].run.timeline, MEMORY_POINTS)
            seconds = [second for second, _ in line]
            sizes = [size / MiB for _, size in line]
            axes.plot(seconds, sizes, color=COLOURS[mode], linewidth=1.6)
            axes.fill_between(seconds, sizes, color=COLOURS[mode], alpha=0.08, linewidth=0)
        axes.set_xlabel("seconds since the first request")
        axes.set_ylabel("MiB above idle")
        axes.set_xlim(left=0)
        axes.set_ylim(bottom=0)
        axes.yaxis.set_major_locator(MaxNLocator(5))
        peaks = {mode: format_size(measured.peak) for mode, measured in result.modes.items()}
        _name_the_modes(axes, peaks)

    return drawn("Memory of the sender over time", WIDE, draw)


def latencies(result: Result) -> str:
    """For each mode, the share of fetches that were done by a time."""
    shares = [*range(100), 99.5, 99.9, 100]

    def draw(axes: Axes) -> None:
        for mode in reversed(list(result.modes)):
            values = result.modes[mode].run.reading.latencies
            times = [percentile(values, share) for share in shares]
            axes.plot(times, shares, color=COLOURS[mode], linewidth=1.8, drawstyle="steps-post")
        axes.set_xscale("log")
        axes.set_ylim(0, 101)
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: format_seconds(value)))
        axes.xaxis.set_minor_formatter(NullFormatter())
        axes.yaxis.set_major_formatter(PercentFormatter(decimals=0))
        axes.set_xlabel("from the request to the last byte")
        axes.set_ylabel("of the fetches")
        p99 = {mode: format_seconds(of.latency(99)) for mode, of in result.modes.items()}
        _name_the_modes(axes, p99)

    return drawn("Distribution of the latency of a fetch", HALF, draw)


def throughput(result: Result) -> str:
    """Records that the consumers read a second, a bar a mode."""
    modes = list(result.modes)
    rates = [result.modes[mode].records_per_second for mode in modes]
    labels = [
        f"{format_rate(rate)} records/s\n{result.modes[mode].bytes_per_second / 1e6:,.0f} MB/s"
        for mode, rate in zip(modes, rates, strict=True)
    ]

    def draw(axes: Axes) -> None:
        bars = axes.barh(modes, rates, color=[COLOURS[mode] for mode in modes], height=0.6)
        axes.bar_label(bars, labels, padding=6, linespacing=1.3)
        axes.set_xlim(0, 1.5 * max(rates))
        axes.invert_yaxis()
        axes.grid(False)
        axes.spines["bottom"].set_visible(False)
        axes.set_xticks([])

    return drawn("Throughput", HALF, draw)


def name_the_lines(axes: Axes, lines: Sequence[Line2D], words: Sequence[str]) -> None:
    """A legend above the plot."""
    legend = axes.legend(
        lines,
        words,
        loc="lower left",
        bbox_to_anchor=(-0.01, 1.0),
        ncols=len(words),
        handlelength=1,
        columnspacing=1.4,
        borderaxespad=0,
    )
    legend.set_in_layout(False)  # it may be wider than the plot


def _name_the_modes(axes: Axes, figures: Mapping[Mode, str]) -> None:
    """In the order of the modes, with one figure for each."""
    lines = [Line2D([], [], color=COLOURS[mode], linewidth=3) for mode in figures]
    name_the_lines(axes, lines, [f"{mode} {figure}" for mode, figure in figures.items()])


def drawn(title: str, size: tuple[float, float], draw: Callable[[Axes], None]) -> str:
    """An SVG with what `draw` puts into its axes. size: in inches."""
    with mpl.rc_context(_STYLE):
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
