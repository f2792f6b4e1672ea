"""The gateway behind a real HAProxy, which says of each connection who its client is."""

import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from downconvert.access.rights import parse_network
from downconvert.gateway.topology import Address
from downconvert.protocol.schemas import ApiKey, Message
from tests.certificates import self_signed
from tests.downconvert.gateway.serving import TIMEOUT, Wire, cluster, gateway
from tests.downconvert.gateway.test_server import produced
from tests.ports import LOOPBACK, free_ports
from tests.programs import needs, running

FROM = "127.0.0.9"
CONFIG = """\
defaults
    mode tcp
    timeout connect 5s
    timeout client 30s
    timeout server 30s
listen kafka
    bind {front}
    server gateway {back} {option} check inter 100ms
"""

pytestmark = [pytest.mark.others, needs("haproxy")]


@contextmanager
def balanced(directory: Path, back: Address, option: str) -> Iterator[Address]:
    (port,) = free_ports(1)
    front, file = Address(LOOPBACK, port), directory / "haproxy.cfg"
    file.write_text(CONFIG.format(front=front, back=back, option=option))
    with running(("haproxy", "-db", "-f", str(file)), lambda: listens(front)):
        yield front


def listens(address: Address) -> bool:
    with socket.socket() as client:
        return client.connect_ex(address) == 0


def connected(front: Address) -> Wire:
    client = Wire.__new__(Wire)
    client.socket = socket.create_connection(front, TIMEOUT, source_address=(FROM, 0))
    return client


@pytest.mark.parametrize("option", ["send-proxy", "send-proxy-v2", "send-proxy-v2-ssl-cn"])
def test_clients_behind_haproxy_have_their_own_addresses(tmp_path: Path, option: str) -> None:
    balancers = (parse_network(LOOPBACK),)
    with (
        cluster(tmp_path, "t") as (_, port),
        gateway(port, proxy_networks=balancers) as running,
        balanced(tmp_path, running.address, option) as front,
    ):
        with connected(front) as client:
            assert client.ask(ApiKey.Metadata, 1, Message(topics=None)).brokers
            assert produced(client) == 0
        assert {row["address"] for row in running.census.rows()} == {FROM}
        # Its checks are connections of its own: no client that is refused.
        ends = running.figures().ends
        assert ends.keys() == {"client_closed"}


def test_the_header_comes_before_tls(tmp_path: Path) -> None:
    certificate, key = self_signed(tmp_path)
    with (
        cluster(tmp_path, "t") as (_, port),
        gateway(
            port,
            proxy_networks=(parse_network(LOOPBACK),),
            tls_cert=certificate,
            tls_key=key,
        ) as running,
        balanced(tmp_path, running.address, "send-proxy-v2") as front,
        connected(front) as client,
    ):
        context = ssl.create_default_context(cafile=certificate)
        client.socket = context.wrap_socket(client.socket, server_hostname="localhost")
        assert client.ask(ApiKey.Metadata, 1, Message(topics=None)).brokers
        assert {row["address"] for row in running.census.rows()} == {FROM}
