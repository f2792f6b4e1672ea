"""Promises hold where the memory of requests meets clients that send slowly, wait, or join groups.

Not here: logins (tests/downconvert/gateway/test_login_floods.py), which memory each request takes
(tests/downconvert/serving/test_request_memory.py)."""

import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path

import pytest

from downconvert.broker.server import Server
from downconvert.protocol.schemas import ApiKey, Message
from downconvert.serving.limits import Limits
from downconvert.serving.request_memory import ELEMENT_SIZE
from records.units import KiB, MiB
from tests.waiting import wait_for

from .meeting import TOPIC, batch, produced
from .talking import Talk, serving_broker
from .writable import writable_broker

MEMORY = 6 * MiB
PARTITIONS = 200
ELEMENTS = PARTITIONS + 1  # of a small request
SHARE = MEMORY // 3 // (ELEMENTS * ELEMENT_SIZE)  # so many of them have memory
ELSEWHERE = "127.0.0.2"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    with writable_broker(tmp_path, TOPIC, group_initial_rebalance_delay_ms=600_000) as broker:
        broker.topics.create("many", PARTITIONS, {}, 0)
        with serving_broker(broker, limits=Limits(requests_memory=MEMORY, request=600.0)) as server:
            yield server


def poll() -> Message:
    """An old fetch that waits for a minute."""
    asked = [
        Message(partition=index, fetch_offset=0, partition_max_bytes=1)
        for index in range(PARTITIONS)
    ]
    topics = [Message(topic="many", partitions=asked)]
    return Message(replica_id=-1, max_wait_ms=60_000, min_bytes=1, topics=topics)


def is_free(server: Server, polls: int) -> bool:
    """Whether all memory is free, except that of so many polls."""
    return server.memory.free == MEMORY - polls * ELEMENTS * ELEMENT_SIZE


def test_requests_that_arrive_slowly_delay_no_client_of_another_address(server: Server) -> None:
    begun = (50 * MiB).to_bytes(4) + bytes(2 * MiB)
    with ExitStack() as stack, Talk(server.address) as producer:
        for _ in range(8):
            slow = stack.enter_context(Talk(server.address, source=ELSEWHERE))
            slow.socket.setblocking(False)
            with suppress(BlockingIOError):
                slow.socket.sendall(begun)
        wait_for(lambda: server.memory.free < MEMORY - MEMORY // 3)
        assert [produced(producer, batch(size=500 * KiB)) for _ in range(3)] == [0, 1, 2]


def test_fetches_wait_for_records_only_while_there_is_memory_for_them(server: Server) -> None:
    """Small requests count as well: they may come from all connections. A fetch that finds no
    memory is answered at once, with what there is."""
    with ExitStack() as stack:
        for number in range(1, SHARE + 1):
            stack.enter_context(Talk(server.address)).send(ApiKey.Fetch, 2, poll())
            wait_for(partial(is_free, server, number))
        begun = time.monotonic()
        with Talk(server.address) as more:
            for _ in range(3):
                (topic,) = more.ask(ApiKey.Fetch, 2, poll()).responses
                assert {one.error_code for one in topic.partitions} == {0}
        assert time.monotonic() - begun < 60.0
        assert len(server.broker.purgatory) >= SHARE  # the others wait
        with Talk(server.address, source=ELSEWHERE) as elsewhere:
            elsewhere.send(ApiKey.Fetch, 2, poll())
            wait_for(partial(is_free, server, SHARE + 1))
    wait_for(lambda: server.memory.free == MEMORY)


def test_members_that_wait_for_others_take_the_memory_of_groups_only(server: Server) -> None:
    """Otherwise a rebalance, which may take minutes, would delay producers."""
    protocol = Message(name="range", metadata=bytes(900 * KiB))
    with ExitStack() as stack:
        for number in range(4):
            member = stack.enter_context(Talk(server.address))
            body = Message(
                group_id=f"g{number}",
                session_timeout_ms=30_000,
                rebalance_timeout_ms=600_000,
                member_id="",
                protocol_type="consumer",
                protocols=[protocol],
            )
            member.send(ApiKey.JoinGroup, 2, body)
        groups = server.broker.groups.manager.groups
        wait_for(lambda: len(groups) == 4)  # those that found no memory would wait
        wait_for(lambda: server.memory.free == MEMORY)
        assert all(len(group.members) == 1 for group in groups.values())
