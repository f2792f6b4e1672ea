"""Requests sent without waiting: their responses leave together, and none is late."""

import socket
import ssl
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from downconvert.access.rights import Access
from downconvert.broker.server import Server
from downconvert.protocol.schemas import ApiKey, Message
from downconvert.serving.limits import FREE_SIZE
from downconvert.serving.tls import server_context
from records import build
from records.record import Record
from tests.downconvert.broker.asking import frame
from tests.downconvert.broker.guarding import guard_of
from tests.downconvert.broker.talking import (
    API_VERSIONS,
    SECONDS,
    TOPIC,
    Talk,
    fetch,
    serving,
    serving_broker,
)
from tests.downconvert.broker.writable import writable_broker

COUNT: Final = 16
SEGMENTS_AT: Final = slice(152, 156)  # of Linux's tcp_info: the segments with data that have come
HELD: Final = 0.2  # seconds for which Linux holds a segment that is not full
WAIT: Final = round(SECONDS * 1000)  # of a fetch: longer than the test


def framed(data: bytes) -> bytes:
    return len(data).to_bytes(4) + data


def requested(*requests: tuple[ApiKey, int, Message]) -> bytes:
    return b"".join(framed(frame(*one)) for one in requests)


@pytest.mark.skipif(not hasattr(socket, "TCP_INFO"), reason="only Linux counts segments so")
def test_responses_to_requests_that_came_together_leave_together(tmp_path: Path) -> None:
    with serving(tmp_path) as server, Talk(server.address) as talk:
        talk.socket.sendall(requested(*[API_VERSIONS] * COUNT))
        found = {talk.receive() for _ in range(COUNT)}
        info = talk.socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
        segments = int.from_bytes(info[SEGMENTS_AT], "little")
        assert len(found) == 1
        assert 1 <= segments <= COUNT // 2


def half(data: bytes) -> bytes:
    return data[: len(data) // 2]


def produce(acks: int) -> tuple[ApiKey, int, Message]:
    partition = Message(index=0, records=build([Record(0, 0, value=b"v")], magic=2))
    topics = [Message(name=TOPIC, partition_data=[partition])]
    body = Message(transactional_id=None, acks=acks, timeout_ms=1000, topic_data=topics)
    return ApiKey.Produce, 3, body


@pytest.mark.parametrize(
    "following",
    [
        lambda: requested((ApiKey.Fetch, 4, fetch(0, wait=WAIT))),
        lambda: requested((ApiKey.Fetch, 2, fetch(0, wait=WAIT))),  # on another thread
        lambda: requested((ApiKey.Fetch, 4, fetch(0, wait=WAIT)), API_VERSIONS),
        lambda: half(requested(API_VERSIONS)),
        lambda: requested(produce(acks=0)),
        lambda: requested(produce(acks=0)) + half(requested(API_VERSIONS)),
    ],
)
def test_no_response_waits_for_one_that_does_not_follow_at_once(
    tmp_path: Path, following: Callable[[], bytes]
) -> None:
    with writable_broker(tmp_path, TOPIC) as broker, serving_broker(broker) as server:
        assert seconds_for_two(server, following()) < HELD / 2


def test_no_response_waits_while_its_client_is_beyond_its_rate(tmp_path: Path) -> None:
    with writable_broker(tmp_path, TOPIC) as broker, serving_broker(broker) as server:
        broker.guard = guard_of(None, Access(producer_byte_rate=1.0))
        assert seconds_for_two(server, requested(produce(acks=0), API_VERSIONS)) < HELD / 2


def seconds_for_two(server: Server, following: bytes) -> float:
    """The time until two responses have come, if other requests follow at once: of a few."""
    seconds = []
    for _ in range(5):
        with Talk(server.address) as talk:
            started = time.monotonic()
            talk.socket.sendall(requested(API_VERSIONS, API_VERSIONS) + following)
            talk.receive()
            talk.receive()
            seconds.append(time.monotonic() - started)
    return min(seconds)


def test_requests_that_tls_holds_are_answered_without_further_bytes(
    tmp_path: Path, certificate: tuple[Path, Path]
) -> None:
    """They come in one record, of which the server reads a part at a time."""
    count = 3 * FREE_SIZE // len(requested(API_VERSIONS))
    theirs = ssl.create_default_context(cafile=certificate[0])
    with (
        serving(tmp_path, tls=server_context(*certificate)) as server,
        Talk(server.address, theirs) as talk,
    ):
        talk.socket.sendall(requested(*[API_VERSIONS] * count))
        assert len({talk.receive() for _ in range(count)}) == 1


def test_responses_before_a_request_that_ends_the_connection_arrive(tmp_path: Path) -> None:
    """More bytes follow, so the connection ends by a reset. It discards what is still held."""
    following = framed(b"\0\0\0\0\0\0\0") + framed(bytes(2 * FREE_SIZE))
    with serving(tmp_path) as server:
        for count in (1, 3):
            with Talk(server.address) as talk:
                talk.socket.sendall(requested(*[API_VERSIONS] * count) + following)
                assert len({talk.receive() for _ in range(count)}) == 1
                assert talk.has_ended()
