"""A simulation as one HTML file: it opens offline, and nothing in it is loaded from anywhere.

Not here: the plots (plots.py), the figures and what they are called (metrics.py)."""

from collections.abc import Iterator, Sequence
from html import escape
from itertools import groupby
from pathlib import Path
from typing import Final

from downconvert.report.page import write_page
from downconvert.report.style import CSS
from records.units import format_count, format_size
from simulator.environment import environment

from .metrics import METRICS, Metric
from .options import Options
from .plots import COLOURS, latencies, memory_over_time, throughput
from .results import Result

_SUMMARY: Final = (
    ("peak above idle", "peak memory of the sender, above idle"),
    ("first byte, p99", "until the first byte of a fetch comes, p99"),
    ("last byte, p99", "until its last byte comes, p99"),
    ("records a CPU second", "records a CPU second of the sender"),
)
_HOW: Final = (
    (
        "lazy",
        "converts at most one chunk for each write, while the response is being sent. All "
        "consumers are served side by side: a fetch begins sooner, and may end later, than where "
        "one is served after the other.",
    ),
    ("eager", "converts all of a response before any of it is sent, as Kafka did before 2.0."),
    (
        "zero-copy",
        "does not convert: sendfile from the page cache, which is what consumers of today get. The "
        "floor for both, but nothing that an old consumer could read.",
    ),
)
_NOTES: Final = (
    "Each mode runs in a process of its own, started fresh: one thread, one selector, one write "
    "for each consumer and turn. The consumers live in another process.",
    "Memory is the sender's resident set (VmHWM, reset at the beginning), less what it was after "
    "everything had been imported. Buffers are what the sends themselves say that they hold.",
    "Latency is measured by the consumers that read as fast as they can, from the request to the "
    "first and the last byte of the answer. Throughput counts what all consumers had read when "
    "the last of the fast ones was done.",
    "Before anything is measured, every answer is made once both ways, compared, and read as an "
    "old client would. While it is measured, the consumers compare every byte with that.",
)


def write_report(path: Path, results: Sequence[Result], options: Options, command: str) -> None:
    """Writes the file, all of it or nothing."""
    write_page(path, _page(results, options, command))


def _page(results: Sequence[Result], options: Options, command: str) -> Iterator[str]:
    yield '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">'
    yield f"<title>Down-conversion, measured</title><style>{CSS}</style></head><body><main>"
    yield "<h1>Down-conversion, measured</h1>"
    yield f'<p class="lead">{escape(_lead(results, options))}</p>'
    yield f"<pre>{escape(command)}</pre>"
    for result in results:
        yield from _workload(result)
    yield from _explained(results, options)
    yield "</main></body></html>\n"


def _lead(results: Sequence[Result], options: Options) -> str:
    kernel = results[0].backend
    size = format_size(sum(result.size for result in results))
    return f"{size} of segments, {options.describe()}, {kernel} kernel."


def _workload(result: Result) -> Iterator[str]:
    files = format_count(result.files, "segment")
    yield f"<section><h2>{escape(result.name)}</h2>"
    yield f'<p class="what">{files}, {format_size(result.size)}, {result.records:,} records</p>'
    yield from _tiles(result)
    yield "<h3>Memory of the sender over time, and its peak</h3>" + memory_over_time(result)
    yield (
        '<div class="pair"><div><h3>Latency of a fetch, and its 99th percentile</h3>'
        + latencies(result)
        + "</div>"
    )
    yield "<div><h3>Throughput</h3>" + throughput(result) + "</div></div>"
    yield from _table(result)
    yield from _verdict(result)
    yield "</section>"


def _tiles(result: Result) -> Iterator[str]:
    """Lazy beside eager, where a reader looks first."""
    if "lazy" not in result.modes or "eager" not in result.modes:
        return
    by_label = {metric.label: metric for metric in METRICS}
    yield '<div class="tiles">'
    for label, words in _SUMMARY:
        metric = by_label[label]
        lazy, eager = (metric.shown(result.modes[mode]) for mode in ("lazy", "eager"))
        comparison, is_good = metric.verdict(result)
        yield (
            f'<div class="tile"><div class="label">{words}</div>'
            f'<div class="figure">{lazy}</div>'
            f'<div class="beside">eager {eager} '
            f'<b class="{tone(is_good)}">{comparison}</b></div></div>'
        )
    yield "</div>"


def tone(is_good: bool | None) -> str:
    """How the style calls a comparison that came out so."""
    return {True: "good", False: "bad", None: "same"}[is_good]


def _table(result: Result) -> Iterator[str]:
    modes = list(result.modes)
    yield "<table><thead><tr><th></th>"
    for mode in modes:
        yield f'<th><i style="background:{COLOURS[mode]}"></i>{mode}</th>'
    yield "<th>lazy beside eager</th></tr></thead>"
    for group, metrics in groupby(METRICS, key=lambda metric: metric.group):
        yield f'<tbody><tr class="group"><td colspan="{len(modes) + 2}">{group}</td></tr>'
        for metric in metrics:
            yield _row(metric, result)
        yield "</tbody>"
    yield "</table>"


def _row(metric: Metric, result: Result) -> str:
    cells = "".join(f"<td>{metric.shown(measured)}</td>" for measured in result.modes.values())
    words, is_good = metric.verdict(result)
    return f'<tr><td>{metric.label}</td>{cells}<td class="{tone(is_good)}">{words}</td></tr>'


def _verdict(result: Result) -> Iterator[str]:
    failures = result.failures()
    for failure in failures:
        yield f'<p class="failed">failed: {escape(failure)}</p>'
    for damage in result.damage:
        yield f'<p class="failed">read only up to its damage: {escape(damage)}</p>'
    if not failures:
        answers = sum(measured.run.reading.answers for measured in result.modes.values())
        yield (
            f'<p class="held">Checked {answers:,} answers: every byte as planned, every promise '
            "kept, lazy and eager conversion the same bytes.</p>"
        )


def _explained(results: Sequence[Result], options: Options) -> Iterator[str]:
    yield '<section><h2>How it was measured</h2><dl class="modes">'
    for mode, words in _HOW:
        yield f"<dt>{mode}</dt><dd>{words}</dd>"
    yield "</dl><ul>"
    for note in _NOTES:
        yield f"<li>{note}</li>"
    yield '</ul><h3>Options and machine</h3><dl class="facts">'
    facts = {
        "fetches": f"{format_size(options.max_bytes)} of the log each, whole batches",
        "consumers": f"{options.consumers} as fast as they can",
        "slow consumers": f"{options.slow} at {format_size(options.rate)}/s",
        "target format": f"v{options.to_magic}",
        "policy": options.policy,
        "kernel": results[0].backend,
        **environment(),
    }
    for name, value in facts.items():
        yield f"<dt>{name}</dt><dd>{escape(value)}</dd>"
    yield "</dl></section>"
