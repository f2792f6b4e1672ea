"""Under faults, acknowledged records are there, in their order, and consumers get all of them."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from downconvert.broker import Broker, BrokerConfig
from downconvert.broker.server import Server
from downconvert.gateway.server import Gateway
from downconvert.gateway.topology import Address
from downconvert.protocol.schemas import ApiKey
from downconvert.storage import LogDir
from tests.ports import LOOPBACK, free_ports
from tests.waiting import wait_for

from .cluster import modern
from .cutting import Cut, Persistent, Wiring, wired
from .serving import KEPT, cluster, gateway
from .talk import fetch_body, message_set, produce_body, records_of

SEED = 8191
RECORDS = 60
NEVER = 1e6  # seconds
ROOT = Path(__file__).parents[3]


@pytest.fixture
def between(tmp_path: Path) -> Iterator[tuple[Wiring, Gateway]]:
    """A gateway whose connections to the cluster can be cut. There is no way but this one: the
    broker, too, says that it is at the other end of the wire."""
    (port,) = free_ports(1)
    with (
        wired(port) as wiring,
        cluster(tmp_path, "t", port=port, advertise=wiring.port),
        gateway(wiring.port, refresh_seconds=NEVER) as front,
    ):
        wait_for(lambda: bool(front.topology.nodes))
        yield wiring, front


def produce(client: Persistent, number: int, version: int = 1) -> None:
    """Until it is acknowledged. Version 0 to 2 are translated, 3 passes."""
    magic = 2 if version >= 3 else 1 if version == 2 else 0
    body = produce_body(message_set(magic, b"%d" % number), acks=-1)
    response = client.ask(ApiKey.Produce, version, body)
    assert response.responses[0].partition_responses[0].error_code == 0


def consume(client: Persistent, version: int = 1) -> list[int]:
    """All values, each offset once, in the order in which they came."""
    found: list[int] = []
    offset = 0
    while True:
        response = client.ask(ApiKey.Fetch, version, fetch_body(offset))
        records = records_of(response.responses[0].partitions[0])
        if not records:
            return found
        assert [record.offset for record in records] == list(range(offset, offset + len(records)))
        found += [int(record.value or b"") for record in records]
        offset += len(records)


def cuts(wiring: Wiring, client: Persistent, step: int) -> Iterator[Cut]:
    """At every `step`th byte of what the last connection carried, in either direction."""
    random = Random(SEED)
    sizes = list(wiring.passed)
    client.hang_up()
    for of_requests, size in ((True, sizes[True]), (False, sizes[False])):
        for position in range(1 + random.randrange(step), size, step):
            yield Cut(of_requests, position, is_abrupt=random.random() < 0.5)


@pytest.mark.parametrize("version", [1, 2, 3])
def test_a_producer_that_is_cut_off_at_any_byte_loses_nothing(
    between: tuple[Wiring, Gateway], version: int
) -> None:
    wiring, front = between
    client = Persistent(front.address)
    produce(client, 0, version)
    tried = list(cuts(wiring, client, 7))
    for number, wiring.cut in enumerate(tried, 1):
        produce(client, number, version)
        client.hang_up()
    found = consume(client)
    assert client.failures >= len(tried)
    firsts = list(dict.fromkeys(found))
    assert firsts == list(range(len(tried) + 1))
    # Twice is there only what was written and not acknowledged, right where it was tried again.
    assert found == sorted(found)


@pytest.mark.parametrize("version", [0, 3, 9, 12])
def test_a_consumer_that_is_cut_off_at_any_byte_gets_everything_once(
    between: tuple[Wiring, Gateway], version: int
) -> None:
    wiring, front = between
    client = Persistent(front.address)
    for number in range(5):
        produce(client, number)
    client.hang_up()
    assert client.ask(ApiKey.Fetch, version, fetch_body(0)).responses
    tried = list(cuts(wiring, client, 19))
    for cut in tried:
        wiring.cut = cut
        assert consume(client, version) == list(range(5))
        client.hang_up()
    assert client.failures >= len(tried) // 2


def test_a_produce_is_acknowledged_only_when_the_cluster_has_acknowledged(
    between: tuple[Wiring, Gateway],
) -> None:
    """The response is kept back at its last byte."""
    wiring, front = between
    client = Persistent(front.address)
    produce(client, 0)
    wiring_responses = wiring.passed[False]
    client.hang_up()
    wiring.cut = Cut(of_requests=False, size=wiring_responses - 1)
    produce(client, 1)
    assert client.failures == 1
    assert consume(client) == [0, 1, 1]


def test_a_broker_that_is_restarted_loses_nothing(tmp_path: Path) -> None:
    random = Random(SEED)
    (port,) = free_ports(1)
    with LogDir.open(tmp_path, writable=True) as log_dir:
        broker = modern(Broker(log_dir, BrokerConfig(is_writable=True)))
        broker.topics.create("t", 1, KEPT, 0)
        server = Server(broker, (LOOPBACK, port))
        server.start()
        with gateway(port) as front:
            client = Persistent(front.address)
            for number in range(RECORDS):
                if random.random() < 0.1:
                    server.stop()
                    server = Server(broker, (LOOPBACK, port))
                    server.start()
                produce(client, number)
            assert client.failures > 0
            assert consume(client) == list(range(RECORDS))
        server.stop()


def test_a_gateway_that_is_killed_and_started_again_loses_nothing(tmp_path: Path) -> None:
    random = Random(SEED)
    first, node = free_ports(2)
    with cluster(tmp_path, "t") as (_, port):
        deaths = sorted(random.sample(range(5, RECORDS), 2))
        client = Persistent(Address(LOOPBACK, first))
        process = start(port, first, node)
        try:
            for number in range(RECORDS):
                if number in deaths:
                    process.kill()
                    process.communicate()
                    process = start(port, first, node)
                produce(client, number)
            found = consume(client)
        finally:
            process.kill()
            process.communicate()
    assert client.failures > 0
    assert list(dict.fromkeys(found)) == list(range(RECORDS))
    assert found == sorted(found)


def start(port: int, first: int, node: int) -> "subprocess.Popen[str]":
    """`downconvert gateway` that serves."""
    where = ("--bootstrap", f"{LOOPBACK}:{port}", "--listen", f"{LOOPBACK}:{first}")
    options = ("--node-port", f"0={node}", "--json")
    process = subprocess.Popen(
        (sys.executable, "-m", "downconvert", "gateway", *where, *options),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        cwd=ROOT,
    )
    assert process.stdout is not None
    assert any(json.loads(line)["ready"] for line in process.stdout)
    return process
