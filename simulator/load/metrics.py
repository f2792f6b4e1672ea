"""The figures of a run over TCP, in display order; also for Prometheus."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, Literal

from prometheus_client import CollectorRegistry, Gauge, write_to_textfile

from records.units import format_count, format_seconds, format_size
from simulator.report.figures import Figure, count, cpu_seconds, throughput_figures
from simulator.rounds import Rounds

from .options import Group
from .phases import Shares
from .results import PERCENTILES, LoadResult, LoadRun

FAIR: Final = 2.0  # the factor by which latencies of current clients may grow because of old ones

MEMORY: Final = "memory of the broker"
_PHASES: Final = "CPU of the broker, us per record"


def figures(result: LoadResult) -> Iterator[Figure[LoadRun]]:
    """All of them, for the kinds of clients in the run."""
    yield Figure(MEMORY, "peak above idle", lambda run: run.peak, format_size, "less")
    yield Figure(MEMORY, "for each client", lambda run: run.peak_per_client, format_size, "less")
    yield Figure(MEMORY, "for connections alone", lambda run: run.connected, format_size)
    for group in result.options.clients:
        yield from _of_kind(group)
    yield from throughput_figures()
    yield Figure("work", "CPU of the broker", lambda run: run.served.cpu, cpu_seconds)
    yield Figure("work", "responses, all checked", lambda run: run.responses, count)
    for phase in next(iter(result.modes.values())).each[0].cpu(result.shares):
        yield _of_phase(phase, result.shares)


def _of_kind(group: Group) -> Iterator[Figure[LoadRun]]:
    title = title_of(group)
    for percent in (50, 99):
        yield _first_byte(title, group.kind, percent)
        yield _last_byte(title, group.kind, percent)


def title_of(group: Group) -> str:
    """The title of a kind's figures."""
    return f"fetches of {format_count(group.count, 'client')} of {group.kind}"


def _first_byte(title: str, kind: str, percent: int) -> Figure[LoadRun]:
    label = f"first byte, p{percent}"
    return Figure(
        title, label, lambda run: run.first_byte_of(kind, percent), format_seconds, "less"
    )


def _last_byte(title: str, kind: str, percent: int) -> Figure[LoadRun]:
    label = f"last byte, p{percent}"
    # The median is later by design, because lazy responses share turns.
    better: Literal["less", ""] = "less" if percent > 50 else ""
    return Figure(title, label, lambda run: run.last_byte_of(kind, percent), format_seconds, better)


def _of_phase(phase: str, shares: Shares) -> Figure[LoadRun]:
    return Figure(
        _PHASES, phase, lambda run: phases_of(run, shares)[phase], lambda value: f"{value:.2f}"
    )


def phases_of(run: LoadRun, shares: Shares) -> dict[str, float]:
    """CPU microseconds of the broker for a record that a client reads, by phase."""
    records = sum(stats.records for stats in run.kinds.values())
    return {phase: cpu / max(records, 1) * 1e6 for phase, cpu in run.cpu(shares).items()}


def write_prometheus(path: Path, results: list[LoadResult]) -> None:
    """Writes the file in Prometheus' text format, all of it or nothing. OSError: it fails."""
    registry = CollectorRegistry()

    def gauge(name: str, what: str, *labels: str) -> Gauge:
        names = ("simulation", "mode", *labels)
        return Gauge(f"simulation_{name}", what, names, registry=registry)

    peak = gauge("broker_peak_bytes", "Memory of the broker above idle.")
    cpu = gauge("broker_cpu_seconds", "CPU time of the broker.", "phase")
    rate = gauge("bytes_per_second", "What clients read.", "kind")
    records = gauge("records_per_second", "What clients read.", "kind")
    fetch = gauge("fetch_seconds", "From a request to its response's end.", "kind", "percentile")
    first = gauge("first_byte_seconds", "From a request to a response.", "kind", "percentile")
    responses = gauge("answers", "Responses, all of them checked.", "kind")
    wrong = gauge("wrong_answers", "Responses that were not as planned.", "kind")
    for result in results:
        for name, rounds in result.named.items():
            labels = (result.name, name)
            peak.labels(*labels).set(rounds.middle(lambda run: run.peak))
            one = rounds.each[0]
            for phase in one.cpu(result.shares):
                seconds = rounds.middle(_phase_seconds(phase, result.shares))
                cpu.labels(*labels, phase).set(seconds)
            for kind in one.kinds:
                of_kind = Rounds([run.kinds[kind] for run in rounds.each])
                each = [(run.seconds, run.kinds[kind]) for run in rounds.each]
                sizes = Rounds([stats.size / seconds for seconds, stats in each])
                counts = Rounds([stats.records / seconds for seconds, stats in each])
                rate.labels(*labels, kind).set(sizes.middle(float, higher=True))
                records.labels(*labels, kind).set(counts.middle(float, higher=True))
                responses.labels(*labels, kind).set(of_kind.total(lambda stats: stats.responses))
                wrong.labels(*labels, kind).set(of_kind.total(lambda stats: stats.wrong))
                for percent in PERCENTILES:
                    at = (*labels, kind, str(percent))
                    fetch.labels(*at).set(rounds.middle(_last_byte("", kind, percent).value))
                    first.labels(*at).set(rounds.middle(_first_byte("", kind, percent).value))
    write_to_textfile(str(path), registry)


def _phase_seconds(phase: str, shares: Shares) -> Callable[[LoadRun], float]:
    return lambda run: run.cpu(shares)[phase]
