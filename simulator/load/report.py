"""A simulation over TCP as one HTML page."""

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Final

from downconvert.report.page import framed, write_page
from records.units import format_count, format_seconds, format_size
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
    tile,
    verdict_lines,
)
from simulator.report.plots import WIDE, memory_over_time

from .metrics import FAIR, MEMORY, figures, title_of
from .options import LoadOptions
from .plots import cpu, fairness, latencies
from .results import LoadResult
from .table import success

_HOW: Final[Mapping[Mode, str]] = {
    "lazy": "the broker as everybody runs it: it converts at most one chunk for each write, while "
    "the response is being sent.",
    "eager": "the same broker, which however makes all of a response before it sends any of it, as "
    "Kafka did before 2.0.",
    "zero-copy": "nobody is converted for: the old clients ask as those of today do, and get what "
    "is on disk by sendfile. The floor for both, but nothing that an old client could read.",
}
_NOTES: Final = (
    "The broker runs in a process of its own, started fresh for each mode, and listens on "
    "loopback. The old clients live in a second process, those of today in a third. All of them "
    "share this machine's cores.",
    "Old clients catch up: each asks again as soon as it has its response. Clients of today follow "
    "the log: they pause between a response and their next request.",
    "Memory is the broker's resident set (VmHWM, reset at the beginning, and samples from "
    "outside), less what it was after everything had been imported and every log opened.",
    "After a short warm-up the modes take turns, round by round, and each round begins with "
    "another. A figure is the median of its rounds, a ratio that of the two figures beside it. The "
    "spread is the distance from the least to the most of a figure's rounds, beside its median.",
    "Latency is measured by the clients that are not slow, from the request to the first and the "
    "last byte of the response.",
    "CPU time by phase: <i>find and measure</i> is everything until a response's size is known; "
    "where records are compressed again, that takes compressing them, and what fits is kept until "
    "it is sent; "
    "what converts while it is sent is measured as a whole, for one call of the kernel does both, "
    "and divided in the proportions that reading, decompressing, converting, compressing and "
    "<i>sending</i> have when the same records are converted apart, in one thread. The rest of "
    "the process's time is the <i>event loop</i>, and Python's.",
    "Before anything is measured, each response is made once, decoded as a client of its age "
    "would, and compared with an eager conversion of the same log. While it is measured, clients "
    "compare a digest of all bytes that they get with that.",
)


def write_report(path: Path, results: Sequence[LoadResult], command: str) -> None:
    """Writes the file, all of it or nothing."""
    kernel = results[0].backend
    lead = f"A broker, its clients, and the network between them; {kernel} kernel."
    parts = _sections(results)
    words, is_good = conclusion(
        [(result.name, result.costs) for result in results], results[0].options.rounds
    )
    if any(result.failures() for result in results):
        words, is_good = "A check failed: the figures below are not to be trusted.", False
    write_page(
        path,
        framed(
            "Down-conversion over TCP, measured", words, command, parts, is_good=is_good, lead=lead
        ),
    )


def _sections(results: Sequence[LoadResult]) -> Iterator[str]:
    for result in results:
        yield from _simulation(result)
    yield "<section>"
    yield from how_it_was_measured(_HOW, _NOTES)
    for result in results:
        yield from facts(
            result.name, {**_facts(result.options), "kernel": result.backend, **environment()}
        )
    yield "</section>"


def _simulation(result: LoadResult) -> Iterator[str]:
    yield f"<section><h2>{escape(result.name)}</h2>"
    yield f'<p class="what">{escape(result.options.describe())}</p>'
    yield from _tiles(result)
    yield from costs_section(result.costs, result.options.rounds)
    yield "<h3>Memory of the broker over time, and its peak</h3>" + memory_over_time(
        "broker", result.modes
    )
    yield "<h3>Latency of fetches, by kind of clients</h3>" + latencies(result)
    if result.alone is not None:
        yield '<div class="pair"><div><h3>Latency of today\'s clients, and its 99th percentile</h3>'
        yield f"{fairness(result)}</div><div><h3>CPU of the broker, by phase</h3>{cpu(result)}"
        yield "</div></div>"
    else:
        yield "<h3>CPU of the broker, by phase</h3>" + cpu(result, WIDE)
    yield from figures_table(figures(result), result.modes)
    words = success(result)
    yield from verdict_lines(result.failures(), f"{words[0].upper()}{words[1:]}.")
    yield "</section>"


def _tiles(result: LoadResult) -> Iterator[str]:
    """Lazy beside eager, where a reader looks first."""
    if not is_compared(result.modes):
        return
    oldest = result.options.clients[0]
    title = title_of(oldest)
    by_name = {(figure.group, figure.label): figure for figure in figures(result)}

    def shown(words: str, group: str, label: str) -> str:
        return figure_tile(words, by_name[group, label], result.modes)

    yield '<div class="tiles">'
    yield shown("peak memory of the broker, above idle", MEMORY, "peak above idle")
    words = f"until the first byte comes to clients of {oldest.kind}, p99"
    yield shown(words, title, "first byte, p99")
    yield shown("records a second to all clients", "work", "records a second")
    ratio = result.unfairness("lazy")
    if ratio is not None:
        beside = result.unfairness("eager") or 0.0
        yield tile(
            "p99 of today's clients: beside old ones / alone",
            f"{ratio:.1f}x",
            f"eager {beside:.1f}x",
            ("within 2x" if ratio <= FAIR else "more than 2x", ratio <= FAIR),
        )
    elif result.options.count == 1:
        yield shown("until its last byte comes, p99", title, "last byte, p99")
    else:
        yield shown("peak memory for each client", MEMORY, "for each client")
    yield "</div>"


def _facts(options: LoadOptions) -> dict[str, str]:
    clients = ", ".join(
        f"{group.count:,} of {group.kind} (Fetch v{group.version})" for group in options.clients
    )
    return {
        "topic": f"{options.workload}, in {format_count(options.partitions, 'partition')}",
        "clients": clients,
        "slow clients": f"{sum(options.slow.of(options.clients)):,} at "
        f"{format_size(options.rate)}/s",
        "a fetch": f"{format_count(options.per_fetch, 'partition')}, "
        f"{format_size(options.max_bytes)} of each",
        "pause of today's clients": format_seconds(options.pause),
        "time": f"{options.rounds} rounds, together at least {options.seconds:g} s a mode, and "
        "each once through the partitions",
        "policy": options.policy,
    }
