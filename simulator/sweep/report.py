"""A sweep as one HTML file, which opens offline."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any, Final, TypeAlias

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from downconvert.report.page import framed, write_page
from records.units import format_rate, format_size
from simulator.report.page import verdict_lines
from simulator.report.plots import DASHES, STYLE, svg_of

Row: TypeAlias = Mapping[str, Any]

PALETTE: Final = ("#0b7a75", "#edae49", "#d1495b", "#30638e", "#8d99ae", "#6a4c93")
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
    words = ", ".join(f"{format_size(peak)} with {mode}" for mode, peak in peaks.items())
    return f"At its largest point the sender takes this memory above idle: {words}.", None


def _sections(rows: Sequence[Row]) -> Iterator[str]:
    for codec in sorted({row["codec"] for row in rows}):
        of_codec = [row for row in rows if row["codec"] == codec]
        yield f"<section><h2>{escape(codec)}</h2>"
        yield "<h3>Memory of the sender, above idle</h3>"
        yield _picture(of_codec, "peak_bytes", "peak", format_size)
        yield "<h3>Throughput of one sender</h3>"
        yield _picture(of_codec, "records_per_second", "records/s", format_rate)
        yield from _table(of_codec)
        yield "</section>"
    failures = sorted({failure for row in rows for failure in row["failures"]})
    yield from verdict_lines(failures, "Every answer was compared, byte by byte.")


def _picture(rows: Sequence[Row], key: str, what: str, text: Callable[[float], str]) -> str:
    """A plot for each record size: chunk sizes along, a line for each number of consumers. Its unit
    is that of the table below, which has the same `text`."""
    sizes = sorted({row["record_size"] for row in rows})
    with mpl.rc_context({**STYLE, "font.size": 9}):
        figure = Figure((10.4, 2.9), layout="constrained")
        all_axes = figure.subplots(1, len(sizes), sharey=True, squeeze=False)[0]
        for axes, size in zip(all_axes, sizes, strict=True):
            of_size = [row for row in rows if row["record_size"] == size]
            _draw(axes, of_size, lambda row: row[key])
            axes.set_title(f"records of {format_size(size)}", loc="left", fontsize=9)
            axes.set_xlabel("chunk size")
        all_axes[0].set_ylabel(what)
        all_axes[0].yaxis.set_major_formatter(FuncFormatter(lambda value, _: text(max(value, 0))))
        all_axes[-1].legend(loc="center left", bbox_to_anchor=(1.0, 0.5), handlelength=3)
        return svg_of(figure, what)


def _draw(axes: Axes, rows: Sequence[Row], value: Callable[[Row], float]) -> None:
    chunks = sorted({row["chunk_size"] for row in rows})
    consumers = sorted({row["consumers"] for row in rows})
    for mode in sorted({row["mode"] for row in rows}, key=list(DASHES).index):
        looks = zip(PALETTE * len(consumers), MARKERS * len(consumers), strict=False)
        for number, (colour, marker) in zip(consumers, looks, strict=False):
            found = {
                row["chunk_size"]: value(row)
                for row in rows
                if row["mode"] == mode and row["consumers"] == number
            }
            heights = [found.get(chunk) for chunk in chunks]
            axes.plot(
                range(len(chunks)),
                [float("nan") if height is None else height for height in heights],
                DASHES[mode],
                color=colour,
                marker=marker,
                markersize=4,
                label=f"{mode}, {number} consumer{'s' * (number != 1)}",
            )
    axes.set_xticks(range(len(chunks)), [format_size(chunk) for chunk in chunks])
    axes.set_ylim(bottom=0)


def _table(rows: Sequence[Row]) -> Iterator[str]:
    yield "<table><thead><tr><th>records</th><th>chunks</th><th>consumers</th><th>mode</th>"
    yield "<th>peak</th><th>records/s</th><th>CPU</th><th>last byte, p99</th></tr></thead><tbody>"
    order = ("record_size", "chunk_size", "consumers", "mode")
    for row in sorted(rows, key=lambda row: tuple(row[key] for key in order)):
        yield (
            f"<tr><td>{format_size(row['record_size'])}</td><td>{format_size(row['chunk_size'])}</td>"
            f"<td>{row['consumers']}</td><td>{row['mode']}</td>"
            f"<td>{format_size(row['peak_bytes'])}</td>"
            f"<td>{format_rate(row['records_per_second'])}</td>"
            f"<td>{row['cpu_seconds']:.2f} s</td>"
            f"<td>{1e3 * row['fetch_p99_seconds']:.1f} ms</td></tr>"
        )
    yield "</tbody></table>"
