"""A simulation as one HTML page."""

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Final

from downconvert.report.page import framed, write_page
from records.units import format_count, format_size
from simulator.environment import environment
from simulator.modes import Mode
from simulator.report.figures import is_compared
from simulator.report.page import (
    conclusion,
    costs_section,
    facts,
    figure_tile,
    figures_table,
    how_it_was_measured,
    verdict_lines,
)
from simulator.report.plots import memory_over_time

from .metrics import CPU, FIGURES, FIRST_BYTE, LAST_BYTE, PEAK
from .options import Options
from .plots import latencies, throughput
from .results import Result

_SUMMARY: Final = (
    (PEAK, "peak memory of the sender, above idle"),
    (FIRST_BYTE, "until the first byte of a fetch comes, p99"),
    (LAST_BYTE, "until its last byte comes, p99"),
    (CPU, "CPU of the sender per record"),
)
_HOW: Final[Mapping[Mode, str]] = {
    "lazy": "converts at most one chunk for each write, while the response is being sent. All "
    "consumers are served side by side: a fetch begins sooner, and may end later, than where one "
    "is served after the other.",
    "eager": "converts all of a response before any of it is sent, as Kafka did before 2.0.",
    "zero-copy": "does not convert: sendfile from the page cache, which is what consumers of today "
    "get. The floor for both, but nothing that an old consumer could read.",
}
_NOTES: Final = (
    "Each mode runs in a process of its own, started fresh: one thread, one selector, and turns "
    "of at most 128 KiB for one consumer after the other. The consumers live in another process.",
    "After a short warm-up the modes take turns, round by round, and each round begins with "
    "another. A figure is the median of its rounds, a ratio that of the two figures beside it. The "
    "spread is the distance from the least to the most of a figure's rounds, beside its median.",
    "Memory is the sender's resident set (VmHWM, reset at the beginning), less what it was after "
    "everything had been imported.",
    "Latency is measured by the consumers that read as fast as they can, from the request to the "
    "first and the last byte of the response. Throughput counts what all consumers had read when "
    "the last of the fast ones was done.",
    "Before anything is measured, every response is made once both ways, compared, and read as an "
    "old client would. While it is measured, the consumers compare every byte with that.",
)


def write_report(path: Path, results: Sequence[Result], options: Options, command: str) -> None:
    """Writes the file, all of it or nothing."""
    size = format_size(sum(result.size for result in results))
    lead = f"{size} of segments, {options.describe()}, {results[0].backend} kernel."
    parts = _sections(results, options)
    words, is_good = conclusion(
        [(result.name, result.costs) for result in results], results[0].options.rounds
    )
    if any(result.failures() for result in results):
        words, is_good = "A check failed: the figures below are not to be trusted.", False
    write_page(
        path, framed("Down-conversion, measured", words, command, parts, is_good=is_good, lead=lead)
    )


def _sections(results: Sequence[Result], options: Options) -> Iterator[str]:
    for result in results:
        yield from _workload(result)
    yield "<section>"
    yield from how_it_was_measured(_HOW, _NOTES)
    yield from facts(
        "Options and machine",
        {
            "fetches": f"{format_size(options.max_bytes)} of the log each, whole batches",
            "consumers": f"{options.consumers} as fast as they can",
            "slow consumers": f"{options.slow} at {format_size(options.rate)}/s",
            "target format": f"v{options.to_magic}",
            "policy": options.policy,
            "rounds": str(options.rounds),
            "kernel": results[0].backend,
            **environment(),
        },
    )
    yield "</section>"


def _workload(result: Result) -> Iterator[str]:
    files = format_count(result.files, "segment")
    yield f"<section><h2>{escape(result.name)}</h2>"
    yield f'<p class="what">{files}, {format_size(result.size)}, {result.records:,} records</p>'
    if is_compared(result.modes):
        yield '<div class="tiles">'
        for figure, words in _SUMMARY:
            yield figure_tile(words, figure, result.modes)
        yield "</div>"
    yield from costs_section(result.costs, result.options.rounds)
    yield "<h3>Memory of the sender over time, and its peak</h3>" + memory_over_time(
        "sender", result.modes
    )
    yield '<div class="pair"><div><h3>Latency of a fetch, and its 99th percentile</h3>'
    yield f"{latencies(result)}</div><div><h3>Throughput</h3>{throughput(result)}</div></div>"
    yield from figures_table(FIGURES, result.modes)
    yield from verdict_lines(
        result.failures(),
        f"Checked {result.responses:,} responses: every byte as planned, every promise kept, lazy "
        "and eager conversion the same bytes.",
    )
    for damage in result.damage:
        yield f'<p class="failed">read only up to its damage: {escape(damage)}</p>'
    yield "</section>"
