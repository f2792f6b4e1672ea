"""HTTP pages for operators of a server: health, metrics, and others.

A page is made anew for each request. Not here: the list of pages (metrics_server.py, and the
gateway's observing.py)."""

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from socket import socket
from socketserver import ThreadingMixIn
from threading import Thread
from time import sleep
from typing import Any, Final, Self, TypeAlias
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from prometheus_client import CollectorRegistry, make_wsgi_app
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

Start: TypeAlias = Callable[[str, list[tuple[str, str]]], object]
Page: TypeAlias = Callable[[dict[str, Any], Start], Iterable[bytes]]  # a WSGI application

POLL_SECONDS: Final = 0.05  # after which the listener sees that it is to close
SECONDS_MAX: Final = 30.0  # for a client to send its request and to receive its page


def text_page(text: Callable[[], str], status: str = "200 OK") -> Page:
    """Plain text."""
    return lambda _, start: _answer(start, status, "text/plain", text())


def json_page(value: Callable[[], object]) -> Page:
    return lambda _, start: _answer(start, "200 OK", "application/json", json.dumps(value()))


def state_page(reasons: Callable[[], list[str]]) -> Page:
    """200 if there are no reasons, else 503 and the reasons."""

    def page(_: dict[str, Any], start: Start) -> Iterable[bytes]:
        found = reasons()
        status = "503 Service Unavailable" if found else "200 OK"
        return _answer(start, status, "text/plain", "\n".join(found or ["ok"]) + "\n")

    return page


def metrics_page(registry: CollectorRegistry) -> Page:
    """Metrics for Prometheus, without `_created`: that would be a second series per counter."""
    page: Page = make_wsgi_app(_Shown(registry))
    return page


class _Shown:
    """The visible part of a registry, with the interface that the page needs."""

    def __init__(self, registry: Collector) -> None:
        self._registry = registry

    def collect(self) -> Iterator[Metric]:
        for family in self._registry.collect():
            created = f"{family.name}_created"
            family.samples = [sample for sample in family.samples if sample.name != created]
            yield family

    def restricted_registry(self, names: Iterable[str]) -> "_Shown":
        """The metrics of these names only."""
        assert isinstance(self._registry, CollectorRegistry)
        return _Shown(self._registry.restricted_registry(names))


@dataclass(frozen=True, slots=True)
class Where:
    """Host and port of the listener."""

    host: str
    port: int


class Pages:
    """An HTTP server with threads of its own, until it is closed. Raises OSError if it cannot
    listen at the port."""

    def __init__(self, host: str, port: int, pages: Mapping[str, Page]) -> None:
        """`pages`: by their paths."""
        known = " ".join(pages)
        other = text_page(lambda: f"try {known}\n", "404 Not Found")

        def app(environ: dict[str, Any], start: Start) -> Iterable[bytes]:
            return pages.get(environ.get("PATH_INFO", ""), other)(environ, start)

        self._server = make_server(host, port, app, _Server, _Handler)
        self.where = Where(host, self._server.server_port)
        self._thread = Thread(
            target=self._server.serve_forever, args=(POLL_SECONDS,), name="pages", daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True

    def get_request(self) -> tuple[socket, Any]:
        """The next client. OSError: it has gone, or there are too many files."""
        try:
            return super().get_request()
        except OSError:
            sleep(POLL_SECONDS)  # a client that cannot be accepted stays ready to be
            raise

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Prints a defect. A client that sends no request in time, or goes away, is none."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)


class _Handler(WSGIRequestHandler):
    timeout = SECONDS_MAX

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base's name
        """Does not log scrapes."""


def _answer(start: Start, status: str, kind: str, body: str) -> list[bytes]:
    start(status, [("Content-Type", f"{kind}; charset=utf-8")])
    return [body.encode()]
