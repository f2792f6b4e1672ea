"""The gateway over real sockets. The cluster is our own server, which forgot the old versions."""

import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition

from downconvert.access.rights import Access, parse_network
from downconvert.broker import Broker
from downconvert.gateway.config import GatewayConfig, Limits
from downconvert.gateway.server import Gateway
from downconvert.gateway.topology import Address
from downconvert.protocol.schemas import ApiKey, Message
from downconvert.serving.places import NoPlaceError
from tests.certificates import self_signed
from tests.downconvert.broker.asking import frame
from tests.downconvert.storage.logs import batch
from tests.waiting import wait_for

from .cluster import append
from .serving import LENGTH, LOOPBACK, Wire, cluster, gateway
from .talk import fetch_body, message_set, produce_body, values_of

PINS = [(0, 8, 2), (0, 9), (0, 10), (0, 11), None]


@pytest.fixture
def served(tmp_path: Path) -> Iterator[tuple[Broker, Gateway]]:
    with cluster(tmp_path, "t") as (broker, port), gateway(port) as running:
        yield broker, running


def pinned(pin: tuple[int, ...] | None) -> dict[str, object]:
    return {} if pin is None else {"api_version": pin}


@pytest.mark.parametrize("pin", PINS)
def test_kafka_python_of_every_protocol_age_writes_and_reads(
    served: tuple[Broker, Gateway], pin: tuple[int, ...] | None
) -> None:
    _, running = served
    producer = KafkaProducer(bootstrap_servers=str(running.address), **pinned(pin))
    sent = [producer.send("t", f"{number}".encode(), key=b"k") for number in range(20)]
    assert [one.get(timeout=60).offset for one in sent] == list(range(20))
    producer.close()
    consumer = KafkaConsumer(
        bootstrap_servers=str(running.address),
        auto_offset_reset="earliest",
        consumer_timeout_ms=60_000,
        **pinned(pin),
    )
    consumer.assign([TopicPartition("t", 0)])
    consumer.seek_to_beginning()
    found = [next(consumer).value for _ in range(20)]
    assert found == [f"{number}".encode() for number in range(20)]
    consumer.close()


def test_brokers_have_ports_of_their_own(served: tuple[Broker, Gateway]) -> None:
    broker, running = served
    with Wire(running.address) as client:
        response = client.ask(ApiKey.Metadata, 1, Message(topics=None))
    (node,) = response.brokers
    assert (node.host, node.port) == (LOOPBACK, running.topology.ports.of(0))
    append(broker, batch(0))
    with Wire(running.topology.addresses(0)[0]._replace(port=node.port)) as client:
        part = client.ask(ApiKey.Fetch, 1, fetch_body(0)).responses[0].partitions[0]
    assert len(values_of(part)) == 1


def test_a_large_response_goes_through_a_file_and_arrives_whole(
    served: tuple[Broker, Gateway],
) -> None:
    broker, running = served
    for offset in range(64):
        append(broker, batch(offset, size=50_000))
    with Wire(running.address) as client:
        response = client.ask(ApiKey.Fetch, 1, fetch_body(0, max_bytes=1 << 22))
    assert len(values_of(response.responses[0].partitions[0])) == 64


def test_requests_behind_one_another_are_answered_in_their_order(
    served: tuple[Broker, Gateway],
) -> None:
    _, running = served
    with Wire(running.address) as client:
        for number in range(5):
            client.send(ApiKey.Produce, 0, produce_body(message_set(0, b"%d" % number)))
            client.send(ApiKey.Metadata, 0, Message(topics=[]))
        for number in range(5):
            response = client.receive()
            assert int.from_bytes(response[-8:]) == number  # the base offset comes last in v0
            client.receive()


@pytest.mark.parametrize("version", [0, 3])
def test_a_produce_cut_at_any_byte_is_acknowledged_or_not_there(
    served: tuple[Broker, Gateway], version: int
) -> None:
    broker, running = served
    data = frame(ApiKey.Produce, version, produce_body(message_set(2 if version else 0, b"x")))
    whole = LENGTH.pack(len(data)) + data
    for cut in range(0, len(whole), 3):
        with Wire(running.address) as client:
            client.socket.sendall(whole[:cut])
    assert end_offset(broker) == 0
    with Wire(running.address) as client:
        client.socket.sendall(whole)
        client.receive()
    assert end_offset(broker) == 1


