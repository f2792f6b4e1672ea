"""What a running gateway shows over HTTP: health, metrics, which clients use old versions.

/healthz    200 while it runs: to be restarted if not
/readyz     200 while the cluster answers and each broker has its port, else 503 and why
/metrics    for Prometheus
/clients    the census, as JSON: what `downconvert gateway --report` reads"""

import json
from collections.abc import Callable, Iterable, Iterator
from socketserver import ThreadingMixIn
from threading import Thread
from typing import Any, Final
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from prometheus_client import CollectorRegistry, make_wsgi_app
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from .server import Gateway
from .topology import Address

LABELS: Final = ("client_id", "software", "address", "api", "version")
COUNTERS: Final = (
    ("requests", "requests", "Requests of clients."),
    ("translated", "translated_requests", "Requests that the cluster does not take as they are."),
    ("records_converted", "converted_records", "Records converted to an older format."),
    ("bytes_converted", "converted_bytes", "Bytes of converted records sent to clients."),
)


class GatewayCollector(Collector):
    """The gateway's figures as they are when they are asked for."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    def collect(self) -> Iterator[Metric]:
        gateway = self._gateway
        connections = GaugeMetricFamily("gateway_connections", "Connections of clients.")
        connections.add_metric([], gateway.connections.total())
        yield connections
        brokers = GaugeMetricFamily("gateway_brokers", "Brokers of the cluster that are known.")
        brokers.add_metric([], len(gateway.topology.nodes))
        yield brokers
        ready = GaugeMetricFamily("gateway_ready", "1 while /readyz says so.")
        ready.add_metric([], not gateway.unready())
        yield ready
        failures = CounterMetricFamily(
            "gateway_broker_failures", "Brokers that did not answer.", labels=("broker",)
        )
        with gateway.lock:
            failed = dict(gateway.failures)
        for broker, times in failed.items():
            failures.add_metric([broker], times)
        yield failures
        rows = gateway.census.rows()
        for name, called, help_text in COUNTERS:
            family = CounterMetricFamily(f"gateway_{called}", help_text, labels=LABELS)
            for row in rows:
                family.add_metric([str(row[label]) for label in LABELS], row[name])
            yield family


class Observation:
    """An HTTP server of its own thread, until it is closed. OSError: no such port."""

    def __init__(self, gateway: Gateway, address: Address) -> None:
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
        """Nobody reads who reads metrics."""


Start = Callable[[str, list[tuple[str, str]]], object]
App = Callable[[dict[str, Any], Start], Iterable[bytes]]


def _app(gateway: Gateway, registry: CollectorRegistry) -> App:
    metrics: App = make_wsgi_app(registry)

    def app(environ: dict[str, Any], start: Start) -> Iterable[bytes]:
        match environ.get("PATH_INFO"):
            case "/metrics":
                return metrics(environ, start)
            case "/clients":
                body = json.dumps(gateway.census.rows())
                return _answer(start, "200 OK", "application/json", body)
            case "/healthz":
                return _state(start, [] if gateway.is_alive else ["it is not running"])
            case "/readyz":
                return _state(start, gateway.unready())
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
