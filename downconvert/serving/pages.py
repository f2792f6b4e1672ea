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
    """A thread for each client, up to CLIENTS_MAX. If there are so many, the oldest connection of
    the address with the most of them ends, and the next client waits for its thread."""

    daemon_threads = True
    request_queue_size = 128  # clients that the system holds; a scraper beyond waits for a second

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._places = Places()
        self._free = BoundedSemaphore(CLIENTS_MAX)  # threads that may still begin
        self._taken: dict[socket, Place] = {}

    def get_request(self) -> tuple[socket, Any]:
        """The next client. OSError: it has gone, or there are too many files."""
        try:
            return super().get_request()
        except OSError:
            sleep(POLL_SECONDS)  # a client that cannot be accepted stays ready to be
            raise

    def process_request(self, request: Any, client_address: Any) -> None:
        place = self._places.take(client_address[0], CLIENTS_MAX, CLIENTS_MAX)
        place.on_evicted = partial(_end, request)
        self._taken[request] = place
        self._free.acquire()
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        """The last step for a client, in its thread if that was begun."""
        super().shutdown_request(request)
        place = self._taken.pop(request, None)
        if place is not None:
            place.release()
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Prints a defect. A client that sends no request in time, or goes away, is none."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)


def _end(client: socket) -> None:
    with suppress(OSError):  # it has gone
        client.shutdown(SHUT_RDWR)


class _Handler(WSGIRequestHandler):
    """Answers GET and HEAD. A client that takes too long is disconnected without a word."""

    timeout = SECONDS_MAX
    handle = BaseHTTPRequestHandler.handle  # that of the other base knows no HEAD

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
