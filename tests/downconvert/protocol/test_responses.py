"""Responses on their way out: framed, in pieces, and streaming what streams."""

import socket
from contextlib import suppress
from io import BytesIO
from pathlib import Path
from random import Random

import pytest

from downconvert import ConversionPolicy, LazyDownConvertRecords
from downconvert.protocol.joined_send import JoinedSend
from downconvert.protocol.requests import RequestHeader
from downconvert.protocol.responses import COPIED_SIZE_MAX, ResponseSend, response, throttled
from downconvert.protocol.schemas import ApiKey, Message
from records import FileRecords, MemoryRecords
from tests.downconvert.broker.asking import CORRELATION_ID, parsed
from tests.downconvert.storage.logs import batch


class Sluggish:
    """Takes a few bytes at a time, and now and then none."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)
        self.taken = bytearray()
        self.calls = 0

    def write(self, data: memoryview) -> int:
        self.calls += 1
        size = min(len(data), self._random.choice((0, 1, 7, 1000)))
        self.taken += data[:size]
        return size


def header(api: ApiKey, version: int) -> RequestHeader:
    return RequestHeader(api, version, CORRELATION_ID, None, 0)


def fetched(records: object) -> Message:
    partition = Message(partition_index=0, records=records, aborted_transactions=None)
    return Message(responses=[Message(topic="t", partitions=[partition])])


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("version", [3, 12])
def test_a_response_is_the_same_however_the_channel_takes_it(version: int, seed: int) -> None:
    lazy = LazyDownConvertRecords(MemoryRecords(batch(*range(99))), 1)
    whole = BytesIO()
    send = response(header(ApiKey.Fetch, version), fetched(lazy.to_send()))
    while not send.completed:
        send.write_to(whole)
    slow = Sluggish(seed)
    send = response(header(ApiKey.Fetch, version), fetched(lazy.to_send()))
    while not send.completed:
        before = slow.calls
        send.write_to(slow)
        assert slow.calls - before <= 1, "one write in a call"
    assert slow.taken == whole.getvalue()
    assert send.remaining == 0
    answer = parsed(ApiKey.Fetch, version, whole.getvalue())
    assert len(answer.responses[0].partitions[0].records) == lazy.size


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("reads", ["everything", "a little at a time"])
def test_a_small_response_is_the_same_through_a_socket(
    tmp_path: Path, reads: str, seed: int
) -> None:
    """It is copied and sent at once; what a socket does not take goes out as of a large one."""
    random = Random(seed)
    path = tmp_path / "0.log"
    path.write_bytes(batch(*range(99)) * random.choice((1, 7)))

    file = FileRecords.open(path)

    def made() -> ResponseSend:
        kept = LazyDownConvertRecords(file, 1).to_send()
        lazy = LazyDownConvertRecords(
            MemoryRecords(batch(1, 2)), 1, policy=ConversionPolicy.kafka()
        ).to_send()
        sends = [file.slice(0, 500).to_send(), kept, file.slice(3, 9).to_send()]
        chosen = [
            [],
            sends[:1],
            [JoinedSend(sends)],
            [*sends, file.slice(0, 0).to_send()],
            [sends[0], JoinedSend([sends[1], lazy])],
        ][seed % 5]
        partitions = [Message(partition_index=n, records=send) for n, send in enumerate(chosen)]
        responses = [Message(topic="t", partitions=partitions)]
        return response(header(ApiKey.Fetch, 12), Message(responses=responses))

    whole = BytesIO()
    send = made()
    while not send.completed:
        send.write_to(whole)
    ours, theirs = socket.socketpair()
    with file, ours, theirs:
        for end in (ours, theirs):
            end.setblocking(False)
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1)  # the system takes its least
        at_once = 1 << 20 if reads == "everything" else 997
        send, taken = made(), bytearray()
        while not send.completed or len(taken) < send.size:
            written = 0 if send.completed else send.write_to(ours)
            assert send.sent <= send.size
            if random.random() < 0.5 or not written:
                with suppress(BlockingIOError):
                    taken += theirs.recv(at_once)
    assert taken == whole.getvalue()
    assert send.remaining == 0


def test_the_sends_of_a_response_are_known_after_it_was_sent() -> None:
    lazy = LazyDownConvertRecords(MemoryRecords(batch(0, 1)), 1)
    joined = JoinedSend([lazy.to_send()])
    send = response(header(ApiKey.Fetch, 3), fetched(joined))
    assert send.records == [joined]


def test_the_response_to_api_versions_never_has_the_flexible_header() -> None:
    for version in range(5):
        channel = BytesIO()
        send = response(header(ApiKey.ApiVersions, version), Message())
        while not send.completed:
            send.write_to(channel)
        data = channel.getvalue()
        assert data[4:8] == CORRELATION_ID.to_bytes(4)
        assert data[8:10] == b"\0\0"  # no error: the body begins here


def test_a_head_goes_out_with_what_follows_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A client that is woken for the head alone contends with the server for the socket."""
    flags = []
    send_bytes = socket.socket.send

    def send(self: socket.socket, data: memoryview, flag: int = 0) -> int:
        flags.append(flag)
        return send_bytes(self, data, flag)

    monkeypatch.setattr(socket.socket, "send", send)
    path = tmp_path / "0.log"
    path.write_bytes(batch(1) * 1_000)
    file = FileRecords.open(path)
    assert file.size > COPIED_SIZE_MAX
    written = response(header(ApiKey.Fetch, 12), fetched(file.to_send()))
    with file, socket.create_server(("127.0.0.1", 0)) as listener:
        with socket.create_connection(listener.getsockname()) as channel:
            while not written.completed:
                written.write_to(channel)
        client, _ = listener.accept()
        with client, client.makefile("rb") as answer:
            assert len(answer.read()) == written.size
    assert flags == [getattr(socket, "MSG_MORE", 0), 0]  # before the file, and after it


