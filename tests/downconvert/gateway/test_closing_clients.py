"""What a client has sent before it closed its side is handled, as brokers handle it."""

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from downconvert.broker import Broker
from downconvert.gateway.server import Gateway
from downconvert.protocol.schemas import ApiKey
from tests.downconvert.broker.asking import frame

from .serving import LENGTH, Wire, cluster, gateway
from .talk import message_set, produce_body
from .test_server import wait_for

COUNT = 5


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
    before = len(values(broker))
    magic = {0: 0, 2: 1}.get(version, 2)
    wanted = [b"%d %d %d" % (version, acks, n) for n in range(COUNT)]
    requests = b""
    for value in wanted:
        request = frame(ApiKey.Produce, version, produce_body(message_set(magic, value), acks))
        requests += LENGTH.pack(len(request)) + request
    with Wire(running.address) as client:
        client.socket.sendall(requests)
        if end == "closes its side":
            client.socket.shutdown(socket.SHUT_WR)
            wait_for(lambda: len(values(broker)) == before + COUNT)
    wait_for(lambda: len(values(broker)) == before + COUNT)
    assert values(broker)[before:] == wanted
