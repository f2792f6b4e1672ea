"""A sweep as one HTML file, which opens offline."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from html import escape
from math import ceil, log2
from pathlib import Path
from typing import Any, Final, TypeAlias

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, Locator, MaxNLocator, MultipleLocator

from downconvert.report.page import framed, write_page
from records.units import format_rate, format_seconds, format_size
from simulator.modes import MODES
from simulator.report.page import verdict_lines
from simulator.report.plots import DASHES, HALF, STYLE, end_label, svg_of

Row: TypeAlias = Mapping[str, Any]

PALETTE: Final = ("#0b7a75", "#edae49", "#d1495b", "#30638e", "#8d99ae", "#6a4c93")
TICKS_MAX: Final = 6
LABEL_HEIGHT: Final = 0.07  # of a plot's height
MARKERS: Final = "os^Dvp"  # for numbers of consumers, because colour alone is not enough


def write_report(path: Path, rows: Sequence[Row], command: str) -> None:
    """Writes the file, all of it or nothing."""
    points = len(
        {tuple(row[key] for key in ("workload", "chunk_size", "consumers")) for row in rows}
    )
    lead = f"{points:,} points, {len(rows):,} measurements."
    words, is_good = _conclusion(rows)
    title = "Down-conversion over a grid"
    page = framed(title, words, command, _sections(rows), is_good=is_good, lead=lead)
    write_page(path, page)


def _conclusion(rows: Sequence[Row]) -> tuple[str, bool | None]:
    if any(row["failures"] for row in rows):
        return "A check failed: the figures below are not to be trusted.", False
    peaks = {
        mode: max(row["peak_bytes"] for row in rows if row["mode"] == mode)
        for mode in dict.fromkeys(row["mode"] for row in rows)
    }
    most = ", ".join(f"{mode} {format_size(peak)}" for mode, peak in peaks.items())
    return f"The most memory that a sender takes above idle: {most}.", None


def _sections(rows: Sequence[Row]) -> Iterator[str]:
    for codec in dict.fromkeys(row["codec"] for row in rows):
        of_codec = [row for row in rows if row["codec"] == codec]
        yield f"<section><h2>Codec {escape(codec)}</h2>"
        yield "<h3>Memory of the sender, above idle</h3>"
        yield from _pictures(of_codec, "peak_bytes", "peak", format_size, _binary_ticks)
        yield "<h3>Throughput of one sender</h3>"
        yield from _pictures(
            of_codec, "records_per_second", "records/s", format_rate, _decimal_ticks
        )
        yield from _table(of_codec)
        yield "</section>"
    failures = sorted({failure for row in rows for failure in row["failures"]})
    yield from verdict_lines(failures, "Every response was compared, byte by byte.")


def _binary_ticks(top: float) -> Locator:
    """Ticks that have round sizes: a power of two apart."""
    return MultipleLocator(2 ** ceil(log2(max(top, 1) / TICKS_MAX)))


def _decimal_ticks(_top: float) -> Locator:
    return MaxNLocator(TICKS_MAX)


def _pictures(
    rows: Sequence[Row],
    key: str,
    what: str,
    text: Callable[[float], str],
    ticks: Callable[[float], Locator],
) -> Iterator[str]:
    """A plot for each record size: chunk sizes on the x axis, a line for each number of consumers.
    It has the unit of the table below, which has the same `text`."""
    yield '<div class="pair">'
    for size in sorted({row["record_size"] for row in rows}):
        of_size = [row for row in rows if row["record_size"] == size]
        top = max(1.08 * max(row[key] for row in of_size), 1)
        with mpl.rc_context({**STYLE, "font.size": 9}):
            figure = Figure(HALF, layout="constrained")
            axes = figure.subplots()
            lines = _draw(axes, of_size, lambda row: row[key])
            axes.set_title(f"records of {format_size(size)}", loc="left", fontsize=9)
            axes.set_xlabel("chunk size")
            axes.set_ylabel(what)
            axes.set_ylim(0, top)
            axes.yaxis.set_major_locator(ticks(top))
            axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: text(max(value, 0))))
            for place, line in zip(_apart(lines, top), lines, strict=True):
                end_label(axes, str(line.get_label()), place, str(line.get_color()))
            yield svg_of(figure, f"{what}, records of {format_size(size)}")
    yield "</div>"


def _apart(lines: Sequence[Line2D], top: float) -> list[tuple[float, float]]:
    """Where the lines' labels begin: at their ends, but no two of them at one height."""
    ends = np.array([np.asarray(line.get_xydata())[-1] for line in lines])
    below = -LABEL_HEIGHT * top
    for number in ends[:, 1].argsort():
        below = ends[number, 1] = max(ends[number, 1], below + LABEL_HEIGHT * top)
    return [(at, height) for at, height in ends.tolist()]


def _draw(axes: Axes, rows: Sequence[Row], value: Callable[[Row], float]) -> list[Line2D]:
    chunks = sorted({row["chunk_size"] for row in rows})
    consumers = sorted({row["consumers"] for row in rows})
    lines = list[Line2D]()
    for mode in sorted({row["mode"] for row in rows}, key=MODES.index):
        looks = zip(PALETTE * len(consumers), MARKERS * len(consumers), strict=False)
        for number, (colour, marker) in zip(consumers, looks, strict=False):
            found = {
                row["chunk_size"]: value(row)
                for row in rows
                if row["mode"] == mode and row["consumers"] == number
            }
            heights = [found.get(chunk) for chunk in chunks]
            lines += axes.plot(
                range(len(chunks)),
                [float("nan") if height is None else height for height in heights],
                DASHES[mode],
                color=colour,
                marker=marker,
                markersize=4,
                label=f"{mode}, {number} consumer{'s' * (number != 1)}",
            )
    axes.set_xticks(range(len(chunks)), [format_size(chunk) for chunk in chunks])
    return lines


def _table(rows: Sequence[Row]) -> Iterator[str]:
    yield "<table><thead><tr><th></th><th>chunks</th><th>consumers</th><th>mode</th>"
    yield "<th>peak</th><th>records/s</th><th>CPU</th><th>last byte, p99</th></tr></thead><tbody>"
    for row in sorted(rows, key=_order):
        yield (
            f"<tr><td>records of {format_size(row['record_size'])}</td>"
            f"<td>{format_size(row['chunk_size'])}</td>"
            f"<td>{row['consumers']}</td><td>{row['mode']}</td>"
            f"<td>{format_size(row['peak_bytes'])}</td>"
            f"<td>{format_rate(row['records_per_second'])}</td>"
            f"<td>{row['cpu_seconds']:.2f} s</td>"
            f"<td>{format_seconds(row['fetch_p99_seconds'])}</td></tr>"
        )
    yield "</tbody></table>"


def _order(row: Row) -> tuple[int, int, int, int]:
    return (
        row["record_size"],
        row["chunk_size"],
        row["consumers"],
        MODES.index(row["mode"]),
    )