@pytest.mark.parametrize("size", [1, 15_000, 300_000])
@pytest.mark.parametrize(("version", "acks"), [(0, 0), (0, 1), (2, 0), (3, 0), (3, 1), (9, 0)])
def test_a_produce_is_finished_though_its_client_has_gone(
    served: tuple[Broker, Gateway], version: int, acks: int, size: int
) -> None:
    """As by a console producer, which does not wait for its last acknowledgement."""
    broker, running = served
    records = message_set({0: 0, 2: 1}.get(version, 2), b"x" * size)
    for number in range(2):  # to a connection of its own, and behind another request
        with Wire(running.address) as client:
            if number:
                client.ask(ApiKey.Metadata, 1, Message(topics=None))
            client.send(ApiKey.Produce, version, produce_body(records, acks=acks))
        wait_for(partial(ends_at, broker, number + 1))


def test_half_a_request_holds_nobody_else_up_and_not_for_ever(tmp_path: Path) -> None:
    limits = Limits(receive_timeout=0.3)
    with (
        cluster(tmp_path, "t") as (_, port),
        gateway(port, limits=limits) as running,
        Wire(running.address) as loris,
    ):
        loris.socket.sendall(b"\0\0\1")
        with Wire(running.address) as client:
            assert client.ask(ApiKey.Metadata, 1, Message(topics=None)).topics
        assert loris.has_ended()


@pytest.mark.parametrize("claim", [-1, 0, (1 << 31) - 1])
def test_a_size_that_no_request_has_ends_the_connection(
    served: tuple[Broker, Gateway], claim: int
) -> None:
    _, running = served
    with Wire(running.address) as client:
        client.socket.sendall(LENGTH.pack(claim))
        assert client.has_ended()


def test_connections_are_limited_in_all_and_by_address(tmp_path: Path) -> None:
    with (
        cluster(tmp_path, "t") as (_, port),
        gateway(port, limits=Limits(connections_per_address=2)) as running,
        Wire(running.address) as first,
        Wire(running.address) as second,
    ):
        for client in (first, second):
            assert client.ask(ApiKey.Metadata, 1, Message(topics=None)).topics
        with Wire(running.address) as third:
            assert third.has_ended()
        first.socket.close()
        wait_for(lambda: len(running.places) == 1)
        with Wire(running.address) as third:
            assert third.ask(ApiKey.Metadata, 1, Message(topics=None)).topics


def test_networks_that_are_not_allowed_are_not_served(tmp_path: Path) -> None:
    access = Access(networks=(parse_network("10.0.0.0/8"),))
    with (
        cluster(tmp_path, "t") as (_, port),
        gateway(port, access=access) as running,
        Wire(running.address) as client,
    ):
        assert client.has_ended()


def test_a_slow_reader_takes_little_memory(served: tuple[Broker, Gateway]) -> None:
    """Both buffers of a connection are small, and the file holds the rest."""
    broker, running = served
    for offset in range(200):
        append(broker, batch(offset, size=100_000))
    with Wire(running.address, SO_RCVBUF=4096) as client:
        before = resident()
        client.send(ApiKey.Fetch, 1, fetch_body(0, max_bytes=1 << 26))
        client.take(1000)
        time.sleep(1)
        assert resident() - before < 8 << 20


def test_requests_under_way_are_finished_before_the_end(tmp_path: Path) -> None:
    with cluster(tmp_path, "t") as (broker, port):
        append(broker, batch(0))
        with gateway(port) as running:
            client = Wire(running.address)
            client.send(ApiKey.Fetch, 1, fetch_body(1, wait=500))
            idle = Wire(running.address)
            idle.ask(ApiKey.Metadata, 1, Message(topics=None))
            wait_for(lambda: any(one.is_busy for one in running.connections))
        with client, idle:
            assert client.receive()
            assert client.has_ended()
            assert idle.has_ended()


def test_a_cluster_that_cannot_be_reached_ends_the_connection(tmp_path: Path) -> None:
    with cluster(tmp_path, "t") as (_, port):
        pass
    with gateway(port) as running, Wire(running.address) as client:
        client.send(ApiKey.Metadata, 1, Message(topics=None))
        assert client.has_ended()


def test_new_settings_are_for_later_connections(served: tuple[Broker, Gateway]) -> None:
    _, running = served
    with Wire(running.address) as before:
        before.ask(ApiKey.Metadata, 1, Message(topics=None))
        running.config = replace(running.config, access=Access(is_read_only=True))
        assert produced(before) == 0
        with Wire(running.address) as after:
            assert produced(after) == 29


