"""A simulation over TCP as one HTML file: it opens offline, and nothing in it is loaded from
anywhere.

Not here: the plots (load_plots.py), the figures and what they are called (load_metrics.py)."""

from collections.abc import Iterator, Sequence
from html import escape
from itertools import groupby
from pathlib import Path
from typing import Final

from downconvert.report.page import write_page
from downconvert.report.style import CSS
from records.units import format_rate, format_seconds, format_size
from simulator.environment import environment
from simulator.fetch.metrics import compared
from simulator.fetch.plots import COLOURS, WIDE
from simulator.fetch.report import tone

from .metrics import FAIR, Figure, figures, phases_of
from .options import LoadOptions
from .plots import cpu, fairness, latencies, memory_over_time
from .results import LoadResult

_HOW: Final = (
    (
        "lazy",
        "the broker as everybody runs it: it converts at most one chunk for each write, while the "
        "answer is being sent.",
    ),
    (
        "eager",
        "the same broker, which however makes all of an answer before it sends any of it, as Kafka "
        "did before 2.0.",
    ),
    (
        "zero-copy",
        "nobody is converted for: the old clients ask as those of today do, and get what is on "
        "disk by sendfile. The floor for both, but nothing that an old client could read.",
    ),
)
_NOTES: Final = (
    "The broker runs in a process of its own, started fresh for each mode, and listens on "
    "loopback. The old clients live in a second process, those of today in a third. All of them "
    "share this machine's cores.",
    "Old clients catch up: each asks again as soon as it has its answer. Clients of today follow "
    "the log: they pause between an answer and their next request.",
    "Memory is the broker's resident set (VmHWM, reset at the beginning, and samples from "
    "outside), less what it was after everything had been imported and every log opened.",
    "Latency is measured by the clients that are not slow, from the request to the first and the "
    "last byte of the answer.",
    "CPU time by phase: <i>find and measure</i> is everything until an answer's size is known; "
    "where records are compressed again, that takes compressing them, and what fits is kept until "
    "it is sent; "
    "<i>send</i> is the time in the socket's own calls; the conversion while sending is measured "
    "as a whole, and divided in the proportions that reading, decompressing, converting and "
    "compressing have when the same records are converted apart, in one thread. What is left of "
    "the process's time is the <i>event loop</i>, and Python's.",
    "Before anything is measured, each answer is made once, decoded as a client of its age would, "
    "and compared with an eager conversion of the same log. While it is measured, clients compare "
    "a digest of all bytes that they get with that.",
)


def write_report(path: Path, results: Sequence[LoadResult], command: str) -> None:
    """Writes the file, all of it or nothing."""
    write_page(path, _page(results, command))


def _page(results: Sequence[LoadResult], command: str) -> Iterator[str]:
    yield '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">'
    yield f"<title>Down-conversion over TCP, measured</title><style>{CSS}</style></head><body>"
    yield "<main><h1>Down-conversion over TCP, measured</h1>"
    yield f'<p class="lead">{escape(_lead(results))}</p><pre>{escape(command)}</pre>'
    for result in results:
        yield from _simulation(result)
    yield from _explained(results)
    yield "</main></body></html>\n"


def _lead(results: Sequence[LoadResult]) -> str:
    return f"A broker, its clients, and the network between them; {results[0].backend} kernel."


def _simulation(result: LoadResult) -> Iterator[str]:
    yield f"<section><h2>{escape(result.name)}</h2>"
    yield f'<p class="what">{escape(result.options.describe())}</p>'
    yield from _tiles(result)
    yield "<h3>Memory of the broker over time, and its peak</h3>" + memory_over_time(result)
    yield "<h3>Latency of fetches, by kind of clients</h3>" + latencies(result)
    if result.alone is not None:
        yield (
            '<div class="pair"><div><h3>Today\'s clients beside old ones, and p99</h3>'
            + fairness(result)
            + "</div><div><h3>CPU of the broker, by phase</h3>"
            + cpu(result)
            + "</div></div>"
        )
    else:
        yield "<h3>CPU of the broker, by phase</h3>" + cpu(result, WIDE)
    yield from _table(result)
    yield from _verdict(result)
    yield "</section>"