@pytest.mark.parametrize("taken", [1, 20, 60, 130, -1])
def test_the_rest_of_a_copied_response_waits_for_nothing_after_it(
    taken: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A socket takes some bytes of it: of the head, of the records, or all but the last one."""
    flags = []
    send_bytes = socket.socket.send

    def send(self: socket.socket, data: memoryview, flag: int = 0) -> int:
        flags.append(flag)
        return send_bytes(self, data[:taken] if len(flags) == 1 else data, flag)

    monkeypatch.setattr(socket.socket, "send", send)
    path = tmp_path / "0.log"
    path.write_bytes(batch(1))
    with FileRecords.open(path) as file:
        written = response(header(ApiKey.Fetch, 12), fetched(file.to_send()))
        head = written.parts[0]
        assert isinstance(head, bytearray)
        assert len(written.parts) == 3
        assert 20 < len(head) < 60 < 130 < len(head) + file.size
        one, other = socket.socketpair()
        with one, other:
            while not written.completed:
                written.write_to(one)
            assert len(other.recv(4096)) == written.size
    more = [getattr(socket, "MSG_MORE", 0)] if 0 < taken < len(head) else []
    assert flags == [0, *more, 0]


@pytest.mark.parametrize(("before", "seconds", "stated"), [(0, 0.5, 500), (700, 0.5, 700)])
def test_a_throttled_response_states_the_longest_time_that_its_client_has_to_wait(
    before: int, seconds: float, stated: int
) -> None:
    header = RequestHeader(ApiKey.Heartbeat, 1, CORRELATION_ID, None, 0)
    body = Message(throttle_time_ms=before, error_code=0)
    channel = BytesIO()
    throttled(header, body, seconds).write_to(channel)
    assert parsed(ApiKey.Heartbeat, 1, channel.getvalue()).throttle_time_ms == stated


def test_a_response_is_taken_whole_only_without_records_and_from_its_beginning() -> None:
    body = Message(error_code=0, api_keys=[])

    def made() -> ResponseSend:
        return response(header(ApiKey.ApiVersions, 0), body)

    taken, channel = made(), BytesIO()
    whole = taken.take_whole()
    made().write_to(channel)
    assert whole == channel.getvalue()
    assert taken.completed
    assert not taken.remaining
    assert taken.take_whole() is None
    begun = made()
    assert begun.write_to(Channel(1)) == 1
    assert begun.take_whole() is None
    records = response(header(ApiKey.Fetch, 4), fetched(MemoryRecords(batch(0))))
    assert records.take_whole() is None
    assert not records.sent


class Channel:
    """It takes so many bytes."""

    def __init__(self, size: int) -> None:
        self._size = size

    def send(self, data: memoryview) -> int:
        return min(self._size, len(data))
