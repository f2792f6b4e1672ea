"""Several processes behind one port, as one gateway."""

import os
import signal
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import pairwise
from multiprocessing import Pipe
from pathlib import Path
from socket import socketpair

import pytest

from downconvert.access.rights import Access, ConfigError
from downconvert.gateway import child_process, processes
from downconvert.gateway.config import GatewayConfig, Limits
from downconvert.gateway.observing import Observation
from downconvert.gateway.processes import Processes
from downconvert.gateway.session.shared import Ledgers
from downconvert.gateway.topology import Address
from downconvert.protocol.schemas import ApiKey, Message
from tests import waiting
from tests.ports import LOOPBACK, free_ports

from .serving import Wire, cluster
from .talk import message_set, produce_body
from .test_observing import ANY_PORT, got
from .test_server import produced

ALL = Message(topics=None)
NOWHERE = Address(LOOPBACK, 1)
STARTED = 120.0  # seconds: a process starts an interpreter, perhaps on a busy machine
wait_for = partial(waiting.wait_for, seconds=STARTED)


@pytest.fixture
def several(tmp_path: Path) -> Iterator[Processes]:
    (node,) = free_ports(1)
    with cluster(tmp_path, "t") as (_, port):
        config = GatewayConfig(
            bootstrap=(Address(LOOPBACK, port),),
            listen=Address(LOOPBACK, 0),
            node_ports={0: node},
        )
        with Processes(config, 2) as running:
            yield running


def children(running: Processes) -> list[int]:
    return [child.process.pid or 0 for child in running.children]


def test_all_processes_serve_and_are_counted_as_one(several: Processes) -> None:
    clients = []
    for _ in range(40):
        clients.append(Wire(several.address))
        response = clients[-1].ask(ApiKey.Metadata, 1, ALL)
        node = Address(response.brokers[0].host, response.brokers[0].port)
    with Wire(node) as client:  # brokers have ports of their own, too
        assert client.ask(ApiKey.Metadata, 1, ALL).topics
    each = [child.ask("figures") for child in several.children]
    assert all(one.connections for one in each)
    wait_for(lambda: counted(several) == (41, 41))
    figures = several.figures()
    assert figures.connections >= 40
    assert figures.processes == 2
    observation = Observation(several, ANY_PORT)
    wait_for(lambda: "downconvert_gateway_ready 1.0" in got(observation.address, "/metrics"))
    text = got(observation.address, "/metrics")
    assert 'requests_total{api="Metadata",version="1"} 41.0' in text
    observation.close()
    for client in clients:
        client.socket.close()


def test_settings_are_read_again_by_all(several: Processes) -> None:
    several.reload(replace(several.config, access=Access(is_read_only=True)))
    for _ in range(10):
        with Wire(several.address) as client:
            assert produced(client) == 29
    with pytest.raises(ConfigError):
        several.reload(replace(several.config, tls_cert="/no", tls_key="/no"))


def asked(several: Processes, times: int) -> None:
    for _ in range(times):
        with Wire(several.address) as client:
            assert client.ask(ApiKey.Metadata, 1, ALL).topics


def counted(several: Processes) -> tuple[int, int]:
    """Requests by the census, and by the histogram, a moment after their responses."""
    figures = several.figures()
    requests = sum(row["requests"] for row in figures.clients)
    return requests, sum(figures.latencies["Metadata"].counts)


def test_a_process_that_dies_is_restarted_and_stays_counted(several: Processes) -> None:
    asked(several, 20)
    wait_for(lambda: several.figures().ends["client_closed"] == 20)
    wait_for(lambda: counted(several) == (20, 20))
    before = children(several)
    os.kill(before[0], signal.SIGKILL)
    wait_for(lambda: several.figures().unready != [])
    assert several.is_alive  # the other one serves
    assert counted(several) == (20, 20)
    wait_for(lambda: children(several) != before and not several.figures().unready)
    asked(several, 5)
    wait_for(lambda: counted(several) == (25, 25))
    figures = several.figures()
    assert (figures.processes, figures.restarted) == (2, 1)
    assert figures.ends["client_closed"] >= 20
    assert figures.cpu_seconds > 0
    assert sorted(figures.each) == [0, 1]
    assert sum(one.resident_bytes for one in figures.each.values()) == figures.resident_bytes


def test_a_silent_process_stays_counted_and_its_late_response_is_dropped(
    several: Processes, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked(several, 20)
    wait_for(lambda: counted(several) == (20, 20))
    monkeypatch.setattr(processes, "FIGURES_SECONDS", 0.5)
    hung = children(several)[0]
    os.kill(hung, signal.SIGSTOP)
    try:
        # On a busy machine the other one may be late, too: that changes nothing that is counted.
        wait_for(lambda: several.figures().unready == ["1 of 2 processes do not answer"])
        assert counted(several) == (20, 20)
    finally:
        os.kill(hung, signal.SIGCONT)
    monkeypatch.setattr(processes, "FIGURES_SECONDS", STARTED)
    with pytest.raises(ConfigError):  # and not one of the responses that came too late
        several.reload(replace(several.config, tls_cert="/no", tls_key="/no"))
    assert counted(several) == (20, 20)
    assert several.figures().processes == 2


def test_a_process_that_cannot_serve_tells_its_parent_why(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    config = GatewayConfig(
        bootstrap=(NOWHERE,), listen=Address(LOOPBACK, 0), tls_cert="/no", tls_key="/no"
    )
    parents, childs = Pipe()
    ours, theirs = socketpair()
    with parents, childs, ours, theirs:
        child_process.serve(childs, theirs, config, lambda: bool, Ledgers())
        number, error = parents.recv()
    assert number == child_process.FIRST  # of the question that it has not heard
    assert isinstance(error, ConfigError)
    (record,) = caplog.records
    assert record.getMessage() == f"this process cannot serve: {error}"
    assert str(error).startswith("tls_cert /no")


def test_a_port_that_is_taken_is_an_error(several: Processes) -> None:
    config = replace(several.config, listen=several.address)
    with pytest.raises(OSError, match="in use"):
        Processes(config, 2).start()


def test_limits_are_shared_by_all_processes(several: Processes) -> None:
    limits = Limits(connections=2)
    several.reload(replace(several.config, limits=limits))
    clients = [Wire(several.address) for _ in range(10)]
    seen = list[tuple[int, int]]()  # connections, and those refused

    def each_is_decided() -> bool:
        figures = several.figures()
        seen.append((figures.connections, figures.ends["refused"]))
        return sum(seen[-1]) == len(clients)

    wait_for(each_is_decided)
    assert 1 <= seen[-1][0] <= 2  # each process has its share of the limit
    for client in clients:
        client.socket.close()


def test_a_rate_is_shared_by_all_processes(several: Processes) -> None:
    """A client that connects again and again learns from any process how long it must wait."""
    several.reload(replace(several.config, access=Access(producer_byte_rate=1.0)))
    body, throttled = produce_body(message_set(0, b"a")), list[int]()

    def each_has_told() -> bool:
        with Wire(several.address) as client:
            throttled.append(client.ask(ApiKey.Produce, 1, body).throttle_time_ms)
        return all(child.ask("figures").throttled for child in several.children)

    wait_for(each_has_told)  # the system decides which process gets a connection
    each = throttled[0]  # milliseconds that one produce takes, less the second that may be saved up
    assert all(later > earlier + each // 2 for earlier, later in pairwise(throttled))
