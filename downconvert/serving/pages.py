"""HTTP pages for operators of a server: health, metrics, and others.

A page is recreated for each request. Not here: the list of pages (metrics_server.py, and the
gateway's observing.py)."""

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from socket import SHUT_RDWR, socket
from socketserver import ThreadingMixIn
from threading import BoundedSemaphore, Thread
from time import sleep
from typing import Any, Final, Self, TypeAlias
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from prometheus_client import CollectorRegistry, make_wsgi_app
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from .places import Place, Places

Start: TypeAlias = Callable[[str, list[tuple[str, str]]], object]
Page: TypeAlias = Callable[[dict[str, Any], Start], Iterable[bytes]]  # a WSGI application

CLIENTS_MAX: Final = 32  # at a time
POLL_SECONDS: Final = 0.05  # between two checks whether the listener must close
SECONDS_MAX: Final = 30.0  # for a client's request and its page together


def text_page(text: Callable[[], str], status: str = "200 OK") -> Page:
    """Plain text."""
    return lambda _, start: _answer(start, status, "text/plain", text())


def json_page(value: Callable[[], object]) -> Page:
    return lambda _, start: _answer(start, "200 OK", "application/json", json.dumps(value()))


def state_page(reasons: Callable[[], list[str]]) -> Page:
    """Status 200 if there are no reasons, else 503 with the reasons."""

    def page(_: dict[str, Any], start: Start) -> Iterable[bytes]:
        found = reasons()
        status = "503 Service Unavailable" if found else "200 OK"
        return _answer(start, status, "text/plain", "\n".join(found or ["ok"]) + "\n")

    return page


def metrics_page(registry: CollectorRegistry) -> Page:
    """Metrics for Prometheus. Series `_created` are omitted, because they would double the series
    of counters."""
    page: Page = make_wsgi_app(_Shown(registry))
    return page


class _Shown:
    """A registry for the metrics page, without the hidden series."""

    def __init__(self, registry: Collector) -> None:
        self._registry = registry

    def collect(self) -> Iterator[Metric]:
        for family in self._registry.collect():
            created = f"{family.name}_created"
            family.samples = [sample for sample in family.samples if sample.name != created]
            yield family

    def restricted_registry(self, names: Iterable[str]) -> "_Shown":
        """Only the metrics with these names."""
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
        """`pages`: pages by path."""
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
    """A thread for each client, up to CLIENTS_MAX. At the limit, the server closes the oldest
    connection of the address that has the most, and the next client gets its thread."""

    daemon_threads = True
    # Pending connections in the system. Further clients retry after a second.
    request_queue_size = 128

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._places = Places()
        self._free = BoundedSemaphore(CLIENTS_MAX)  # threads that may still begin
        self._taken: dict[socket, Place] = {}

    def get_request(self) -> tuple[socket, Any]:
        """The next client. OSError: it has gone, or too many files are open."""
        try:
            return super().get_request()
        except OSError:
            sleep(POLL_SECONDS)  # the client still waits, so no busy loop
            raise

    def process_request(self, request: Any, client_address: Any) -> None:
        place = self._places.take(client_address[0], CLIENTS_MAX, CLIENTS_MAX)
        place.on_evicted = partial(_end, request)
        self._taken[request] = place
        self._free.acquire()
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        """The last step for a client, in its thread if one was started."""
        super().shutdown_request(request)
        place = self._taken.pop(request, None)
        if place is not None:
            place.release()
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Prints an unexpected error. A client that goes away, or sends no request in time, is not
        one."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)


def _end(client: socket) -> None:
    with suppress(OSError):  # it has gone
        client.shutdown(SHUT_RDWR)


class _Handler(WSGIRequestHandler):
    """Answers GET and HEAD. A client that takes too long is disconnected without a response."""

    timeout = SECONDS_MAX
    handle = BaseHTTPRequestHandler.handle  # wsgiref's own method does not support HEAD

    def do_GET(self) -> None:  # noqa: N802 - the base finds it by this name
        started: list[tuple[str, list[tuple[str, str]]]] = []
        page: Page = self.server.get_app()  # type: ignore[attr-defined]
        try:
            environ = self.get_environ() | {"REQUEST_METHOD": "GET"}
            body = b"".join(page(environ, lambda *start: started.append(start)))
        except Exception:
            self.send_error(HTTPStatus.INTERNAL_SERVER_ERROR)
            raise
        ((status, headers),) = started
        code, _, reason = status.partition(" ")
        self.send_response(int(code), reason)
        for header in (*headers, ("Content-Length", str(len(body)))):
            self.send_header(*header)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    do_HEAD = do_GET  # noqa: N815 - as do_GET

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base's name
        """Does not log scrapes."""


def _answer(start: Start, status: str, kind: str, body: str) -> list[bytes]:
    start(status, [("Content-Type", f"{kind}; charset=utf-8")])
    return [body.encode()]
