"""The page of metrics, and the server of pages."""

import errno
import os
import socket
import struct
import time
from contextlib import ExitStack, suppress
from socketserver import TCPServer
from threading import active_count
from typing import Any
from wsgiref.util import setup_testing_defaults

import pytest
from prometheus_client import CollectorRegistry, Counter

from downconvert.serving.pages import CLIENTS_MAX, POLL_SECONDS, Pages, metrics_page, text_page
from tests.descriptors import no_more_files
from tests.waiting import wait_for


def page(registry: CollectorRegistry, query: str = "") -> str:
    environ: dict[str, object] = {"QUERY_STRING": query}
    setup_testing_defaults(environ)
    return b"".join(metrics_page(registry)(environ, lambda *_: None)).decode()


@pytest.mark.parametrize(("query", "is_shown"), [("", True), ("name[]=requests_total", False)])
def test_a_counter_is_one_series_and_is_selected_by_name(query: str, is_shown: bool) -> None:
    registry = CollectorRegistry()
    Counter("requests", "Requests.", registry=registry).inc(3)
    Counter("answered", "Answers.", registry=registry).inc(2)
    shown = page(registry, query)
    assert "requests_total 3.0" in shown
    assert ("answered_total 2.0" in shown) == ("answered" in shown) == is_shown
    assert "_created" not in shown


def test_a_client_that_cannot_be_accepted_is_tried_a_few_times_and_served_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """All files that the process may open are open. Its other clients need the processor."""
    tries, accept = list[float](), TCPServer.get_request

    def counted(server: TCPServer) -> Any:
        tries.append(time.monotonic())
        return accept(server)

    monkeypatch.setattr(TCPServer, "get_request", counted)
    with (
        Pages("127.0.0.1", 0, {"/": text_page(lambda: "here")}) as pages,
        socket.socket() as client,
    ):
        with no_more_files():
            client.connect((pages.where.host, pages.where.port))
            began = time.monotonic()
            wait_for(lambda: bool(tries))
            time.sleep(0.3)
            assert len(tries) < 5 + (time.monotonic() - began) / POLL_SECONDS
        client.sendall(b"GET / HTTP/1.0\r\n\r\n")
        client.settimeout(60.0)
        with client.makefile("rb") as response:
            assert response.read().endswith(b"here")


def test_head_gets_the_headers_of_the_page_and_no_body() -> None:
    registry = CollectorRegistry()
    Counter("requests", "Requests.", registry=registry).inc(3)
    shown = {"/": text_page(lambda: "here"), "/metrics": metrics_page(registry)}
    with Pages("127.0.0.1", 0, shown) as pages:
        for path in ("/", "/metrics", "/none"):
            got, head = (exchanged(pages, method, path) for method in (b"GET", b"HEAD"))
            assert got[0] == head[0]
            assert f"Content-Length: {len(got[1])}".encode() in head[0].splitlines()
            assert got[1]
            assert not head[1]


def exchanged(pages: Pages, method: bytes, path: str) -> tuple[bytes, bytes]:
    """The status and headers of a response, without its date, and its body."""
    with connected(pages) as client:
        client.sendall(method + f" {path} HTTP/1.0\r\n\r\n".encode())
        with client.makefile("rb") as response:
            head, _, body = response.read().partition(b"\r\n\r\n")
    lines = [line for line in head.splitlines() if not line.startswith(b"Date:")]
    return b"\n".join(lines), body


def connected(pages: Pages) -> socket.socket:
    return socket.create_connection((pages.where.host, pages.where.port), timeout=60.0)


def test_a_client_that_stops_reading_is_disconnected_and_leaves_no_line_in_the_log(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("downconvert.serving.pages._Handler.timeout", 0.2)
    large = "x" * (16 << 20)
    ended, shut_down = list[Any](), TCPServer.shutdown_request

    def noted(server: TCPServer, request: Any) -> None:
        shut_down(server, request)
        ended.append(request)

    monkeypatch.setattr(TCPServer, "shutdown_request", noted)
    with (
        Pages("127.0.0.1", 0, {"/": text_page(lambda: large)}) as pages,
        connected(pages) as client,
    ):
        client.sendall(b"GET / HTTP/1.0\r\n\r\n")
        wait_for(lambda: bool(ended))
        with client.makefile("rb") as response:
            size = 0
            with suppress(ConnectionError):
                while some := response.read1():
                    size += len(some)
        assert 0 < size < len(large)
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("number", [errno.ECONNRESET, errno.ENOTCONN, errno.EHOSTUNREACH])
def test_a_client_that_has_gone_leaves_no_line_in_the_log_whatever_the_system_says(
    number: int, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def gone(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr("downconvert.serving.pages._Handler.send_response", gone)
    with (
        Pages("127.0.0.1", 0, {"/": text_page(lambda: "here")}) as pages,
        connected(pages) as client,
    ):
        client.sendall(b"GET / HTTP/1.0\r\n\r\n")
        assert client.recv(1000) == b""
    assert capfd.readouterr().err == ""


def test_a_page_that_fails_is_an_error_and_the_reason_is_in_the_log(
    capfd: pytest.CaptureFixture[str],
) -> None:
    def failing() -> str:
        raise ValueError("no such thing")

    with Pages("127.0.0.1", 0, {"/": text_page(failing)}) as pages:
        head, _ = exchanged(pages, b"GET", "/")
        assert head.split()[1] == b"500"
    assert "ValueError: no such thing" in capfd.readouterr().err


def test_clients_that_say_nothing_take_few_threads_and_others_get_their_pages() -> None:
    before = active_count()
    with Pages("127.0.0.1", 0, {"/": text_page(lambda: "here")}) as pages, ExitStack() as stack:
        silent = [stack.enter_context(connected(pages)) for _ in range(3 * CLIENTS_MAX)]
        assert exchanged(pages, b"GET", "/")[1] == b"here"
        wait_for(lambda: active_count() <= before + CLIENTS_MAX + 1)
        for client in silent[:CLIENTS_MAX]:
            with suppress(ConnectionError):
                assert client.recv(1) == b"", "the oldest ones have to go"
    wait_for(lambda: active_count() <= before)


def test_a_client_keeps_its_connection_while_any_number_of_others_come_and_go() -> None:
    with Pages("127.0.0.1", 0, {"/": text_page(lambda: "here")}) as pages, connected(pages) as slow:
        slow.sendall(b"GET / HT")
        for _ in range(CLIENTS_MAX + 5):
            assert exchanged(pages, b"GET", "/")[1] == b"here"
        slow.sendall(b"TP/1.0\r\n\r\n")
        with slow.makefile("rb") as response:
            assert response.read().endswith(b"here")


@pytest.mark.parametrize("sent", [b"", b"GET / HT", b"GET / HTTP/1.0\r\nA: b"])
def test_a_client_that_sends_no_whole_request_leaves_no_line_in_the_log(
    sent: bytes, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """A health check by TCP, a port scan, or a browser's connection in advance."""
    monkeypatch.setattr("downconvert.serving.pages._Handler.timeout", 0.1)
    with Pages("127.0.0.1", 0, {"/": text_page(lambda: "here")}) as pages:
        for is_reset in (False, True):
            with socket.create_connection((pages.where.host, pages.where.port)) as client:
                client.sendall(sent)
                if is_reset:
                    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                else:
                    client.settimeout(60.0)
                    assert b"here" not in client.recv(1000), "closed, or refused"
        time.sleep(0.3)
    assert capfd.readouterr().err == ""
