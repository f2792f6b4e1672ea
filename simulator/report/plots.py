"""Plots as SVG in HTML: their text stays text, in the page's own font."""

import re
from collections.abc import Callable, Mapping, Sequence
from io import StringIO
from typing import Any, Final, Literal, Protocol, TypeAlias, TypeVar

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

Dash: TypeAlias = Literal["-", "--", ":", "-."]

COLOURS: Final[Mapping[Mode, str]] = {
    "lazy": "#0b7a75",
    "eager": "#d1495b",
    "zero-copy": "#8d99ae",
}
# Lines differ in style as well as in colour.
DASHES: Final[Mapping[Mode, Dash]] = {"lazy": "-", "eager": "--", "zero-copy": ":"}
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
# In a page, the stylesheet sets the colours, with others for dark mode.
VARIABLES: Final = {INK: "--ink", FAINT: "--line"} | {
    colour: f"--{mode}" for mode, colour in COLOURS.items()
}
PIXELS: Final = 96  # an inch of a plot on a page; a narrower page scrolls the plot
_DASH_OF: Final[Mapping[str, Dash]] = {COLOURS[mode]: dash for mode, dash in DASHES.items()}
# Labels of distributions have different heights, because lines are often close to each other.
_LABEL_HEIGHTS: Final = {"lazy": 25, "eager": 60, "zero-copy": 85}
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
            axes.plot(seconds, sizes, DASHES[mode], color=COLOURS[mode], linewidth=1.6)
            if line:  # a short round may have ended before its first sample
                end_label(axes, mode, (seconds[-1], sizes[-1]), COLOURS[mode])
            axes.fill_between(seconds, sizes, color=COLOURS[mode], alpha=0.08, linewidth=0)
        axes.set_xlabel("seconds since the first request")
        axes.set_ylabel("MiB above idle")
        axes.set_xlim(0, 1.09 * max(axes.get_xlim()[1], 1e-6))  # space for labels at the ends
        axes.set_ylim(bottom=0)
        axes.yaxis.set_major_locator(MaxNLocator(5))
        words = [(COLOURS[mode], f"{mode} {format_size(peak)}") for mode, peak in peaks.items()]
        legend(axes, words)

    return drawn(f"Memory of the {whose} over time", WIDE, draw)


def end_label(axes: Axes, text: str, at: tuple[float, float], colour: str) -> None:
    """Labels a line at its end."""
    axes.annotate(
        text,
        at,
        (5, 0),
        textcoords="offset points",
        va="center",
        fontsize=9,
        color=colour,
        annotation_clip=False,
    )


def draw_distribution(axes: Axes, values: Sequence[float], colour: str, name: str) -> None:
    """The share of sorted values that are not above a value."""
    times = [percentile(values, share) for share in _SHARES]
    dash = _DASH_OF.get(colour, "-.")
    axes.plot(times, _SHARES, dash, color=colour, linewidth=1.8, drawstyle="steps-post")
    height = _LABEL_HEIGHTS.get(name, 50)
    end_label(axes, name, (times[_SHARES.index(height)], height), colour)
    axes.set_xscale("log")
    axes.set_ylim(0, 101)
    axes.yaxis.set_major_formatter(PercentFormatter(decimals=0))
    axes.set_xlabel("from the request to the last byte")
    axes.set_ylabel("of the fetches")


def legend(axes: Axes, words: Sequence[tuple[str, str]]) -> None:
    """Above the plot: colours with their meanings."""
    made = axes.legend(
        [
            Line2D([], [], color=colour, linewidth=2, linestyle=_DASH_OF.get(colour, "-."))
            for colour, _ in words
        ],
        [text for _, text in words],
        loc="lower left",
        bbox_to_anchor=(-0.01, 1.0),
        ncols=len(words),
        handlelength=1.6,
        handletextpad=0.5,
        columnspacing=1.0,
        fontsize=9,
        borderaxespad=0,
    )
    made.set_in_layout(False)  # it may be wider than the plot


def drawn(title: str, size: tuple[float, float], draw: Callable[[Axes], None]) -> str:
    """An SVG with the output of `draw`. size: in inches."""
    with mpl.rc_context(STYLE):
        figure = Figure(size, layout=ConstrainedLayoutEngine(rect=(0, 0, 1, 0.92)))
        draw(figure.add_subplot())
        return svg_of(figure, title)


def svg_of(figure: Figure, title: str) -> str:
    """A figure as part of a page, not narrower than is legible. Call this while the style is
    set."""
    svg = StringIO()
    figure.savefig(svg, format="svg", metadata={"Date": None})
    width = min(figure.get_figwidth() * PIXELS, 640 if figure.get_figwidth() > HALF[0] else 330)
    return f'<div class="chart">{_for_html(svg.getvalue(), title, round(width))}</div>'


def _for_html(svg: str, title: str, width_min: int) -> str:
    """The drawing without a file's declarations, in the font and colours of the page."""
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r' xmlns(:\w+)?="[^"]*"', "", svg)
    svg = re.sub(r"font: ([\d.]+px) [^;\"]*", r"font-size: \1", svg)
    svg = re.sub(r'width="[\d.]+pt" height="[\d.]+pt"', "", svg, count=1)
    for colour, variable in VARIABLES.items():
        svg = svg.replace(f": {colour}", f": var({variable})")
    described = f'<svg role="img" aria-label="{title}" style="min-width:{width_min}px"'
    return svg.replace("<svg", described, 1)
