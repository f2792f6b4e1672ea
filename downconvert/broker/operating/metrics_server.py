"""A server's HTTP pages.

/healthz    200 while its threads run. Otherwise it should be restarted
/readyz     200 while it accepts connections and its disk accepts records, else 503 and the reasons
/metrics    for Prometheus

Not here: the metrics (metrics.py, gauges.py)."""

from collections.abc import Iterator

from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from downconvert.broker.server import Server
from downconvert.serving.pages import Pages, metrics_page, state_page

from .gauges import StateCollector, gauge


class MetricsServer(Pages):
    """An HTTP server with threads of its own, until it is closed. Raises OSError if it cannot
    listen at the port."""

    def __init__(self, server: Server, host: str, port: int) -> None:
        self._registry = server.broker.metrics.registry
        self._collectors: list[Collector] = [StateCollector(server.broker), _OfServer(server)]
        pages = {
            "/healthz": state_page(lambda: [] if server.is_alive else ["it is not running"]),
            "/readyz": state_page(server.unready),
            "/metrics": metrics_page(self._registry),
        }
        super().__init__(host, port, pages)
        for collector in self._collectors:
            self._registry.register(collector)

    @property
    def address(self) -> tuple[str, int]:
        """Host and port of its listener."""
        return self.where.host, self.where.port

    def close(self) -> None:
        super().close()
        for collector in self._collectors:
            self._registry.unregister(collector)


class _OfServer(Collector):
    def __init__(self, server: Server) -> None:
        self._server = server

    def collect(self) -> Iterator[Metric]:
        yield gauge("connections", "Connections of clients.", len(self._server.places))
        yield gauge("ready", "1 while /readyz is 200.", not self._server.unready())
