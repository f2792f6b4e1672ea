"""Responses that a connection takes, and those that it does not wait for."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from socket import create_server, socket

import pytest

from downconvert.conformance import connection
from downconvert.conformance.connection import ConformanceError, Connection, SilentError
from downconvert.protocol.schemas import ApiKey, Message
from tests.ports import LOOPBACK

TIMEOUT = 0.3  # seconds


@contextmanager
def broker(response: Callable[[socket], None]) -> Iterator[Connection]:
    """A connection to a server that answers the first request so."""

    def serve(listener: socket) -> None:
        client, _ = listener.accept()
        with client, suppress(OSError):
            client.recv(4096)
            response(client)

    with create_server((LOOPBACK, 0)) as listener:
        thread = threading.Thread(target=serve, args=(listener,))
        thread.start()
        with closing(Connection(LOOPBACK, listener.getsockname()[1])) as connected:
            yield connected
        thread.join()


def ask(connected: Connection) -> Message:
    return connected.ask(ApiKey.ApiVersions, 0, Message())


def drip(client: socket) -> None:
    for byte in (1000).to_bytes(4) + bytes(1000):
        client.sendall(bytes([byte]))
        time.sleep(TIMEOUT / 10)


def test_a_response_that_comes_byte_by_byte_has_no_longer_time_than_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connection, "TIMEOUT", TIMEOUT)
    with broker(drip) as connected, pytest.raises(SilentError, match="no response within"):
        ask(connected)


def test_a_response_is_taken_in_pieces() -> None:
    def halves(client: socket) -> None:
        frame = (10).to_bytes(4) + (1).to_bytes(4) + bytes(6)
        client.sendall(frame[:7])
        time.sleep(0.05)
        client.sendall(frame[7:])

    with broker(halves) as connected:
        assert ask(connected).api_keys == []


@pytest.mark.parametrize(
    ("response", "words"),
    [
        (b"", "it closed the connection"),
        (b"\x15\x03\x03\0", "it speaks TLS: add --tls or --ca"),
        ((3).to_bytes(4), "a response of 3 bytes"),
        ((2**31 - 1).to_bytes(4), "a response of 2147483647 bytes"),
        ((10).to_bytes(4) + (7).to_bytes(4) + bytes(6), "a response to another request"),
        ((6).to_bytes(4) + (1).to_bytes(4) + bytes(2), "its response to ApiVersions v0 cannot be"),
    ],
)
def test_an_invalid_response_is_named(response: bytes, words: str) -> None:
    with (
        broker(lambda client: client.sendall(response)) as connected,
        pytest.raises(ConformanceError, match=words),
    ):
        ask(connected)
