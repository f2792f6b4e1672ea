"""The metrics of a running gateway, for Prometheus.

If a gateway serves several clusters, each series of a cluster has a label `cluster`. Series of
processes have none.

Not here: the page (observing.py), counting (figures.py)."""

from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import accumulate
from typing import Any, Final

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from downconvert.protocol.errors import name_of
from downconvert.serving.process_figures import installed_version
from downconvert.serving.series import BUCKETS, CLIENTS_MAX, OTHERS, BoundedLabels

from .clusters import ONLY
from .figures import End, Figures, Latency, of_processes
from .server import Running

PREFIX: Final = "downconvert_gateway"
CLUSTER: Final = "cluster"
VERSION: Final = installed_version()
# Exported from the start: Prometheus sees no increase in a series that begins with 1.
NO_ENDS: Final = dict.fromkeys(map(str, End), 0)
COUNTERS: Final = (
    ("requests", "requests", "Requests of clients."),
    ("translated", "translated_requests", "Requests translated for the cluster."),
    ("records_converted", "converted_records", "Records converted to an older format."),
    ("bytes_converted", "converted_bytes", "Bytes of converted records sent to clients."),
)


class GatewayCollector(Collector):
    """Collects the current figures at each scrape. `clusters`: gateways by the names of their
    clusters."""

    def __init__(self, clusters: Mapping[str, Running]) -> None:
        self._clusters = clusters
        self._clients = {name: BoundedLabels(CLIENTS_MAX) for name in clusters}
        self._principals = {name: BoundedLabels(CLIENTS_MAX) for name in clusters}

    def collect(self) -> Iterator[Metric]:
        every = {name: one.figures() for name, one in self._clusters.items()}
        yield from _of_processes(of_processes(every.values()))
        families: dict[str, Metric] = {}
        for name, figures in every.items():
            for family in self._of_cluster(name, figures):
                samples = family.samples
                if name != ONLY:
                    samples = [
                        one._replace(labels={CLUSTER: name, **one.labels}) for one in samples
                    ]
                known = families.setdefault(family.name, family)
                known.samples = samples if known is family else [*known.samples, *samples]
        yield from families.values()

    def _of_cluster(self, name: str, figures: Figures) -> Iterator[Metric]:
        for called, text, value in (
            ("connections", "Connections of clients.", figures.connections),
            ("brokers", "Brokers of the cluster that are known.", figures.brokers),
            ("ready", "1 while /readyz is 200.", int(not figures.unready)),
        ):
            yield GaugeMetricFamily(f"{PREFIX}_{called}", text, value=value)
        yield from _limits(figures)
        yield from _by_process(figures)
        yield _counter(
            "broker_failures", "Brokers that did not respond.", "broker", figures.failures
        )
        ends = NO_ENDS | figures.ends
        yield _counter("connections_ended", "Connections that ended, by reason.", "reason", ends)
        yield _counter(
            "cluster_seconds",
            "Time from requests to brokers to the beginning of their responses.",
            "api",
            figures.cluster_seconds,
        )
        yield _counter(
            "throttled_seconds",
            "Time in which clients were not read from because of their rates.",
            "api",
            figures.throttled,
        )
        yield _errors(figures)
        yield _latencies(
            "request_duration_seconds",
            "From a request's arrival to the end of its response, the cluster's time included.",
            "api",
            figures.latencies,
        )
        yield from _by_rule(figures)
        yield _latencies(
            "broker_answer_duration_seconds",
            "From a request to a broker to the beginning of its response.",
            "broker",
            figures.broker_latencies,
        )
        yield from _by_version(figures.clients)
        clients, principals = self._clients[name], self._principals[name]
        yield from _by("client", ("client_id", "address"), clients, figures.clients)
        yield from _by("principal", ("principal", "rule"), principals, figures.clients)


def _of_processes(figures: Figures) -> Iterator[Metric]:
    build = GaugeMetricFamily(f"{PREFIX}_build_info", "1, by the version.", labels=("version",))
    build.add_metric([VERSION], 1)
    yield build
    for name, text, value in (
        ("processes", "Processes that serve.", figures.processes),
        ("resident_memory_bytes", "Memory of all processes.", figures.resident_bytes),
    ):
        yield GaugeMetricFamily(f"{PREFIX}_{name}", text, value=value)
    yield CounterMetricFamily(
        f"{PREFIX}_restarted_processes",
        "Processes that died and were restarted.",
        value=figures.restarted,
    )
    yield CounterMetricFamily(
        f"{PREFIX}_cpu_seconds", "CPU time of all processes.", value=figures.cpu_seconds
    )


