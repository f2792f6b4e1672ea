"""A request that came before is found by its bytes, and only by all of them."""

from pathlib import Path

import pytest

from downconvert.access.rights import Access
from downconvert.broker import Broker
from downconvert.protocol import known_requests
from downconvert.protocol.known_requests import (
    COUNT_MAX,
    FRAME_SIZE_MAX,
    KnownRequests,
)
from downconvert.protocol.requests import Request, parse_body, parse_header
from downconvert.protocol.schemas import ApiKey, Message
from downconvert.storage import LogDir
from tests.downconvert.broker.asking import frame, sent, someone

HEARTBEAT = Message(group_id="group", generation_id=3, member_id="member")


def parsed(data: bytes) -> Request:
    view = memoryview(data)
    return parse_body(parse_header(view), view)


def found(known: KnownRequests, data: bytes | bytearray) -> Request | None:
    return known.find(memoryview(data))[1]


def keep(known: KnownRequests, data: bytes) -> None:
    key, _ = known.find(memoryview(data))
    assert key is not None
    known.keep(key, parsed(data))


def numbered(data: bytes, correlation_id: int) -> bytes:
    return data[:4] + correlation_id.to_bytes(4) + data[8:]


def test_the_same_bytes_are_the_same_request_with_their_own_correlation_id() -> None:
    known, data = KnownRequests(), frame(ApiKey.Heartbeat, 0, HEARTBEAT)
    assert found(known, data) is None
    keep(known, data)
    for correlation_id in (0, 1, 2**31 - 1):
        again = numbered(data, correlation_id)
        one, expected = found(known, again), parsed(again)
        assert one is not None
        assert one.header._replace(correlation_id=correlation_id) == expected.header
        assert (one.body, one.size) == (expected.body, expected.size)


def test_a_frame_that_differs_anywhere_else_is_another_request() -> None:
    known, data = KnownRequests(), frame(ApiKey.Heartbeat, 0, HEARTBEAT)
    keep(known, data)
    for at in (n for n in range(len(data)) if not 4 <= n < 8):
        other = bytearray(data)
        other[at] ^= 1
        assert found(known, other) is None
    for size in range(len(data)):
        assert found(known, data[:size]) is None
    assert found(known, data + b"\0") is None


def fetch(version: int, offset: int, *partitions: int, wait: int = 500) -> bytes:
    asked = [Message(partition=one, fetch_offset=offset) for one in partitions]
    body = Message(max_wait_ms=wait, topics=[Message(topic="t", partitions=asked)])
    return frame(ApiKey.Fetch, version, body)


def test_fetches_of_several_partitions_are_known_by_all_their_offsets() -> None:
    known, data = KnownRequests(), fetch(4, 5, 3, 4)
    keep(known, data)
    assert found(known, data) is not None
    assert found(known, fetch(4, 6, 3, 4)) is None


@pytest.mark.parametrize("version", [7, 12])
def test_fetches_in_a_session_are_not_kept(version: int) -> None:
    known = KnownRequests()
    for epoch in range(3):
        body = Message(session_id=5, session_epoch=epoch, topics=[], forgotten_topics_data=[])
        keep(known, frame(ApiKey.Fetch, version, body))
    assert not len(known)
    keep(known, frame(ApiKey.Fetch, version, Message(session_epoch=0, topics=[])))
    assert len(known) == 1, "it may begin a session"


def test_large_requests_and_those_that_are_sent_once_are_not_kept() -> None:
    large = frame(ApiKey.Heartbeat, 0, Message(**{**vars(HEARTBEAT), "member_id": "m" * 600}))
    assert len(large) > FRAME_SIZE_MAX
    for data in (large, frame(ApiKey.LeaveGroup, 0, Message(group_id="g", member_id="m"))):
        assert KnownRequests().find(memoryview(data)) == (None, None)


def test_their_number_is_bounded() -> None:
    known = KnownRequests()
    for number in range(3 * COUNT_MAX):
        data = frame(ApiKey.Heartbeat, 0, Message(**{**vars(HEARTBEAT), "generation_id": number}))
        keep(known, data)
        assert found(known, data) is not None
        assert len(known) <= COUNT_MAX


@pytest.mark.parametrize("api", sorted(known_requests.POLLED))
def test_a_handler_changes_nothing_in_a_request_that_is_known(api: ApiKey, tmp_path: Path) -> None:
    """The broker's responses to the same bytes are the same, and the request is as it was
    parsed."""
    broker = Broker(LogDir.open(tmp_path))
    for version in broker.versions[api]:
        data = frame(api, version, Message())
        responses = []
        for _ in range(3):
            buffer = bytearray(data)
            exchange = broker.handle(someone(), memoryview(buffer), 0.0)
            if not exchange.is_done:
                broker.tick(100.0)
            responses.append(sent(exchange))
            buffer[:] = bytes(len(buffer))  # the connection's next request comes into it
            assert exchange.request.body == parsed(data).body
        assert responses[0] == responses[1] == responses[2]


def test_the_rights_of_a_client_are_checked_each_time(tmp_path: Path) -> None:
    broker = Broker(LogDir.open(tmp_path))
    (tmp_path / "secret-0").mkdir()
    data = memoryview(frame(ApiKey.Metadata, 1, Message(topics=[Message(name="secret")])))
    client = someone()
    everything = sent(broker.handle(client, data, 0.0))
    client.access = Access(topics=("public",))
    refused = sent(broker.handle(client, data, 0.0))
    assert refused != everything
    client.access = Access()
    assert sent(broker.handle(client, data, 0.0)) == everything
