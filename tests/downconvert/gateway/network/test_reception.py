"""Places and ends of connections before their first request. Balancers' headers keep them there."""

from collections.abc import Iterator
from contextlib import contextmanager
from errno import ENOSPC
from pathlib import Path
from time import monotonic
from typing import Any

import pytest

from downconvert.access.rights import Access, parse_network
from downconvert.gateway.config import Limits
from downconvert.gateway.identity import ClientRule, Identities
from downconvert.gateway.network.sockets.event_loop import EventLoop
from downconvert.gateway.server import Gateway
from downconvert.protocol.schemas import ApiKey, Message
from tests.downconvert.broker.asking import frame
from tests.downconvert.gateway.serving import LENGTH, Wire, cluster, gateway
from tests.downconvert.gateway.talk import fetch_body
from tests.ports import LOOPBACK
from tests.waiting import wait_for

HEADER = b"PROXY TCP4 10.1.2.3 192.0.2.7 5000 9092\r\n"
METADATA = frame(ApiKey.Metadata, 1, Message(topics=None))
REQUEST = LENGTH.pack(len(METADATA)) + METADATA
OF_NETWORK = ClientRule(access=Access(), credentials=None, networks=(parse_network("10.0.0.0/8"),))


@contextmanager
def behind_balancers(path: Path, connections: int, **options: Any) -> Iterator[Gateway]:
    limits = Limits(connections=connections, handshake_timeout=60.0, drain_timeout=60.0)
    networks = (parse_network(LOOPBACK),)
    with (
        cluster(path, "t") as (_, port),
        gateway(port, proxy_networks=networks, limits=limits, **options) as running,
    ):
        yield running


def test_a_client_takes_the_place_of_its_balancer(tmp_path: Path) -> None:
    with behind_balancers(tmp_path, 1) as running, Wire(running.address) as client:
        client.socket.sendall(HEADER + REQUEST)
        assert client.receive()


def test_a_client_that_loses_its_place_before_its_header_is_counted(tmp_path: Path) -> None:
    identities = Identities(rules=(OF_NETWORK,))
    with (
        behind_balancers(tmp_path, 1, identities=identities) as running,
        Wire(running.address) as first,
    ):
        wait_for(lambda: len(running.places) == 1)
        with Wire(running.address) as second:
            assert first.has_ended()
            second.socket.sendall(HEADER + REQUEST)
            assert second.receive()
            assert running.figures().ends == {"refused": 1}


@pytest.mark.parametrize("sent", [b"", HEADER], ids=["before its header", "after its header"])
def test_where_nobody_needs_an_identity_a_place_is_kept(tmp_path: Path, sent: bytes) -> None:
    with behind_balancers(tmp_path, 1) as running, Wire(running.address) as first:
        first.socket.sendall(sent)
        wait_for(lambda: len(running.places) == 1)
        for _ in range(3):
            with Wire(running.address) as second:
                assert second.has_ended()
        first.socket.sendall((HEADER + REQUEST).removeprefix(sent))
        assert first.receive()
        assert running.figures().ends == {"refused": 3}


def test_a_request_under_way_is_answered_before_the_end(tmp_path: Path) -> None:
    with behind_balancers(tmp_path, 2) as running:
        client = Wire(running.address)
        client.socket.sendall(HEADER)
        client.send(ApiKey.Fetch, 4, fetch_body(0, wait=400))
        wait_for(lambda: len(running.census.rows()) == 1)
    with client:
        assert client.receive()
        assert client.has_ended()


def test_a_connection_without_its_header_delays_no_end(tmp_path: Path) -> None:
    with behind_balancers(tmp_path, 3) as running:
        waiting = [Wire(running.address) for _ in range(2)]
        wait_for(lambda: len(running.places) == 2)
        began = monotonic()
    assert monotonic() - began < 30
    for one in waiting:
        assert one.has_ended()
        one.socket.close()


@pytest.mark.parametrize("sent", [b"", HEADER[:9]])
def test_a_balancer_that_goes_before_its_header_is_counted_as_a_client_that_has_gone(
    tmp_path: Path, sent: bytes
) -> None:
    with behind_balancers(tmp_path, 2) as running:
        with Wire(running.address) as client:
            client.socket.sendall(sent)
        wait_for(lambda: running.figures().ends == {"client_closed": 1})
        wait_for(lambda: len(running.places) == 0)  # it is given back after the count


def test_a_silent_client_keeps_its_place_where_nobody_needs_an_identity(tmp_path: Path) -> None:
    with (
        cluster(tmp_path, "t") as (_, port),
        gateway(port, limits=Limits(connections=1)) as running,
        Wire(running.address) as first,
    ):
        wait_for(lambda: len(running.places) == 1)
        with Wire(running.address) as second:
            assert second.has_ended()
        first.socket.sendall(REQUEST)
        assert first.receive()


def test_a_client_that_cannot_be_watched_gives_its_place_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The system limits the sockets that a user may watch."""

    def watch(*_: object) -> None:
        raise OSError(ENOSPC, "No space left on device")

    with cluster(tmp_path, "t") as (_, port), gateway(port) as running:
        wait_for(lambda: not running.unready())
        with monkeypatch.context() as patch:
            patch.setattr(EventLoop, "watch", watch)
            with Wire(running.address) as client:
                assert client.has_ended()
        assert len(running.places) == 0
        assert running.figures().ends == {"refused": 1}
        with Wire(running.address) as client:
            client.socket.sendall(REQUEST)
            assert client.receive()
