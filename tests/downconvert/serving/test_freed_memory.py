"""Memory goes back to the system after a storm of connections, and is left alone otherwise."""

import socket
from collections.abc import Sequence

import pytest

from bench.servers.gateway_memory import gateway
from bench.servers.processes import settled
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


def come(address: tuple[str, int], count: int) -> list[socket.socket]:
    """Clients that connect and send a byte each."""
    clients = [socket.create_connection(address) for _ in range(count)]
    for client in clients:
        client.sendall(b"\0")
    return clients


def test_a_gateway_gives_memory_back_after_a_storm() -> None:
    with gateway(MiB) as serving:
        for client in come(serving.address, FIRST):  # what the first clients need stays
            client.close()
        idle = settled(lambda: serving.memory)
        clients = come(serving.address, STORM)
        most = settled(lambda: serving.memory)
        for client in clients:
            client.close()

        def has_given_back() -> bool:
            nonlocal most  # on a busy machine, connections may be accepted late
            most = max(most, serving.memory)
            return serving.memory - idle <= KEPT_MAX * (most - idle)

        wait_for(has_given_back)
