"""Clients over TCP: real sockets, and a real server."""

import socket
from pathlib import Path
from threading import Event, Thread
from time import sleep

import pytest

from records.units import KiB
from simulator.children import SimulationError
from simulator.load.clients import Clients, ClientSpec
from simulator.load.plan import make_scans
from simulator.load.steps import LENGTH_SIZE, Step, new_digest
from tests.simulator.loads import SMALL, measured, serving, topic


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return topic(tmp_path_factory.mktemp("clients"), SMALL)


@pytest.fixture(scope="module")
def scans(directory: Path) -> dict[tuple[int, int], list[Step]]:
    return make_scans(directory, SMALL)


def test_clients_of_every_kind_read_and_check_all_records(
    directory: Path, scans: dict[tuple[int, int], list[Step]]
) -> None:
    specs = [
        ClientSpec(group.kind, scans[group.version, number])
        for group in SMALL.clients
        for number in range(group.count)
    ]
    with serving(directory, SMALL) as address:
        stats = measured(address, specs, 0.0)
    assert set(stats.kinds) == {"0.8", "0.10", "3.x"}
    for group in SMALL.clients:
        of_kind = stats.kinds[group.kind]
        ways = [scans[group.version, number] for number in range(group.count)]
        assert of_kind.wrong == 0
        assert of_kind.responses >= sum(map(len, ways))
        assert of_kind.records >= sum(step.records for way in ways for step in way)
        assert of_kind.size >= sum(step.size for way in ways for step in way)
        assert len(of_kind.latencies) == len(of_kind.first_bytes) == of_kind.responses
        times = zip(of_kind.first_bytes, of_kind.latencies, strict=True)
        assert all(0 < first <= last for first, last in times)


@pytest.mark.parametrize("change", [{"digest": b"another "}, {"size": 77}])
def test_a_response_that_is_not_as_planned_is_counted(
    directory: Path, scans: dict[tuple[int, int], list[Step]], change: dict[str, object]
) -> None:
    scan = list(scans[3, 0])
    scan[0] = scan[0]._replace(**change)  # type: ignore[arg-type]
    with serving(directory, SMALL) as address:
        stats = measured(address, [ClientSpec("0.10", scan)], 0.0)
    assert stats.kinds["0.10"].wrong >= 1


def test_a_slow_client_reads_at_its_rate_and_is_not_timed(
    directory: Path, scans: dict[tuple[int, int], list[Step]]
) -> None:
    rate = 16 * KiB
    with serving(directory, SMALL) as address:
        specs = [ClientSpec("0.8", scans[0, 0], rate), ClientSpec("3.x", scans[12, 0], pause=0.01)]
        stats = measured(address, specs, 0.5)
    slow = stats.kinds["0.8"]
    assert slow.size <= (stats.seconds + 0.5) * rate
    assert slow.wrong == 0
    assert not slow.latencies
    assert stats.kinds["3.x"].latencies


def test_a_broker_that_hangs_up_is_an_error(scans: dict[tuple[int, int], list[Step]]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = Thread(target=lambda: listener.accept()[0].close())
        thread.start()
        clients = Clients(listener.getsockname()[:2], [ClientSpec("0.8", scans[0, 0])])
        thread.join()
        parent = SilentParent()
        with pytest.raises(SimulationError, match=r"of 0\.8|takes? a request|lost its connection"):
            clients.run(parent, 0.0)  # type: ignore[arg-type]


class SilentParent:
    """A parent that never ends the run."""

    def has_sent(self) -> bool:
        return False


class EndingParent(SilentParent):
    """A parent that ends the run when the broker has got a second request."""

    def __init__(self) -> None:
        self.got_second = Event()

    def has_sent(self) -> bool:
        return self.got_second.is_set()

    def receive(self) -> None:
        pass

    def send(self, message: str) -> None:
        pass


@pytest.mark.parametrize("cut", [1, 3, 4, 6])
def test_a_response_may_come_in_pieces_and_its_length_too(cut: int) -> None:
    body = b"answer"
    whole = len(body).to_bytes(LENGTH_SIZE) + body
    digest = new_digest()
    digest.update(body)
    step = Step(b"request", len(whole), digest.digest(), 1)
    parent = EndingParent()

    def serve(listener: socket.socket) -> None:
        connected, _ = listener.accept()
        with connected:
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            assert connected.recv(100) == step.request
            connected.sendall(whole[:cut])
            sleep(0.05)
            connected.sendall(whole[cut:])
            assert connected.recv(100) == step.request
            parent.got_second.set()
            assert connected.recv(100) == b""  # the run has ended

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = Thread(target=serve, args=(listener,))
        thread.start()
        clients = Clients(listener.getsockname()[:2], [ClientSpec("3.x", [step])])
        stats = clients.run(parent, 60.0)  # type: ignore[arg-type]
        thread.join()
    of_kind = stats.kinds["3.x"]
    assert (of_kind.responses, of_kind.wrong, of_kind.size) == (1, 0, len(whole))
