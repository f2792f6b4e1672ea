"""The page of metrics, and the server of pages."""

import socket
import struct
import time
from socketserver import TCPServer
from typing import Any
from wsgiref.util import setup_testing_defaults

import pytest
from prometheus_client import CollectorRegistry, Counter

from downconvert.serving.pages import Pages, metrics_page, text_page
from tests.descriptors import no_more_files


def page(registry: CollectorRegistry, query: str = "") -> str:
    environ: dict[str, object] = {"QUERY_STRING": query}
    setup_testing_defaults(environ)
    return b"".join(metrics_page(registry)(environ, lambda *_: None)).decode()


def test_a_counter_is_one_series_and_not_two() -> None:
    registry = CollectorRegistry()
    Counter("requests", "Requests.", registry=registry).inc(3)
    Counter("answered", "Answers.", registry=registry).inc(2)
    shown = page(registry)
    assert "requests_total 3.0" in shown
    assert "answered_total 2.0" in shown
    assert "_created" not in shown


def test_some_metrics_are_selected_by_name() -> None:
    registry = CollectorRegistry()
    Counter("requests", "Requests.", registry=registry).inc(3)
    Counter("answered", "Answers.", registry=registry).inc(2)
    shown = page(registry, "name[]=requests_total")
    assert "requests_total 3.0" in shown
    assert "answered" not in shown
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
            time.sleep(0.3)
        assert 0 < len(tries) < 20
        client.sendall(b"GET / HTTP/1.0\r\n\r\n")
        client.settimeout(10.0)
        with client.makefile("rb") as answer:
            assert answer.read().endswith(b"here")


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
                    client.settimeout(10.0)
                    assert b"here" not in client.recv(1000), "closed, or refused"
        time.sleep(0.3)
    assert capfd.readouterr().err == ""
