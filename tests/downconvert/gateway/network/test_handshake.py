"""Clients that name the broker that they want (SNI): over sockets, with TLS of others."""

import socket
import ssl
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaProducer

from downconvert.gateway.advertised import Advertised
from downconvert.gateway.config import GatewayConfig, Limits
from downconvert.gateway.network.handshake import ALERT, Handshake
from downconvert.gateway.server import Gateway
from downconvert.gateway.topology import BOOTSTRAP, Address
from downconvert.protocol.schemas import ApiKey, Message
from tests.certificates import self_signed
from tests.downconvert.gateway.serving import TIMEOUT, Wire, cluster, gateway
from tests.downconvert.gateway.test_server import produced
from tests.waiting import wait_for

BY_NAME = "b-{id}.localhost"
METADATA = Message(topics=None)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    return self_signed(tmp_path_factory.mktemp("certificate"))


@pytest.fixture
def served(tmp_path: Path, certificate: tuple[str, str]) -> Iterator[Gateway]:
    with (
        cluster(tmp_path, "t") as (_, port),
        gateway(
            port,
            tls_cert=certificate[0],
            tls_key=certificate[1],
            advertised=Advertised(BY_NAME, port=9999),
        ) as running,
    ):
        wait_for(lambda: bool(running.topology.nodes))
        yield running


def connected(running: Gateway, name: str | None, certificate: tuple[str, str]) -> Wire:
    context = ssl.create_default_context(cafile=certificate[0])
    context.check_hostname = False
    client = Wire(running.address)
    client.socket = context.wrap_socket(client.socket, server_hostname=name)
    return client


def brokers(client: Wire) -> list[tuple[str, int]]:
    response = client.ask(ApiKey.Metadata, 1, METADATA)
    return [(one.host, one.port) for one in response.brokers]


@pytest.mark.parametrize("name", ["b-0.localhost", "kafka.example.org", None])
def test_a_name_leads_to_its_broker_and_others_to_any(
    served: Gateway, certificate: tuple[str, str], name: str | None
) -> None:
    with connected(served, name, certificate) as client:
        assert brokers(client) == [("b-0.localhost", 9999)]
        assert produced(client) == 0
    assert served.topology.unserved == {}


