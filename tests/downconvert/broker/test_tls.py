"""TLS and SASL over real sockets."""

import socket
import ssl
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from scramp import ScramClient

from downconvert.broker import Broker
from downconvert.broker.server import Server
from downconvert.protocol.schemas import ApiKey, Message
from downconvert.serving.limits import Limits
from downconvert.serving.tls import server_context
from downconvert.storage import LogDir
from records.units import KiB

from .guarding import guard_of
from .talking import (
    API_VERSIONS,
    QUICK,
    SECONDS,
    Talk,
    eventually,
    fetched,
    serving,
    serving_broker,
)


@pytest.fixture
def secure(tmp_path: Path, certificate: tuple[Path, Path]) -> Iterator[Server]:
    tls = server_context(*certificate)
    with serving(tmp_path, batches=40, size=20 * KiB, tls=tls) as running:
        yield running


def test_requests_over_tls_are_answered_like_others(
    secure: Server, certificate: tuple[Path, Path]
) -> None:
    context = ssl.create_default_context(cafile=certificate[0])
    with Talk(secure.address, context) as talk:
        for version in (2, 4):
            assert fetched(talk, version)
        for _ in range(20):
            talk.send(*API_VERSIONS)
        for _ in range(20):
            assert talk.receive()


def test_a_client_that_need_not_log_in_keeps_its_place_under_tls_too(
    tmp_path: Path, certificate: tuple[Path, Path]
) -> None:
    theirs = ssl.create_default_context(cafile=certificate[0])
    tls = server_context(*certificate)
    with (
        serving(tmp_path, tls=tls, limits=Limits(connections=1)) as server,
        Talk(server.address, theirs) as talk,
    ):
        assert talk.is_served()
        with Talk(server.address) as other:
            assert other.has_ended()
        assert talk.is_served()


@pytest.mark.usefixtures("without_defects")
@pytest.mark.parametrize(
    "data", [b"", b"\x16", b"GET / HTTP/1.1\r\n\r\n", bytes(1000), b"\xff" * 1000]
)
def test_a_client_without_tls_is_disconnected(
    tmp_path: Path, certificate: tuple[Path, Path], data: bytes
) -> None:
    theirs = ssl.create_default_context(cafile=certificate[0])
    with serving(tmp_path, tls=server_context(*certificate), limits=QUICK) as server:
        with Talk(server.address) as talk:
            talk.socket.sendall(data)
            talk.drain()  # an alert
        # On a busy machine a handshake may take longer than this server allows.
        assert eventually(lambda: Talk(server.address, theirs), lambda other: other.is_served())


@pytest.mark.usefixtures("without_defects")
def test_garbage_behind_a_handshake_ends_its_connection_alone(
    secure: Server, certificate: tuple[Path, Path]
) -> None:
    context = ssl.create_default_context(cafile=certificate[0])
    with Talk(secure.address, context) as talk, Talk(secure.address, context) as other:
        assert talk.is_served()
        raw = socket.socket(fileno=talk.socket.detach())
        raw.settimeout(SECONDS)
        with raw:
            raw.sendall(b"\x17\x03\x03\x00\x10" + bytes(16))
            with suppress(ConnectionError):
                while raw.recv(1000):  # an alert
                    pass
        assert other.is_served()


def test_a_client_that_does_not_authenticate_is_not_served(tmp_path: Path) -> None:
    broker = Broker(LogDir.open(tmp_path))
    broker.guard = guard_of({"alice": "wonderland"})
    with serving_broker(broker, limits=QUICK) as server:
        with Talk(server.address) as talk:
            talk.send(ApiKey.Metadata, 0, Message(topics=[]))
            assert talk.has_ended()
        with Talk(server.address) as talk:
            with suppress(ConnectionError):  # it may be cut off before it has sent all
                talk.send_frame(bytes(600_000))
            assert talk.has_ended()
        assert eventually(  # it may ask for versions, but not stay
            lambda: Talk(server.address), lambda talk: talk.is_served() and talk.has_ended()
        )


def test_an_authenticated_client_is_served(tmp_path: Path) -> None:
    broker = Broker(LogDir.open(tmp_path))
    broker.guard = guard_of({"alice": "wonderland"})
    with serving_broker(broker) as server, Talk(server.address) as talk:
        theirs = ScramClient(["SCRAM-SHA-512"], "alice", "wonderland")
        talk.ask(ApiKey.SaslHandshake, 1, Message(mechanism="SCRAM-SHA-512"))
        body = Message(auth_bytes=theirs.get_client_first().encode())
        first = talk.ask(ApiKey.SaslAuthenticate, 0, body)
        theirs.set_server_first(bytes(first.auth_bytes).decode())
        body = Message(auth_bytes=theirs.get_client_final().encode())
        assert talk.ask(ApiKey.SaslAuthenticate, 0, body).error_code == 0
        assert talk.ask(ApiKey.Metadata, 1, Message(topics=None)).topics == []


def test_a_client_with_a_wrong_password_gets_an_error_and_is_disconnected(tmp_path: Path) -> None:
    broker = Broker(LogDir.open(tmp_path))
    broker.guard = guard_of({"alice": "wonderland"})
    with serving_broker(broker) as server, Talk(server.address) as talk:
        talk.ask(ApiKey.SaslHandshake, 1, Message(mechanism="PLAIN"))
        refused = talk.ask(ApiKey.SaslAuthenticate, 0, Message(auth_bytes=b"\0alice\0wrong"))
        assert refused.error_code == 58
        assert talk.has_ended()
