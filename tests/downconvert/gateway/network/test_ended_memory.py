"""Connections that have ended leave their memory at once.

The collector of cycles may come minutes after thousands of them have left."""

import gc
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from downconvert.access.identity import Users
from downconvert.gateway.config import Limits
from downconvert.gateway.identity import Identities
from downconvert.gateway.network.connection import Connection
from downconvert.gateway.network.sockets.streams import Stream
from downconvert.gateway.server import Gateway
from downconvert.gateway.session.session import Session
from downconvert.protocol.schemas import ApiKey, Message
from tests.certificates import self_signed
from tests.downconvert.gateway.hanging import Hanging
from tests.downconvert.gateway.serving import LENGTH, Wire, cluster, gateway
from tests.downconvert.gateway.talk import fetch_body, message_set, produce_body
from tests.ports import free_ports
from tests.waiting import wait_for

from .test_passing import connected
from .unruly import reset

COUNT = 2
LARGE_SIZE, LARGE_COUNT = 900_000, 10
SMALL, LARGE = 0, 1  # offsets of records
LIMITS = Limits(request_timeout=1.2, idle_timeout=1.5)
OWN = 2  # of the gateway's own connection to the cluster


def connected_objects() -> int:
    """The number of objects that belong to connections."""
    return sum(isinstance(one, (Connection, Session, Stream)) for one in gc.get_objects())


@contextmanager
def nothing_left(running: Gateway) -> Iterator[None]:
    wait_for(lambda: not running.unready())
    gc.collect()
    gc.disable()
    before = connected_objects()
    try:
        yield
        wait_for(lambda: not running.places)
        wait_for(lambda: connected_objects() <= before + OWN, pause=0.05)
    finally:
        gc.enable()


def leaves(_: Wire, __: Hanging, ___: int) -> None:
    """It does no more."""


def says_nothing(client: Wire, _: Hanging, __: int) -> None:
    assert client.has_ended()


def is_reset_in_a_response(client: Wire, _: Hanging, version: int) -> None:
    client.send(ApiKey.Fetch, version, fetch_body(LARGE, max_bytes=1 << 25))
    client.take(100)
    reset(client.socket)


def does_not_read(client: Wire, broker: Hanging, version: int) -> None:
    client.send(ApiKey.Fetch, version, fetch_body(LARGE, max_bytes=1 << 25))
    client.take(100)
    wait_for(lambda: broker.open == 0)


def has_a_broker_that_ends(client: Wire, broker: Hanging, _: int) -> None:
    broker.drop()
    assert client.has_ended()


def has_a_broker_that_hangs(client: Wire, broker: Hanging, version: int) -> None:
    broker.hangs = True
    client.send(ApiKey.Fetch, version, fetch_body(SMALL, max_bytes=100))
    assert client.has_ended()
    broker.hangs = False


def has_a_broker_that_hangs_in_a_response(client: Wire, broker: Hanging, version: int) -> None:
    broker.left = 500_000
    client.send(ApiKey.Fetch, version, fetch_body(LARGE, max_bytes=1 << 25))
    client.take(100_000 if version > 3 else 0)
    wait_for(lambda: not broker.left)
    wait_for(lambda: broker.open == 0)
    broker.left = None


ENDS = (
    leaves,
    says_nothing,
    is_reset_in_a_response,
    does_not_read,
    has_a_broker_that_ends,
    has_a_broker_that_hangs,
    has_a_broker_that_hangs_in_a_response,
)


@pytest.mark.parametrize(
    ("version", "has_tls"),
    [(2, False), (12, False), (12, True)],
    ids=["translated", "passed", "over TLS"],
)
@pytest.mark.parametrize("end", ENDS)
def test_an_ended_connection_leaves_no_objects(
    tmp_path: Path, end: Callable[[Wire, Hanging, int], None], version: int, has_tls: bool
) -> None:
    certificate, key = self_signed(tmp_path) if has_tls else (None, None)
    (tmp_path / "log").mkdir()
    (port,) = free_ports(1)
    with (
        Hanging(port) as broker,
        cluster(tmp_path / "log", "t", port=port, advertise=broker.port),
        gateway(broker.port, limits=LIMITS, tls_cert=certificate, tls_key=key) as running,
    ):
        with connected(running, certificate) as client:
            for size in (10, *[LARGE_SIZE] * LARGE_COUNT):
                client.ask(ApiKey.Produce, 3, produce_body(message_set(2, bytes(size))))
        with nothing_left(running):
            for _ in range(COUNT):
                with connected(running, certificate) as client:
                    client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65_536)
                    for _ in range(2):
                        client.ask(ApiKey.Fetch, version, fetch_body(SMALL, max_bytes=100))
                    end(client, broker, version)


@pytest.mark.parametrize("version", [0, 1])
def test_a_refused_login_leaves_no_objects(tmp_path: Path, version: int) -> None:
    identities = Identities(users=Users({"ann": "secret"}))
    token = b"\0ann\0guess"
    with (
        cluster(tmp_path, "t") as (_, port),
        gateway(port, identities=identities) as running,
        nothing_left(running),
    ):
        for _ in range(COUNT):
            with Wire(running.address) as client:
                client.ask(ApiKey.SaslHandshake, version, Message(mechanism="PLAIN"))
                if version:
                    client.ask(ApiKey.SaslAuthenticate, 0, Message(auth_bytes=token))
                else:
                    client.socket.sendall(LENGTH.pack(len(token)) + token)
                assert client.has_ended()
