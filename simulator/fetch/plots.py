"""The plots of a report.

Not here: the common part of all plots (simulator/report/plots.py), the page (report.py)."""

from collections.abc import Mapping

from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, NullFormatter

from records.units import format_seconds
from simulator.modes import Mode
from simulator.report.figures import Figure, throughput_figures
from simulator.report.plots import COLOURS, HALF, draw_distribution, drawn, legend

from .results import Result, Run


def latencies(result: Result) -> str:
    """For each mode, the share of fetches that were done by a time, of all rounds."""

    def draw(axes: Axes) -> None:
        for mode in reversed(list(result.modes)):
            rounds = result.modes[mode].each
            values = sorted(value for run in rounds for value in run.reading.latencies)
            draw_distribution(axes, values, COLOURS[mode], mode)
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: format_seconds(value)))
        axes.xaxis.set_minor_formatter(NullFormatter())
        p99: Mapping[Mode, float] = {
            mode: rounds.middle(lambda run: run.last_byte(99))
            for mode, rounds in result.modes.items()
        }
        legend(axes, [(COLOURS[mode], f"{mode} {format_seconds(p99[mode])}") for mode in p99])

    return drawn("Distribution of the latency of a fetch", HALF, draw)


def throughput(result: Result) -> str:
    """Records that the consumers read a second, a bar a mode."""
    modes = list(result.modes)
    figures: tuple[Figure[Run], ...] = throughput_figures()
    in_bytes, in_records, _ = figures
    rates = [in_records.middle(result.modes[mode]) for mode in modes]
    labels = [
        f"{in_records.shown(result.modes[mode])} records/s\n{in_bytes.shown(result.modes[mode])}"
        for mode in modes
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
