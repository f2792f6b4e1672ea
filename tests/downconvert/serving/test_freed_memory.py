"""Memory goes back to the system after a storm of connections, and is left alone otherwise."""

import socket
from collections.abc import Sequence
from pathlib import Path

import pytest

from bench.servers.gateway_memory import gateway
from bench.servers.processes import PATIENCE, Serving, settled
from downconvert.serving.freed_memory import PEAK_MIN, FreedMemory
from records.units import MiB
from tests.waiting import wait_for

FIRST = 200  # clients; too few for a storm
STORM = 2_500
KEPT_MAX = 0.75  # of the growth; otherwise most of it stays


@pytest.mark.parametrize(
    ("counts", "returns"),
    [
        ([PEAK_MIN, PEAK_MIN // 2 + 1, PEAK_MIN // 2 + 1], 0),
        ([PEAK_MIN, PEAK_MIN // 2, PEAK_MIN // 2], 1),
        ([PEAK_MIN - 1, 0, 0], 0),
        ([1000, 500, 400, 10], 0),  # they are still ending
        ([1000, 500, 400, 10, 10, 10], 1),
        ([1000, 500, 500, 250, 250, 0, 0], 2),
        ([1000, 10, 10, 1000, 10, 11], 2),
        ([600, 1000, 501, 501, 500, 500], 1),
        # The second number is the peak since the last look: storms of less than a second.
        ([(0, PEAK_MIN)], 0),  # they may still be ending
        ([(0, PEAK_MIN), (0, 0)], 1),
        ([(0, PEAK_MIN - 1), (0, 0)], 0),
        ([(10, 1000), (20, 30), (10, 30), (10, 10)], 1),  # some come and go
        ([(1000, 1000), (400, 1100), (400, 500), (400, 410)], 1),
    ],
)
def test_memory_is_returned_once_half_of_the_connections_have_ended(
    counts: Sequence[int | tuple[int, int]], returns: int
) -> None:
    done: list[None] = []
    memory = FreedMemory(lambda: done.append(None))
    for count in counts:
        memory.look(*(count if isinstance(count, tuple) else (count, count)))
    assert len(done) == returns


def open_files(serving: Serving) -> int:
    """Asked of the system, because a page of the gateway would take memory amid the storm."""
    return len(list(Path(f"/proc/{serving.pid}/fd").iterdir()))


def come(serving: Serving, count: int) -> list[socket.socket]:
    """Clients that connect and send a byte each. All of them have been accepted, which takes a
    busy machine a while."""
    before = open_files(serving)
    clients = [socket.create_connection(serving.address) for _ in range(count)]
    for client in clients:
        client.sendall(b"\0")
    wait_for(lambda: open_files(serving) >= before + count, PATIENCE, pause=0.05)
    return clients


def test_a_gateway_gives_memory_back_after_a_storm() -> None:
    with gateway(MiB) as serving:
        for client in come(serving, FIRST):  # what the first clients need stays
            client.close()
        wait_for(lambda: open_files(serving) < FIRST)
        idle = settled(lambda: serving.memory)
        clients = come(serving, STORM)
        most = settled(lambda: serving.memory)
        for client in clients:
            client.close()
        wait_for(lambda: serving.memory - idle <= KEPT_MAX * (most - idle), PATIENCE)
