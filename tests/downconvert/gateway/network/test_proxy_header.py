"""The PROXY protocol, by bytes made by hand: any of them whole, cut short, or one at a time."""

import random
import socket
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from struct import pack

import pytest

from downconvert.access.rights import Access, parse_network
from downconvert.gateway.config import Limits
from downconvert.gateway.identity import ClientRule, Identities
from downconvert.gateway.network.proxy_header import (
    SIGNATURE,
    SIZE_MAX,
    TEXT_MAX,
    Proxied,
    bytes_missing,
    parse,
)
from downconvert.gateway.server import Gateway
from downconvert.protocol.errors import BadRequestError
from downconvert.protocol.schemas import ApiKey, Message
from tests.downconvert.broker.asking import frame
from tests.downconvert.gateway.serving import LENGTH, Wire, cluster, gateway
from tests.ports import LOOPBACK
from tests.waiting import wait_for

FROM = "10.1.2.3"
REACHED = "192.0.2.7"
V4 = socket.inet_aton(FROM) + socket.inet_aton(REACHED) + pack(">HH", 5000, 9092)
MAPPED = b"\0" * 10 + b"\xff" * 2 + socket.inet_aton(FROM)
V6 = MAPPED + socket.inet_pton(socket.AF_INET6, "2001:db8::1") + pack(">HH", 5000, 9092)
TLV = b"\x02\0\x09localhost"  # PP2_TYPE_AUTHORITY


def binary(command: int = 0x21, family: int = 0x11, rest: bytes = V4) -> bytes:
    return SIGNATURE + bytes([command, family]) + pack(">H", len(rest)) + rest


TEXT = f"PROXY TCP4 {FROM} {REACHED} 5000 9092\r\n".encode()
NAMING = [
    TEXT,
    f"PROXY TCP6 ::ffff:{FROM} 2001:db8::1 5000 9092\r\n".encode(),
    binary(),
    binary(rest=V4 + TLV),
    binary(rest=V4 + b"\xee" + pack(">H", SIZE_MAX - len(V4) - 3) + bytes(SIZE_MAX - len(V4) - 3)),
    binary(family=0x21, rest=V6 + TLV),
]
OF_BALANCER = [
    b"PROXY UNKNOWN\r\n",
    b"PROXY UNKNOWN ffff::1 ffff::2 1 2\r\n",
    binary(0x20, 0, b""),
    binary(0x20, 0x11, V4),  # its addresses are to be ignored
    binary(0x20, 0x31, bytes(216) + TLV),
    binary(0x21, 0, b"abc"),
]
WRONG = [
    b"GET / HTTP/1.0\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01",  # a ClientHello
    b"proxy TCP4 1.1.1.1 2.2.2.2 1 2\r\n",
    b"PROXY TCP4 1.1.1.1 2.2.2.2 1\r\n",
    b"PROXY TCP4 1.1.1.1 2.2.2.2 1 2 3\r\n",
    b"PROXY TCP4  1.1.1.1 2.2.2.2 1 2\r\n",
    b"PROXY TCP4 1.1.1.1 2.2.2.2 1 2\n\r\n",
    b"PROXY TCP4 1.1.1.01 2.2.2.2 1 2\r\n",
    b"PROXY TCP4 ::1 ::1 1 2\r\n",
    b"PROXY TCP6 1.1.1.1 2.2.2.2 1 2\r\n",
    b"PROXY TCP6 fe80::1%eth0 ::1 1 2\r\n",
    b"PROXY TCP4 1.1.1.1 2.2.2.2 1 65536\r\n",
    b"PROXY TCP4 1.1.1.1 2.2.2.2 01 2\r\n",
    b"PROXY TCP4 1.1.1.1 2.2.2.2 -1 2\r\n",
    b"PROXY TCP4 1.1.1.1 2.2.2.2 1 " + b"9" * 60 + b"\r\n",
    b"PROXY TCP4 \xd9\xa1.1.1.1 2.2.2.2 1 2\r\n",
    b"PROXY TCP4 localhost 2.2.2.2 1 2\r\n",
    b"PROXY UDP4 1.1.1.1 2.2.2.2 1 2\r\n",
    b"PROXY " + b"x" * TEXT_MAX,
    binary(family=0x31, rest=bytes(216)),  # a socket of the balancer's own machine
    binary(family=0x12),  # UDP
    binary(family=0x10),
    binary(family=0x41),
    binary(rest=V4[:-1]),
    binary(family=0x21, rest=V6[:-1]),
    binary(0x22),
    binary(0x11),  # of version 1
    binary(0x31),
    binary(rest=V4 + bytes(SIZE_MAX)),
]


def parsed(data: bytes) -> tuple[Proxied | None, bytes]:
    """As a socket would be read; what the header is followed by."""
    at = 0
    while missing := bytes_missing(data[:at]):
        assert missing > 0
        if at == len(data):
            raise EOFError
        at = min(at + missing, len(data))
    return parse(data[:at]), data[at:]


@pytest.mark.parametrize(
    ("size", "is_at_line_end", "missing"),
    [
        (TEXT_MAX - 3, False, 2),
        (TEXT_MAX - 2, False, 2),
        (TEXT_MAX - 1, False, 1),  # of a longer one no more is read than it may have
        (TEXT_MAX - 1, True, 1),
        (50, True, 1),
        (50, False, 2),
    ],
)
def test_no_more_is_read_than_a_header_of_text_may_have(
    size: int, is_at_line_end: bool, missing: int
) -> None:
    data = b"PROXY TCP4 ".ljust(size, b"1")
    data = data[:-1] + b"\r" if is_at_line_end else data
    assert bytes_missing(data) == missing