def _limits(figures: Figures) -> Iterator[Metric]:
    """Resources that can run out."""
    free = GaugeMetricFamily(f"{PREFIX}_spool_free_bytes", "Free bytes on the disk of --spool-dir.")
    if figures.spool_free_bytes is not None:
        free.add_metric([], figures.spool_free_bytes)
    until = GaugeMetricFamily(
        f"{PREFIX}_certificate_valid_until_seconds",
        "When the listener's certificate ceases to be valid, since the epoch.",
    )
    if figures.certificate_until is not None:
        until.add_metric([], figures.certificate_until)
    rest = CounterMetricFamily(
        f"{PREFIX}_unreported_requests", "Requests of clients beyond the rows of the report."
    )
    others = [row for row in figures.clients if row["client_id"] == OTHERS]
    rest.add_metric([], sum(row["requests"] for row in others))
    yield from (free, until, rest)


def _by(
    called: str, labels: tuple[str, ...], kept: BoundedLabels, rows: list[dict[str, Any]]
) -> Iterator[Metric]:
    """The counts of the census by these columns. The first rows keep their own series, so no series
    disappears."""
    totals: dict[tuple[str, ...], Counter[str]] = {}
    for row in rows:
        known = totals.setdefault(kept.of(*(row[label] for label in labels)), Counter())
        known.update({name: row[name] for name, _, _ in COUNTERS})
    for name, counted, text in COUNTERS:
        family = CounterMetricFamily(
            f"{PREFIX}_{called}_{counted}", f"{text} By {called}.", labels=labels
        )
        for key, values in totals.items():
            family.add_metric(list(key), values[name])
        yield family


def _by_process(figures: Figures) -> Iterator[Metric]:
    """Metrics of each process. They show how evenly the system distributes clients."""
    connections = GaugeMetricFamily(
        f"{PREFIX}_process_connections",
        "Connections of clients, by process where there are several.",
        labels=("process",),
    )
    memory = GaugeMetricFamily(
        f"{PREFIX}_process_resident_memory_bytes",
        "Memory, by process where there are several.",
        labels=("process",),
    )
    for number, process in sorted(figures.each.items()):
        connections.add_metric([str(number)], process.connections)
        memory.add_metric([str(number)], process.resident_bytes)
    yield connections
    yield memory


def _by_rule(figures: Figures) -> Iterator[Metric]:
    """The requests of clients, by matching rule."""
    rules = {rule: one for rule, one in sorted(figures.served.items()) if rule}
    text = "From a request's arrival to the end of its response, by the rule of its client."
    latencies = {rule: one.latency for rule, one in rules.items()}
    yield _latencies("rule_request_duration_seconds", text, "rule", latencies)
    for name, text, sizes in (
        ("received", "Bytes of requests", {rule: one.received for rule, one in rules.items()}),
        ("sent", "Bytes of responses", {rule: one.sent for rule, one in rules.items()}),
    ):
        yield _counter(f"rule_{name}_bytes", f"{text}, by the rule of their client.", "rule", sizes)


def _by_version(rows: list[dict[str, Any]]) -> Iterator[Metric]:
    totals: dict[tuple[str, str], Counter[str]] = {}
    for row in rows:
        known = totals.setdefault((row["api"], str(row["version"])), Counter())
        known.update({name: row[name] for name, _, _ in COUNTERS})
    for name, called, text in COUNTERS:
        family = CounterMetricFamily(f"{PREFIX}_{called}", text, labels=("api", "version"))
        for key, values in totals.items():
            family.add_metric(list(key), values[name])
        yield family


def _counter(name: str, text: str, label: str, values: Mapping[str, float]) -> Metric:
    family = CounterMetricFamily(f"{PREFIX}_{name}", text, labels=(label,))
    for value, times in values.items():
        family.add_metric([value], times)
    return family


def _errors(figures: Figures) -> Metric:
    family = CounterMetricFamily(
        f"{PREFIX}_errors",
        "Errors in responses that the gateway makes or reads.",
        labels=("api", "code"),
    )
    for (api, code), times in figures.errors.items():
        family.add_metric([api, name_of(code)], times)
    return family


def _latencies(name: str, text: str, label: str, values: Mapping[str, Latency]) -> Metric:
    family = HistogramMetricFamily(f"{PREFIX}_{name}", text, labels=(label,))
    bounds = [*map(floatToGoString, BUCKETS), "+Inf"]
    for value, latency in values.items():
        upto = list(accumulate(latency.counts))
        family.add_metric([value], list(zip(bounds, upto, strict=True)), latency.seconds)
    return family
