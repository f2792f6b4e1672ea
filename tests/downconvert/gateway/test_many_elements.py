"""Requests of many elements, which take much more memory than their bytes, while they wait."""

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from downconvert.access.rights import Access
from downconvert.gateway.config import Limits
from downconvert.gateway.server import Gateway
from downconvert.protocol.schemas import ApiKey, Message
from downconvert.serving.request_memory import ELEMENT_SIZE
from records.units import MiB
from tests.downconvert.broker.talking import Talk
from tests.waiting import wait_for

from .hanging import Hanging
from .serving import Wire, cluster, gateway
from .talk import message_set, produce_body

ELEMENTS, CLIENTS, MEMORY = 10_000, 6, 8 * MiB
SMALL = 300  # elements of a request that is small
HOUR = 3_600_000  # milliseconds
SHORTEST = 6.0  # seconds that one of these fetches waits in this cluster, if it may


def test_requests_that_wait_for_the_cluster_count_by_what_their_elements_take(
    tmp_path: Path,
) -> None:
    assert MEMORY < 2 * ELEMENTS * ELEMENT_SIZE
    names = [Message(name=f"t{number:06}") for number in range(ELEMENTS)]
    with ExitStack() as stack:
        _, port = stack.enter_context(cluster(tmp_path, "t"))
        broker = stack.enter_context(Hanging(port))
        limits, access = Limits(requests_memory=MEMORY), Access(topics=("t*",))
        running = stack.enter_context(gateway(broker.port, limits=limits, access=access))
        wait_for(lambda: running.topology.api_versions is not None)
        clients = [stack.enter_context(Wire(running.address)) for _ in range(CLIENTS)]
        for client in clients:
            client.ask(ApiKey.Metadata, 4, Message(topics=names[:1]))
        broker.hangs = True
        for client in clients:
            client.send(ApiKey.Metadata, 4, Message(topics=names))
        wait_for(lambda: running.requests.free < MEMORY - ELEMENTS * ELEMENT_SIZE)
        for _ in range(20):  # the others find no memory meanwhile
            with Wire(running.address) as other:
                other.ask(ApiKey.ApiVersions, 0, Message())
        most = 1 + running.pool.threads  # each of them may be at one when the first is counted
        assert running.requests.free > MEMORY - most * ELEMENTS * ELEMENT_SIZE
        for client in clients:
            client.socket.close()
        wait_for(lambda: running.requests.free == MEMORY)


def poll(partitions: int) -> Message:
    """An old fetch that waits for records for long."""
    asked = [Message(partition=0, fetch_offset=0, partition_max_bytes=1)] * partitions
    topics = [Message(topic="t", partitions=asked)]
    return Message(replica_id=-1, max_wait_ms=HOUR, min_bytes=1, topics=topics)


@contextmanager
def hanging(path: Path) -> Iterator[tuple[Hanging, Gateway]]:
    """A broker that may hang, and a gateway with little memory."""
    limits = Limits(requests_memory=MEMORY)
    with (
        cluster(path, "t") as (_, port),
        Hanging(port) as broker,
        gateway(broker.port, limits=limits) as running,
    ):
        wait_for(lambda: running.topology.api_versions is not None)
        yield broker, running


def test_requests_that_wait_for_the_cluster_delay_no_client_of_another_address(
    tmp_path: Path,
) -> None:
    """A producer needs memory, too."""
    with hanging(tmp_path) as (broker, running), ExitStack() as stack:
        clients = [stack.enter_context(Talk(running.address)) for _ in range(CLIENTS)]
        for client in clients:
            client.ask(ApiKey.Metadata, 1, Message(topics=[]))
        broker.hangs = True
        for client in clients:
            client.send(ApiKey.Fetch, 2, poll(ELEMENTS))
            wait_for(lambda: running.requests.free < MEMORY - ELEMENTS * ELEMENT_SIZE)
        wait_for(lambda: broker.lost > 0)  # one of them is never answered
        broker.hangs = False
        with Talk(running.address, source="127.0.0.2") as producer:
            body = produce_body(message_set(0, bytes(MEMORY // 16)))
            response = producer.ask(ApiKey.Produce, 2, body)
            assert response.responses[0].partition_responses[0].error_code == 0
        assert running.requests.free < MEMORY - ELEMENTS * ELEMENT_SIZE  # they still wait


@pytest.mark.parametrize("partitions", [SMALL, ELEMENTS])
def test_fetches_wait_for_records_only_while_there_is_memory_for_them(
    tmp_path: Path, partitions: int
) -> None:
    """Those that find none are answered at once, with what there is. Requests that are small count
    as well."""
    least = MEMORY // 3 // (partitions * ELEMENT_SIZE)  # so many may wait
    with hanging(tmp_path) as (_, running), ExitStack() as stack:
        for _ in range(least):
            client = stack.enter_context(Talk(running.address))
            client.ask(ApiKey.Metadata, 1, Message(topics=[]))
            client.send(ApiKey.Fetch, 2, poll(partitions))
        taken = least * partitions * ELEMENT_SIZE
        wait_for(lambda: running.requests.free <= MEMORY - taken)
        with Talk(running.address) as more:
            begun = time.monotonic()
            for _ in range(9):
                (topic,) = more.ask(ApiKey.Fetch, 2, poll(partitions)).responses
                assert [one.error_code for one in topic.partitions[:1]] == [0]
            assert time.monotonic() - begun < 9 * SHORTEST
