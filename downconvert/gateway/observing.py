"""What a running gateway shows over HTTP: health, metrics, which clients use old versions.

/healthz    200 while it runs: to be restarted if not
/readyz     200 while the cluster answers and each broker has its port, else 503 and why
/metrics    for Prometheus
/clients    the census, as JSON: what `downconvert gateway --report` reads"""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import accumulate
from socketserver import ThreadingMixIn
from threading import Thread
from typing import Any, Final
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from prometheus_client import CollectorRegistry, make_wsgi_app
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from .census import OTHERS
from .figures import BUCKETS, Figures
from .server import Running
from .topology import Address

PREFIX: Final = "downconvert_gateway"
CLIENTS_MAX: Final = 100  # client ids, and addresses, that metrics name; others are one
COUNTERS: Final = (
    ("requests", "requests", "Requests of clients."),
    ("translated", "translated_requests", "Requests that the cluster does not take as they are."),
    ("records_converted", "converted_records", "Records converted to an older format."),
    ("bytes_converted", "converted_bytes", "Bytes of converted records sent to clients."),
)


class GatewayCollector(Collector):
    """The gateway's figures as they are when they are asked for."""

    def __init__(self, gateway: Running) -> None:
        self._gateway = gateway
        self._clients: set[tuple[str, str]] = set()  # that have series of their own

    def collect(self) -> Iterator[Metric]:
        figures = self._gateway.figures()
        for name, text, value in (
            ("processes", "Processes that serve.", figures.processes),
            ("connections", "Connections of clients.", figures.connections),
            ("brokers", "Brokers of the cluster that are known.", figures.brokers),
            ("ready", "1 while /readyz says so.", int(not figures.unready)),
            ("resident_memory_bytes", "Memory of all processes.", figures.resident_bytes),
        ):
            yield GaugeMetricFamily(f"{PREFIX}_{name}", text, value=value)
        yield CounterMetricFamily(
            f"{PREFIX}_cpu_seconds", "CPU time of all processes.", value=figures.cpu_seconds
        )
        yield _counter(
            "broker_failures", "Brokers that did not answer.", "broker", figures.failures
        )
        yield _counter("connections_ended", "Why connections ended.", "reason", figures.ends)
        yield _latencies(figures)
        yield from _by_version(figures.clients)
        yield from self._by_client(figures.clients)

    def _by_client(self, rows: list[dict[str, Any]]) -> Iterator[Metric]:
        """A series stays once it exists: the clients that came first keep theirs."""
        totals: dict[tuple[str, str], Counter[str]] = {}
        for row in rows:
            key = row["client_id"], row["address"]
            if key not in self._clients and len(self._clients) < CLIENTS_MAX:
                self._clients.add(key)
            known = totals.setdefault(key if key in self._clients else (OTHERS, OTHERS), Counter())
            known.update({name: row[name] for name, _, _ in COUNTERS})
        for name, called, text in COUNTERS:
            family = CounterMetricFamily(
                f"{PREFIX}_client_{called}", f"{text} By client.", labels=("client_id", "address")
            )
            for key, values in totals.items():
                family.add_metric(list(key), values[name])
            yield family


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


def _counter(name: str, text: str, label: str, values: Mapping[str, int]) -> Metric:
    family = CounterMetricFamily(f"{PREFIX}_{name}", text, labels=(label,))
    for value, times in values.items():
        family.add_metric([value], times)
    return family


def _latencies(figures: Figures) -> Metric:
    family = HistogramMetricFamily(
        f"{PREFIX}_request_duration_seconds",
        "From a request's arrival to the end of its answer, the cluster's time included.",
        labels=("api",),
    )
    bounds = [*map(floatToGoString, BUCKETS), "+Inf"]
    for api, latency in figures.latencies.items():
        upto = list(accumulate(latency.counts))
        family.add_metric([api], list(zip(bounds, upto, strict=True)), latency.seconds)
    return family


class Observation:
    """An HTTP server of its own thread, until it is closed. OSError: no such port."""

    def __init__(self, gateway: Running, address: Address) -> None:
        registry = CollectorRegistry()
        registry.register(GatewayCollector(gateway))
        self._server = make_server(
            address.host, address.port, _app(gateway, registry), _Server, _Quiet
        )
        self.address = Address(address.host, self._server.server_port)
        self._thread = Thread(target=self._server.serve_forever, name="observation", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True


class _Quiet(WSGIRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base's name
        """Scrapes are not logged."""


Start = Callable[[str, list[tuple[str, str]]], object]
App = Callable[[dict[str, Any], Start], Iterable[bytes]]


def _app(gateway: Running, registry: CollectorRegistry) -> App:
    metrics: App = make_wsgi_app(registry)

    def app(environ: dict[str, Any], start: Start) -> Iterable[bytes]:
        match environ.get("PATH_INFO"):
            case "/metrics":
                return metrics(environ, start)
            case "/clients":
                body = json.dumps(gateway.figures().clients)
                return _answer(start, "200 OK", "application/json", body)
            case "/healthz":
                return _state(start, [] if gateway.is_alive else ["it is not running"])
            case "/readyz":
                return _state(start, gateway.figures().unready)
            case _:
                said = "try /healthz /readyz /metrics /clients\n"
                return _answer(start, "404 Not Found", "text/plain", said)

    return app


def _state(start: Start, reasons: list[str]) -> list[bytes]:
    status = "503 Service Unavailable" if reasons else "200 OK"
    return _answer(start, status, "text/plain", "\n".join(reasons or ["ok"]) + "\n")


def _answer(start: Start, status: str, kind: str, body: str) -> list[bytes]:
    start(status, [("Content-Type", f"{kind}; charset=utf-8")])
    return [body.encode()]