def _tiles(result: LoadResult) -> Iterator[str]:
    """Lazy beside eager, where a reader looks first."""
    if "lazy" not in result.runs or "eager" not in result.runs:
        return
    lazy, eager = result.runs["lazy"], result.runs["eager"]
    oldest = result.options.clients[0].kind
    yield '<div class="tiles">'
    yield _tile(
        "peak memory of the broker, above idle",
        format_size(lazy.peak),
        f"eager {format_size(eager.peak)}",
        compared(lazy.peak, eager.peak, "less"),
    )
    firsts = lazy.first_byte(oldest, 99), eager.first_byte(oldest, 99)
    yield _tile(
        f"until the first byte comes to clients of {oldest}, p99",
        format_seconds(firsts[0]),
        f"eager {format_seconds(firsts[1])}",
        compared(*firsts, "less"),
    )
    rates = lazy.records_per_second, eager.records_per_second
    yield _tile(
        "records a second to all clients",
        format_rate(rates[0]),
        f"eager {format_rate(rates[1])}",
        compared(*rates, "more"),
    )
    ratio = result.unfairness("lazy")
    if ratio is None and lazy.clients == 1:
        lasts = lazy.latency(oldest, 99), eager.latency(oldest, 99)
        yield _tile(
            "until its last byte comes, p99",
            format_seconds(lasts[0]),
            f"eager {format_seconds(lasts[1])}",
            compared(*lasts, "less"),
        )
    elif ratio is None:
        each = lazy.peak_per_client, eager.peak_per_client
        yield _tile(
            "peak memory for each client",
            format_size(each[0]),
            f"eager {format_size(each[1])}",
            compared(*each, "less"),
        )
    else:
        beside = result.unfairness("eager") or 0.0
        yield _tile(
            "p99 of today's clients beside old ones, by theirs alone",
            f"{ratio:.1f}x",
            f"eager {beside:.1f}x",
            ("within 2x" if ratio <= FAIR else "more than 2x", ratio <= FAIR),
        )
    yield "</div>"


def _tile(words: str, figure: str, beside: str, verdict: tuple[str, bool | None]) -> str:
    comparison, is_good = verdict
    return (
        f'<div class="tile"><div class="label">{words}</div><div class="figure">{figure}</div>'
        f'<div class="beside">{beside} <b class="{tone(is_good)}">{comparison}</b></div></div>'
    )


def _table(result: LoadResult) -> Iterator[str]:
    modes = list(result.runs)
    yield "<table><thead><tr><th></th>"
    for mode in modes:
        yield f'<th><i style="background:{COLOURS[mode]}"></i>{mode}</th>'
    yield "<th>lazy beside eager</th></tr></thead>"
    for group, of_group in groupby(figures(result), key=lambda figure: figure.group):
        yield f'<tbody><tr class="group"><td colspan="{len(modes) + 2}">{group}</td></tr>'
        for figure in of_group:
            yield _row(figure, result)
        yield "</tbody>"
    yield f'<tbody><tr class="group"><td colspan="{len(modes) + 2}">'
    yield "CPU of the broker, microseconds a record</td></tr>"
    by_mode = [phases_of(result, run) for run in result.runs.values()]
    for phase in by_mode[0]:
        cells = "".join(f"<td>{phases[phase]:.2f}</td>" for phases in by_mode)
        yield f"<tr><td>{phase}</td>{cells}<td></td></tr>"
    yield "</tbody></table>"


def _row(figure: Figure, result: LoadResult) -> str:
    cells = "".join(f"<td>{figure.shown(run)}</td>" for run in result.runs.values())
    words, is_good = figure.verdict(result)
    return f'<tr><td>{figure.label}</td>{cells}<td class="{tone(is_good)}">{words}</td></tr>'


def _verdict(result: LoadResult) -> Iterator[str]:
    failures = result.failures()
    for failure in failures:
        yield f'<p class="failed">failed: {escape(failure)}</p>'
    if not failures:
        answers = sum(run.answers for run in result.runs.values())
        yield (
            f'<p class="held">Checked {answers:,} answers, every byte; each is one of '
            f"{result.planned:,} that were decoded, and compared with an eager conversion.</p>"
        )


def _explained(results: Sequence[LoadResult]) -> Iterator[str]:
    yield '<section><h2>How it was measured</h2><dl class="modes">'
    for mode, words in _HOW:
        yield f"<dt>{mode}</dt><dd>{words}</dd>"
    yield "</dl><ul>"
    for note in _NOTES:
        yield f"<li>{note}</li>"
    yield "</ul>"
    for result in results:
        yield f'<h3>{escape(result.name)}</h3><dl class="facts">'
        facts = {**_facts(result.options), "kernel": result.backend, **environment()}
        for name, value in facts.items():
            yield f"<dt>{name}</dt><dd>{escape(value)}</dd>"
        yield "</dl>"
    yield "</section>"


def _facts(options: LoadOptions) -> dict[str, str]:
    clients = ", ".join(
        f"{group.count:,} of {group.kind} (Fetch v{group.version})" for group in options.clients
    )
    return {
        "topic": f"{options.workload}, in {options.partitions:,} partitions",
        "clients": clients,
        "slow clients": f"{sum(options.slow.of(options.clients)):,} at "
        f"{format_size(options.rate)}/s",
        "a fetch": f"{options.per_fetch} partitions, {format_size(options.max_bytes)} of each",
        "pause of today's clients": format_seconds(options.pause),
        "time": f"at least {options.seconds:g} s, and once through the partitions",
        "policy": options.policy,
    }