def test_a_header_of_text_without_an_end_is_refused() -> None:
    with pytest.raises(BadRequestError, match=f"longer than {TEXT_MAX} bytes"):
        bytes_missing(b"PROXY TCP4 ".ljust(TEXT_MAX, b"1"))


@pytest.mark.parametrize("data", NAMING)
def test_a_header_names_a_client_and_leaves_the_bytes_after_it(data: bytes) -> None:
    reached = REACHED if b"TCP4" in data or data[13:14] == b"\x11" else "2001:db8::1"
    for rest in (b"", b"\r\n", data):
        assert parsed(data + rest) == (Proxied(FROM, reached), rest)


@pytest.mark.parametrize("data", OF_BALANCER)
def test_a_balancer_that_asks_for_itself_is_the_client(data: bytes) -> None:
    assert parsed(data + b"rest") == (None, b"rest")


@pytest.mark.parametrize("data", WRONG)
def test_bytes_that_are_no_proxy_header_are_refused(data: bytes) -> None:
    with pytest.raises(BadRequestError, match="PROXY header"):
        parsed(data)


def test_changed_headers_are_headers_or_refused() -> None:
    seed = 20261124
    chance = random.Random(seed)
    outcomes = set()
    for _ in range(5_000):
        data = bytearray(chance.choice(NAMING[:4] + NAMING[5:] + OF_BALANCER))
        for _ in range(chance.randrange(1, 4)):
            data[chance.randrange(len(data))] = chance.randrange(256)
        try:
            outcomes.add(type(parsed(bytes(data)[: chance.randrange(1, len(data) + 9)])))
        except (BadRequestError, EOFError) as error:
            outcomes.add(type(error))
    assert outcomes == {tuple, BadRequestError, EOFError}, seed


# --- over sockets


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Gateway]:
    """The clients behind the balancer are known by a rule for their network."""
    rules = (
        ClientRule(access=Access(), credentials=None, networks=(parse_network("10.0.0.0/8"),)),
    )
    with (
        cluster(tmp_path, "t") as (_, port),
        gateway(
            port,
            identities=Identities(rules=rules),
            proxy_networks=(parse_network(LOOPBACK),),
            limits=Limits(connections_per_address=2),
        ) as running,
    ):
        yield running


METADATA = frame(ApiKey.Metadata, 1, Message(topics=None))
REQUEST = LENGTH.pack(len(METADATA)) + METADATA


@pytest.mark.parametrize("header", [TEXT, binary(rest=V4 + TLV)])
def test_a_client_behind_a_balancer_is_itself(served: Gateway, header: bytes) -> None:
    with Wire(served.address) as client:
        client.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for at in range(len(header)):
            client.socket.sendall(header[at : at + 1])
        client.socket.sendall(REQUEST)
        assert REACHED.encode() in client.receive()  # where brokers are, unless settings say it
        (row,) = served.census.rows()
        assert (row["address"], row["rule"]) == (FROM, "rule 1")
    wait_for(lambda: len(served.places) == 0)


def ended(served: Gateway, reason: str, *sent: bytes) -> None:
    before = served.figures().ends[reason]
    with Wire(served.address) as client:
        for data in sent:
            client.socket.sendall(data)
        assert client.has_ended()
    wait_for(lambda: served.figures().ends[reason] == before + 1)
    wait_for(lambda: len(served.places) == 0)


def test_a_client_with_a_refused_header_is_counted_and_leaves_no_place(served: Gateway) -> None:
    ended(served, "bad_request", REQUEST)
    limits = served.config.limits
    served.config = replace(served.config, limits=replace(limits, handshake_timeout=0.3))
    ended(served, "timed_out", TEXT[:-1])
    ended(served, "timed_out")
    served.config = replace(served.config, limits=limits)
    ended(served, "failed_login", OF_BALANCER[0], REQUEST)  # no rule is for the balancer
    ended(served, "failed_login", TEXT.replace(FROM.encode(), b"172.16.0.1"), REQUEST)
    with Wire(served.address):
        pass
    wait_for(lambda: served.figures().ends["client_closed"] == 1)
    served.config = replace(served.config, access=Access(networks=(parse_network("10.2.0.0/16"),)))
    ended(served, "refused", TEXT)


def test_limits_by_address_are_those_of_clients_and_not_of_their_balancer(served: Gateway) -> None:
    clients = [Wire(served.address) for _ in range(5)]
    for number, client in enumerate(clients):
        client.socket.sendall(TEXT.replace(b".3 ", f".{number // 2} ".encode()) + REQUEST)
        assert client.receive()
    with Wire(served.address) as client:
        client.socket.sendall(TEXT.replace(b".3 ", b".0 ") + REQUEST)
        assert client.has_ended()
    for client in clients:
        client.socket.close()


def test_a_header_from_a_network_that_is_not_named_is_no_header(tmp_path: Path) -> None:
    """Else any client could be whom it likes."""
    elsewhere = (parse_network("10.0.0.0/8"),)
    with cluster(tmp_path, "t") as (_, port), gateway(port, proxy_networks=elsewhere) as running:
        for header in (TEXT, binary()):
            ended(running, "bad_request", header + REQUEST)
        assert running.census.rows() == []
        with Wire(running.address) as client:
            client.socket.sendall(REQUEST)
            assert client.receive()
