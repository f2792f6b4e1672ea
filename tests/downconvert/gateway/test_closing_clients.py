"""Requests that a client sent before it closed its side are handled, as brokers handle them."""

import socket
import ssl
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from downconvert.broker import Broker
from downconvert.gateway.server import Gateway
from downconvert.protocol.schemas import ApiKey, Message
from tests.downconvert.broker.asking import frame
from tests.waiting import wait_for

from .serving import LENGTH, Wire, cluster, gateway, over_tls
from .talk import message_set, produce_body

COUNT = 5
MANY = 60


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Broker, Gateway]]:
    path: Path = tmp_path_factory.mktemp("cluster")
    with cluster(path, "t") as (broker, port), gateway(port) as running:
        yield broker, running


def values(broker: Broker) -> list[bytes | None]:
    partition = broker.topics.partition("t", 0)
    assert partition is not None
    return [record.value for record in partition.log.records()]


@pytest.mark.parametrize("end", ["closes", "closes its side"])
@pytest.mark.parametrize("version", [0, 2, 3, 9])
@pytest.mark.parametrize("acks", [0, 1])
def test_requests_that_a_client_sent_before_it_closed_are_handled(
    served: tuple[Broker, Gateway], version: int, acks: int, end: str
) -> None:
    broker, running = served
    magic = {0: 0, 2: 1}.get(version, 2)
    wanted = [b"%d %d %d %s" % (version, acks, n, end.encode()) for n in range(COUNT)]
    requests = b""
    for value in wanted:
        request = frame(ApiKey.Produce, version, produce_body(message_set(magic, value), acks))
        requests += LENGTH.pack(len(request)) + request

    def handled() -> list[bytes | None]:
        return [value for value in values(broker) if value in wanted]

    with Wire(running.address) as client:
        client.socket.sendall(requests)
        if end == "closes its side":
            client.socket.shutdown(socket.SHUT_WR)
            wait_for(lambda: handled() == wanted)
    if acks and end == "closes":  # its system resets the connection when the first response arrives
        wait_for(lambda: bool(handled()) and not running.places)
        assert handled() == wanted[: len(handled())]
    else:
        wait_for(lambda: handled() == wanted)


@pytest.mark.parametrize(
    "versions", [(3, 0), (0, 3), (3,)], ids=["passes first", "read first", "passes"]
)
def test_requests_of_several_kinds_are_handled_in_their_order_before_the_end(
    served: tuple[Broker, Gateway], versions: tuple[int, ...]
) -> None:
    """One that has to be read waits until those that pass have been answered."""
    broker, running = served
    wanted = [b"%d of %s" % (n, bytes(versions)) for n in range(MANY)]
    requests = b""
    for n, value in enumerate(wanted):
        version = versions[n % len(versions)]
        body = produce_body(message_set(0 if version == 0 else 2, value), 1)
        request = frame(ApiKey.Produce, version, body)
        requests += LENGTH.pack(len(request)) + request
    with Wire(running.address) as client:
        first = frame(ApiKey.Produce, 3, produce_body(message_set(2, b"first"), 1))
        client.socket.sendall(LENGTH.pack(len(first)) + first)
        client.receive()  # its kind is known from here on
        client.socket.sendall(requests)
        # If it closed, its system would reset the connection when the first response arrives.
        client.socket.shutdown(socket.SHUT_WR)
        wait_for(lambda: [value for value in values(broker) if value in wanted] == wanted)


@pytest.mark.parametrize("says_so", [True, False], ids=["says so", "only closes"])
@pytest.mark.parametrize(("count", "size"), [(200, 1000), (4, 100_000)])
def test_requests_over_tls_are_handled_before_the_end(
    tmp_path: Path, count: int, size: int, says_so: bool
) -> None:
    """More arrives at once, with the end, than the gateway takes at a time."""
    wanted = [b"%d" % n + bytes(size) for n in range(count)]
    with over_tls(tmp_path) as (broker, client):
        requests = b""
        for value in wanted:
            request = frame(ApiKey.Produce, 3, produce_body(message_set(2, value), 0))
            requests += LENGTH.pack(len(request)) + request
        # It reads all that has come, also of the handshake: else its system resets the connection.
        client.ask(ApiKey.ApiVersions, 0, Message())
        client.socket.sendall(requests)
        if says_so:  # as Java does: without waiting for the response
            client.socket.setblocking(False)
            with suppress(ssl.SSLWantReadError):
                client.socket.unwrap()
        client.socket.close()
        wait_for(lambda: values(broker) == wanted)