def test_clients_that_can_speak_tls_to_the_gateway(tmp_path: Path) -> None:
    certificate, key = self_signed(tmp_path)
    directory = tmp_path / "log"
    directory.mkdir()
    with (
        cluster(directory, "t") as (_, port),
        gateway(port, tls_cert=certificate, tls_key=key) as running,
    ):
        with Wire(running.address) as client:
            client.start_tls(certificate)
            assert client.ask(ApiKey.Metadata, 1, Message(topics=None)).topics
        with Wire(running.address) as client:
            client.socket.sendall(b"garbage, which is no TLS at all")
            assert client.has_ended()


# --- helpers


def end_offset(broker: Broker) -> int:
    partition = broker.topics.partition("t", 0)
    assert partition is not None
    return partition.end_offset


def ends_at(broker: Broker, offset: int) -> bool:
    return end_offset(broker) == offset


def produced(client: Wire) -> int:
    """The error code that a produce is answered with."""
    response = client.ask(ApiKey.Produce, 0, produce_body(message_set(0, b"a")))
    code: int = response.responses[0].partition_responses[0].error_code
    return code


def resident() -> int:
    """Bytes that are of the process alone, and not of files."""
    status = Path("/proc/self/status").read_text()
    (line,) = (line for line in status.splitlines() if line.startswith("RssAnon"))
    return int(line.split()[1]) * 1024


@pytest.mark.parametrize("version", [1, 4])
def test_a_client_above_its_rate_is_answered_and_then_waits(tmp_path: Path, version: int) -> None:
    """Whether its responses pass through or are converted; others do not wait for it."""
    rate = 4_000.0
    with (
        cluster(tmp_path, "t") as (broker, port),
        gateway(port, access=Access(consumer_byte_rate=rate)) as running,
    ):
        append(broker, batch(0, size=4_000))
        with Wire(running.address) as client, Wire(running.address) as other:
            started = time.monotonic()
            client.send(ApiKey.Fetch, version, fetch_body(0))
            client.send(ApiKey.Fetch, version, fetch_body(0))
            sizes = [len(client.receive())]
            assert other.ask(ApiKey.Metadata, 1, Message(topics=[])).brokers
            sizes.append(len(client.receive()))
            client.ask(ApiKey.Metadata, 1, Message(topics=[]))
            assert time.monotonic() - started > sum(sizes) / rate - 1 - 0.1
        assert sum(sizes) > 8_000
        assert running.figures().throttled["Fetch"] > 0.5


def test_brokers_without_a_port_are_named_while_others_are_noted() -> None:
    """The event loop notes them, while a page of another thread shows them."""
    running = Gateway(GatewayConfig(bootstrap=(Address(LOOPBACK, 1),)))
    unserved = running.topology.unserved

    class Reason(str):
        def __format__(self, _: str) -> str:
            unserved[len(unserved)] = "another"
            return "in use"

    unserved[0] = Reason()
    assert running.unready()[-1] == "broker 0: in use"
    assert running.unready()[-1] == "broker 1: another"


def test_all_connections_and_those_of_an_address_have_limits_of_their_own() -> None:
    limits = Limits(connections=3, connections_per_address=2)
    one = Gateway(GatewayConfig(bootstrap=(Address(LOOPBACK, 9),), limits=limits))
    try:
        for address in ("10.0.0.1", "10.0.0.1"):
            one.admit(address).settle()
        with pytest.raises(NoPlaceError, match="it has 2 connections already"):
            one.admit("10.0.0.1")
        one.admit("10.0.0.2").settle()
        with pytest.raises(NoPlaceError, match="there are 3 connections already"):
            one.admit("10.0.0.3")
    finally:
        one.pool.close()


def test_a_balancers_connections_are_limited_in_all_only() -> None:
    """Its clients' addresses are not known yet."""
    limits = Limits(connections=3, connections_per_address=1)
    one = Gateway(GatewayConfig(bootstrap=(Address(LOOPBACK, 9),), limits=limits))
    try:
        for _ in range(3):
            one.admit_balancer("10.0.0.1").settle()
        with pytest.raises(NoPlaceError, match="already"):
            one.admit_balancer("10.0.0.1")
    finally:
        one.pool.close()