def test_a_name_is_reached_at_its_own_broker(
    served: Gateway, certificate: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The broker that is named is the one that is connected to, at the one port."""
    asked: list[int] = []
    addresses = served.topology.addresses
    monkeypatch.setattr(
        served.topology, "addresses", lambda node: (asked.append(node), addresses(node))[1]
    )
    for name in ("b-0.localhost", None):
        with connected(served, name, certificate) as client:
            brokers(client)
    assert asked == [0, -1]


def test_a_name_of_no_broker_gets_an_alert_and_is_logged(
    served: Gateway, certificate: tuple[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    served.config = replace(served.config, server_names=("kafka.example.org",))
    with caplog.at_level("INFO", "downconvert.gateway"):
        for name in ("b-7.localhost", "other.example.org"):
            with pytest.raises(ssl.SSLError, match="UNRECOGNIZED_NAME"):
                connected(served, name, certificate)
        wait_for(lambda: served.figures().ends["failed_handshake"] == 2)
    lines = [record.getMessage() for record in caplog.records]
    assert any("127.0.0.1" in line and "no broker 7" in line for line in lines)
    assert any("'other.example.org', which is not a name of this gateway" in line for line in lines)
    with connected(served, "Kafka.example.org", certificate) as client:
        assert brokers(client)
    wait_for(lambda: served.figures().connections == 0)


def test_a_name_that_is_no_text_ends_the_handshake_in_one_line(
    served: Gateway, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    outgoing = ssl.MemoryBIO()
    hello = ssl.create_default_context().wrap_bio(
        ssl.MemoryBIO(), outgoing, server_hostname="bad-name.localhost"
    )
    with pytest.raises(ssl.SSLWantReadError):
        hello.do_handshake()
    with caplog.at_level("INFO", "downconvert.gateway"), Wire(served.address) as client:
        client.socket.sendall(outgoing.read().replace(b"bad-name", b"bad\xffname"))
        assert client.has_ended()
        wait_for(lambda: served.figures().ends["failed_handshake"] == 1)
        wait_for(lambda: any("handshake" in record.getMessage() for record in caplog.records))
    assert "Traceback" not in capsys.readouterr().err


def test_clients_without_sni_get_brokers_by_port(
    served: Gateway, certificate: tuple[str, str]
) -> None:
    """Old ones, that know nothing of SNI; ports outside are not those inside."""
    outside = Advertised("localhost", port_first=31_000)
    served.config = replace(served.config, advertised_without_name=outside, refresh_seconds=0.05)
    with connected(served, None, certificate) as client:
        assert brokers(client) == [("localhost", 31_000)]
    port = served.config.node_ports[0]
    with connected(served, "x.localhost", certificate) as client:
        assert brokers(client) == [("b-0.localhost", 9999)]
    with Wire(Address(served.address.host, port)) as client:
        client.start_tls(Path(certificate[0]))
        assert produced(client) == 0


def test_ports_outside_need_not_be_those_inside(tmp_path: Path) -> None:
    """A forwarder stands for what publishes ports: what is advertised is what it listens at."""
    advertised = Advertised.parse("b{id}.example.org:{9100+id}")
    with cluster(tmp_path, "t") as (_, port), gateway(port, advertised=advertised) as running:
        with Wire(running.address) as client:
            assert brokers(client) == [("b0.example.org", 9100)]
        wait_for(lambda: bool(running.topology.nodes))
        with Wire(Address(running.address.host, running.config.node_ports[0])) as client:
            assert produced(client) == 0


def test_kafka_python_finds_its_broker_by_name(
    tmp_path: Path, certificate: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cluster whose brokers have this machine's names, as behind a load balancer."""
    found = socket.getaddrinfo

    def everywhere(host: Any, *rest: Any, **more: Any) -> Any:
        return found("127.0.0.1" if str(host).endswith("localhost") else host, *rest, **more)

    monkeypatch.setattr(socket, "getaddrinfo", everywhere)
    with (
        cluster(tmp_path, "t") as (_, port),
        gateway(port, tls_cert=certificate[0], tls_key=certificate[1]) as running,
    ):
        advertised = Advertised(BY_NAME, port=running.address.port)
        running.config = replace(running.config, advertised=advertised)
        wait_for(lambda: bool(running.topology.nodes))
        asked: list[int] = []
        addresses = running.topology.addresses
        monkeypatch.setattr(
            running.topology, "addresses", lambda node: (asked.append(node), addresses(node))[1]
        )
        client = KafkaProducer(
            bootstrap_servers=f"kafka.localhost:{running.address.port}",
            security_protocol="SSL",
            ssl_cafile=certificate[0],
            ssl_check_hostname=False,
            max_block_ms=60_000,
        )
        assert client.send("t", b"x").get(timeout=60).offset == 0
        client.close()
        assert 0 in asked


# --- handshakes that are none


def test_a_client_without_a_tls_handshake_is_counted_and_has_limited_time(
    tmp_path: Path, certificate: tuple[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    limits = replace(Limits(), connections_per_address=2, handshake_timeout=0.2)
    options: dict[str, Any] = {"tls_cert": certificate[0], "tls_key": certificate[1]}
    with (
        caplog.at_level("INFO", "downconvert.gateway"),
        cluster(tmp_path, "t") as (_, port),
        gateway(port, limits=limits, **options) as running,
    ):
        running.config = replace(running.config, limits=replace(limits, handshake_timeout=TIMEOUT))
        with Wire(running.address) as one, Wire(running.address) as two:
            wait_for(lambda: running.figures().connections == 2)
            with Wire(running.address) as third:
                assert third.has_ended()
            one.socket.sendall(b"GET / HTTP/1.1\r\n\r\n")
            one.socket.recv(100)
            two.socket.close()
            wait_for(lambda: running.figures().connections == 0)
        running.config = replace(running.config, limits=limits)
        with Wire(running.address) as silent:
            assert silent.has_ended()
        # The client sees its end before the loop has counted it.
        wait_for(lambda: running.figures().ends["failed_handshake"] == 2)
        ends = running.figures().ends
        assert (ends["client_closed"], ends["refused"]) == (1, 1)
    lines = [record.getMessage() for record in caplog.records]
    assert any("taking longer than 0.2 seconds" in line for line in lines)


@pytest.mark.parametrize(
    ("name", "node_id", "refusal"),
    [
        (None, BOOTSTRAP, ""),
        ("b-0.test", 0, ""),
        ("B-7.Test.", 7, ""),
        ("b-3.test", BOOTSTRAP, "it asks for 'b-3.test', and the cluster has no broker 3 now"),
        ("kafka.test", BOOTSTRAP, ""),
        ("Kafka.Test.", BOOTSTRAP, ""),
        ("other.test", BOOTSTRAP, "it asks for 'other.test', which is not a name of this gateway"),
    ],
)
@pytest.mark.parametrize("names", [("kafka.test",), ()])
def test_a_name_is_taken_with_or_without_its_last_dot_in_any_case(
    name: str | None, node_id: int, refusal: str, names: tuple[str, ...]
) -> None:
    """Without a list of names, any that is no broker's leads to any broker."""
    config = GatewayConfig(
        bootstrap=(Address("cluster", 9092),),
        advertised=Advertised("b-{id}.test", port=9999),
        server_names=names,
        tls_cert="cert",
        tls_key="key",
    )
    sent = bytearray()

    def send(data: bytes) -> int:
        sent.extend(data)
        return len(data)

    handshake = Handshake(send=send)
    handshake.take_server_name(name, config, {0, 7})
    is_free = not names and name == "other.test"
    assert (handshake.node_id, handshake.refusal) == (node_id, "" if is_free else refusal)
    assert sent == (ALERT if handshake.refusal else b"")
    assert handshake.name == name
