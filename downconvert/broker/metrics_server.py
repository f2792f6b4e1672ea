"""What a server and its broker count, over HTTP for Prometheus: /metrics.

Not here: what is counted of requests (metrics.py)."""

from types import TracebackType
from typing import Self

from prometheus_client import Gauge, start_http_server

from .server import Server


class MetricsServer:
    """An HTTP server with a thread of its own, until it is closed. OSError: no such port."""

    def __init__(self, server: Server, host: str, port: int) -> None:
        registry = server.broker.metrics.registry
        connections = Gauge("connections", "Connections of clients.", registry=registry)
        connections.set_function(lambda: len(server.admission))
        self._host = host
        self._server, self._thread = start_http_server(port, host, registry)

    @property
    def address(self) -> tuple[str, int]:
        """Host and port that it listens at."""
        return self._host, self._server.server_port

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
