"""No line of a log begins with, or is bent by, what a client has sent: of `serve`, and of the
gateway, for every text of every request."""

import logging
import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import StringIO
from pathlib import Path
from typing import Final

import pytest

from downconvert.access.guard import Guard
from downconvert.access.identity import Identities, Users
from downconvert.broker import Broker, BrokerConfig
from downconvert.broker.server import Server
from downconvert.cli.logs import INDENT, Lines
from downconvert.gateway.topology import Address
from downconvert.protocol.schemas import ApiKey, Message
from downconvert.storage import LogDir
from tests.downconvert.broker.asking import frame
from tests.downconvert.broker.forging import FORGED, forging_logins, forging_requests
from tests.waiting import wait_for

from .serving import LENGTH, Wire, cluster, gateway

LINE: Final = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} (.*)")
IDENTITIES: Final = Identities(users=Users({"ann": "secret"}))


@contextmanager
def logged() -> Iterator[StringIO]:
    """The lines that the command shows with -v."""
    shown = StringIO()
    handler = logging.StreamHandler(shown)
    handler.setFormatter(Lines())
    log = logging.getLogger("downconvert")
    level, propagates = log.level, log.propagate
    log.addHandler(handler)
    log.setLevel(logging.DEBUG)
    log.propagate = False
    try:
        yield shown
    finally:
        log.removeHandler(handler)
        log.setLevel(level)
        log.propagate = propagates


@pytest.fixture(params=["serve", "gateway"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Address]:
    """A server without users."""
    if request.param == "gateway":
        with cluster(tmp_path, "t") as (_, port), gateway(port) as running:
            wait_for(lambda: running.topology.api_versions is not None)
            yield running.address
        return
    with LogDir.open(tmp_path, writable=True) as log_dir:
        config = BrokerConfig(is_writable=True, group_initial_rebalance_delay_ms=0)
        with Server(Broker(log_dir, config)) as server:
            yield Address(*server.address)


@pytest.fixture(params=["serve", "gateway"])
def guarded(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Address]:
    """A server with users."""
    if request.param == "gateway":
        with cluster(tmp_path) as (_, port), gateway(port, identities=IDENTITIES) as running:
            wait_for(lambda: running.topology.api_versions is not None)
            yield running.address
        return
    broker = Broker(LogDir.open(tmp_path))
    broker.guard = Guard(identities=IDENTITIES)
    with Server(broker) as server:
        yield Address(*server.address)


def send(address: Address, *frames: bytes) -> None:
    """Sends them, leaves, and waits until the server has seen that."""
    with Wire(address) as client, suppress(OSError):
        for data in frames:
            client.socket.sendall(LENGTH.pack(len(data)) + data)
        client.socket.shutdown(socket.SHUT_WR)
        while client.socket.recv(1 << 16):
            pass


def check(text: str) -> int:
    """AssertionError: somebody's text is a line, or is in one as it came. Returns how many lines
    are about it."""
    assert not [one for one in text if one != "\n" and not one.isprintable()]
    for line in text.splitlines():
        found = LINE.fullmatch(line)
        assert found is not None or line.startswith(INDENT), line
        assert FORGED not in line[:40], line
    return text.count(FORGED)


def test_no_line_begins_with_what_a_client_has_sent(address: Address) -> None:
    asked = dict(forging_requests())
    with logged() as shown:
        for data in asked.values():
            send(address, data)
    assert check(shown.getvalue()) > len(asked)
    assert len(asked) > 300


def test_no_line_begins_with_what_a_client_has_sent_to_log_in(guarded: Address) -> None:
    with logged() as shown:
        for version, mechanism, token in forging_logins():
            body = Message(mechanism=mechanism)
            said = frame(ApiKey.SaslHandshake, version, body)
            asked = frame(ApiKey.SaslAuthenticate, 1, Message(auth_bytes=token))
            send(guarded, said, asked if version else token)
    assert check(shown.getvalue()) >= 4
