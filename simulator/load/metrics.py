"""The figures of a run over TCP, in the order in which they are shown: what each is called, which
way is better; and the same for Prometheus.

Not here: how they were measured (load.py), the tables they stand in (load_table.py,
load_report.py)."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from prometheus_client import CollectorRegistry, Gauge, write_to_textfile

from records.units import format_count, format_rate, format_seconds, format_size
from simulator.fetch.metrics import compared
from simulator.fetch.options import Mode

from .options import Group
from .results import PERCENTILES, LoadResult, LoadRun

FAIR: Final = 2.0  # times as long: what today's clients may wait because of old ones
ALONE: Final = "alone"  # the run of today's clients without old ones


@dataclass(frozen=True, slots=True)
class Figure:
    """One row of a table. `better` is empty where it is not a merit."""

    group: str
    label: str
    value: Callable[[LoadRun], float]
    text: Callable[[float], str]
    better: Literal["less", "more", ""] = ""

    def shown(self, run: LoadRun) -> str:
        return self.text(self.value(run))

    def verdict(self, result: LoadResult) -> tuple[str, bool | None]:
        """Lazy beside eager in words ("21x less"), and whether that is good; None: neither."""
        if not self.better or "lazy" not in result.runs or "eager" not in result.runs:
            return "", None
        lazy, eager = (self.value(result.runs[mode]) for mode in ("lazy", "eager"))
        return compared(lazy, eager, self.better)


def figures(result: LoadResult) -> Iterator[Figure]:
    """All of them, for the kinds of clients that there were."""
    yield Figure("memory of the broker", "peak above idle", _peak, format_size, "less")
    yield Figure("memory of the broker", "for each client", _peak_per_client, format_size, "less")
    yield Figure("memory of the broker", "for connections alone", _connected, format_size)
    for group in result.options.clients:
        yield from _of_kind(group)
    yield Figure("work", "bytes a second", lambda run: run.bytes_per_second, _megabytes, "more")
    yield Figure(
        "work", "records a second", lambda run: run.records_per_second, format_rate, "more"
    )
    yield Figure(
        "work",
        "records a CPU second",
        lambda run: run.records_per_cpu_second,
        format_rate,
        "more",
    )
    yield Figure("work", "CPU of the broker", lambda run: run.served.cpu, _cpu)
    yield Figure("work", "answers, all checked", lambda run: run.answers, _count)


def _of_kind(group: Group) -> Iterator[Figure]:
    title = f"fetches of {format_count(group.count, 'client')} of {group.kind}"
    kind = group.kind
    for percent in (50, 99):
        yield Figure(
            title,
            f"first byte, p{percent}",
            lambda run, percent=percent: run.first_byte(kind, percent),  # type: ignore[misc]
            format_seconds,
            "less",
        )
        yield Figure(
            title,
            f"last byte, p{percent}",
            lambda run, percent=percent: run.latency(kind, percent),  # type: ignore[misc]
            format_seconds,
            "less",
        )


def phases_of(result: LoadResult, run: LoadRun) -> dict[str, float]:
    """CPU seconds of the broker for a million records that clients read, by phase."""
    records = sum(heard.records for heard in run.kinds.values())
    cpu = run.cpu(result.shares)
    return {phase: seconds / max(records, 1) * 1e6 for phase, seconds in cpu.items()}


def write_prometheus(path: Path, results: list[LoadResult]) -> None:
    """Writes the file in Prometheus' text format, all of it or nothing. OSError: it cannot be."""
    registry = CollectorRegistry()

    def gauge(name: str, what: str, *labels: str) -> Gauge:
        names = ("simulation", "mode", *labels)
        return Gauge(f"simulation_{name}", what, names, registry=registry)

    peak = gauge("broker_peak_bytes", "Memory of the broker above idle.")
    cpu = gauge("broker_cpu_seconds", "CPU time of the broker.", "phase")
    rate = gauge("bytes_per_second", "What clients read.", "kind")
    records = gauge("records_per_second", "What clients read.", "kind")
    fetch = gauge("fetch_seconds", "From a request to its answer's end.", "kind", "percentile")
    first = gauge("first_byte_seconds", "From a request to an answer.", "kind", "percentile")
    answers = gauge("answers", "Answers, all of them checked.", "kind")
    wrong = gauge("wrong_answers", "Answers that were not as planned.", "kind")
    for result in results:
        for mode, run in all_runs(result):
            labels = (result.name, mode)
            peak.labels(*labels).set(run.peak)
            for phase, seconds in run.cpu(result.shares).items():
                cpu.labels(*labels, phase).set(seconds)
            for kind, heard in run.kinds.items():
                rate.labels(*labels, kind).set(heard.size / run.seconds)
                records.labels(*labels, kind).set(heard.records / run.seconds)
                answers.labels(*labels, kind).set(heard.answers)
                wrong.labels(*labels, kind).set(heard.wrong)
                for percent in PERCENTILES:
                    at = (*labels, kind, str(percent))
                    fetch.labels(*at).set(run.latency(kind, percent))
                    first.labels(*at).set(run.first_byte(kind, percent))
    write_to_textfile(str(path), registry)


def all_runs(result: LoadResult) -> Iterator[tuple[Mode | Literal["alone"], LoadRun]]:
    """That of today's clients alone first, where there is one."""
    if result.alone is not None:
        yield ALONE, result.alone
    yield from result.runs.items()


def _peak(run: LoadRun) -> float:
    return run.peak


def _peak_per_client(run: LoadRun) -> float:
    return run.peak_per_client


def _connected(run: LoadRun) -> float:
    return run.connected


def _megabytes(value: float) -> str:
    return f"{value / 1e6:,.0f} MB/s"


def _count(value: float) -> str:
    return f"{value:,.0f}"


def _cpu(value: float) -> str:
    return f"{value:.2f} s"
