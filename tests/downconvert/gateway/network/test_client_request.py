"""Requests that are read whole: each up to a limit, and all together up to another."""

from contextlib import ExitStack
from pathlib import Path

from downconvert.gateway.config import Limits
from downconvert.protocol.schemas import ApiKey, Message
from records.units import KiB
from tests.downconvert.broker.asking import frame, parsed
from tests.downconvert.gateway.serving import LENGTH, Wire, cluster, gateway
from tests.downconvert.gateway.talk import message_set, produce_body
from tests.waiting import wait_for

CLIENTS = 6
SIZE = 200 * KiB
MEMORY = 300 * KiB


def test_requests_under_way_take_bounded_memory_and_all_are_answered(tmp_path: Path) -> None:
    data = frame(ApiKey.Produce, 1, produce_body(message_set(0, bytes(SIZE))))
    limits = Limits(requests_memory=MEMORY)
    with cluster(tmp_path, "t") as (_, port), gateway(port, limits=limits) as running:
        memory = running.requests
        with ExitStack() as stack:
            clients = [stack.enter_context(Wire(running.address)) for _ in range(CLIENTS)]
            for client in clients:  # all but its last byte
                client.socket.sendall(LENGTH.pack(len(data)) + data[:-1])
            wait_for(lambda: memory.free <= 0)
            assert MEMORY - memory.free <= MEMORY + SIZE + 64 * KiB
            for client in clients:
                client.socket.sendall(data[-1:])
            for client in clients:
                response = parsed(ApiKey.Produce, 1, client.receive())
                assert response.responses[0].partition_responses[0].error_code == 0
        wait_for(lambda: memory.free == MEMORY)


def test_what_a_client_that_goes_has_sent_is_given_back(tmp_path: Path) -> None:
    data = frame(ApiKey.Produce, 1, produce_body(message_set(0, bytes(SIZE))))
    limits = Limits(requests_memory=MEMORY)
    with cluster(tmp_path, "t") as (_, port), gateway(port, limits=limits) as running:
        for _ in range(5):
            with Wire(running.address) as client:
                client.ask(ApiKey.Metadata, 1, Message(topics=None))
                client.socket.sendall(LENGTH.pack(len(data)) + data[:-1])
        wait_for(lambda: len(running.places) == 0)
        assert running.requests.free == MEMORY
