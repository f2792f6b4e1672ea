"""Limits over real sockets: of connections, time, memory and rates, and who comes upon them."""

import resource
import socket
import ssl
import time
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from downconvert.access.rights import Access
from downconvert.broker.server import Server
from downconvert.protocol.schemas import ApiKey
from downconvert.serving.limits import Limits
from downconvert.serving.request_memory import LOGIN_PART
from downconvert.serving.tls import server_context
from records.units import KiB, MiB

from .asking import frame
from .guarding import guard_of
from .talking import (
    API_VERSIONS,
    QUICK,
    SECONDS,
    SMALL_BUFFER,
    Talk,
    eventually,
    fetch,
    fetched,
    serving,
)


def test_connections_beyond_the_limit_are_closed_and_others_served(tmp_path: Path) -> None:
    with serving(tmp_path, limits=Limits(connections=3)) as server, ExitStack() as stack:
        talks = [stack.enter_context(Talk(server.address)) for _ in range(3)]
        assert all(talk.is_served() for talk in talks)
        with Talk(server.address) as one_more:
            assert one_more.has_ended()
        assert all(talk.is_served() for talk in talks)
        talks[0].socket.close()
        assert eventually(lambda: Talk(server.address), lambda talk: talk.is_served())


def test_connections_leave_files_to_the_logs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise connections could take all descriptors, and a log that needs a new file would
    fail."""
    with serving(tmp_path) as server, ExitStack() as stack:
        monkeypatch.setattr(resource, "getrlimit", lambda _: (4, 4))
        talks = [stack.enter_context(Talk(server.address)) for _ in range(3)]
        assert all(talk.is_served() for talk in talks)
        with Talk(server.address) as one_more:
            assert one_more.has_ended()


def test_one_address_has_fewer_places_than_all_together(tmp_path: Path) -> None:
    limits = Limits(connections=9, connections_per_address=2)
    with serving(tmp_path, limits=limits) as server, ExitStack() as stack:
        talks = [stack.enter_context(Talk(server.address)) for _ in range(2)]
        assert all(talk.is_served() for talk in talks)
        with Talk(server.address) as one_more:
            assert one_more.has_ended()
        assert all(talk.is_served() for talk in talks)


@pytest.mark.parametrize(
    "start",
    [b"\0\0\0\x10\0\x12", b"\0\0\0", (100 * MiB).to_bytes(4) + b"x" * 100],
    ids=["half a request", "half a length", "a large claim"],
)
def test_a_request_that_takes_too_long_ends_the_connection(tmp_path: Path, start: bytes) -> None:
    with serving(tmp_path, limits=QUICK) as server, Talk(server.address) as talk:
        talk.socket.sendall(start)
        assert talk.has_ended()


def test_a_client_that_sends_slowly_gets_no_more_time(tmp_path: Path) -> None:
    with serving(tmp_path, limits=QUICK) as server, Talk(server.address) as talk:
        talk.socket.sendall(b"\0\0\x01\0")  # 256 bytes
        sent = 0
        with suppress(ConnectionError):  # reset, or a broken pipe
            for _ in range(256):
                talk.socket.sendall(b"x")
                sent += 1
                time.sleep(0.02)
        assert sent < 256


def test_a_client_that_is_idle_for_too_long_is_disconnected(tmp_path: Path) -> None:
    with serving(tmp_path, limits=Limits(idle=1.0)) as server, Talk(server.address) as talk:
        assert talk.is_served()
        assert talk.has_ended()


def test_a_client_that_waits_for_a_response_is_not_idle(tmp_path: Path) -> None:
    with serving(tmp_path, limits=Limits(idle=1.0)) as server, Talk(server.address) as talk:
        both = frame(ApiKey.Fetch, 2, fetch(offset=30, wait=2500)), frame(*API_VERSIONS)
        # At once: this client may rest longer than it may be idle.
        talk.socket.sendall(b"".join(len(one).to_bytes(4) + one for one in both))
        assert talk.receive()
        assert talk.receive()


@pytest.mark.usefixtures("without_defects")
@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
        (2**31 - 1).to_bytes(4),
        (-1).to_bytes(4, signed=True),
        bytes(4),
        b"\0\0\0\x08" + b"\x7f\xff" * 4,
        b"\0\0\0\x0e\0\x01\x7f\xff\0\0\0\0\xff\xff\0\0\0\0",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(500),
    ],
    ids=["HTTP", "2 GB", "-1", "empty", "no such API", "no such version", "TLS"],
)
def test_garbage_ends_its_connection_alone(server: Server, data: bytes) -> None:
    with Talk(server.address) as other, Talk(server.address) as talk:
        talk.socket.sendall(data)
        assert talk.has_ended()
        assert other.is_served()


def test_half_sent_requests_take_little_memory(tmp_path: Path) -> None:
    limits = Limits(requests_memory=2 * MiB)
    with serving(tmp_path, limits=limits) as server, ExitStack() as stack:
        talks = [stack.enter_context(Talk(server.address)) for _ in range(8)]
        claim = (64 * MiB).to_bytes(4) + bytes(512 * KiB)
        for talk in talks:
            talk.socket.settimeout(0.2)
            with suppress(TimeoutError):
                talk.socket.sendall(claim)
        with Talk(server.address) as other:
            assert other.is_served()
        assert server.memory.free > -1 * MiB


def test_clients_that_have_not_logged_in_share_a_small_part_of_the_memory(tmp_path: Path) -> None:
    limits = Limits(requests_memory=LOGIN_PART * 32 * KiB)
    large = frame(*API_VERSIONS) + bytes(24 * KiB)
    with serving(tmp_path, limits=limits) as server:
        server.broker.guard = guard_of({"ann": "secret"})
        with ExitStack() as stack:
            half, other, small = (stack.enter_context(Talk(server.address)) for _ in range(3))
            half.socket.sendall((60 * KiB).to_bytes(4) + bytes(40 * KiB))
            assert all(small.is_served() for _ in range(20))  # by then all of that has been read
            other.send_frame(large)
            assert all(small.is_served() for _ in range(20))
            other.socket.settimeout(0.1)
            with pytest.raises(TimeoutError):
                other.receive()
            other.socket.settimeout(SECONDS)
            half.socket.close()
            assert other.receive()


def test_a_client_that_does_not_read_delays_no_other_client(tmp_path: Path) -> None:
    with serving(tmp_path, batches=40, size=20 * KiB) as server, ExitStack() as stack:
        slow = [
            stack.enter_context(Talk(server.address, receive_buffer=SMALL_BUFFER)) for _ in range(5)
        ]
        for talk in slow:
            talk.send(ApiKey.Fetch, 2, fetch(max_bytes=16 * MiB))
        with Talk(server.address) as other:
            assert fetched(other, 2)
            assert fetched(other, 4)
        for talk in slow:  # and gets its response, once it does; of what several ask for, a turn's
            assert len(talk.receive()) > MiB // 2


def test_a_flood_of_connections_leaves_nothing_behind(server: Server) -> None:
    for _ in range(300):
        with socket.create_connection(server.address) as flood:
            flood.sendall(b"\0\0")
    assert eventually(lambda: Talk(server.address), lambda talk: talk.is_served())
    until = time.monotonic() + SECONDS
    while len(server.places) and time.monotonic() < until:
        time.sleep(0.01)
    assert len(server.places) == 0


@pytest.mark.parametrize("is_tls", [False, True])
def test_a_client_above_its_rate_is_answered_and_then_waits(
    tmp_path: Path, certificate: tuple[Path, Path], is_tls: bool
) -> None:
    """The clock of the test begins after the server's, so that the wait is never shorter."""
    context = server_context(*certificate) if is_tls else None
    theirs = ssl.create_default_context(cafile=certificate[0]) if is_tls else None
    with serving(tmp_path, size=100, tls=context) as server:
        rate = 4_000.0
        server.broker.guard = guard_of(None, Access(consumer_byte_rate=rate))
        with Talk(server.address, theirs) as talk, Talk(server.address, theirs) as other:
            started = time.monotonic()
            talk.send(ApiKey.Fetch, 4, fetch())
            talk.send(ApiKey.Fetch, 4, fetch())  # is there, and not read
            sizes = [len(talk.receive())]
            assert other.is_served()
            sizes.append(len(talk.receive()))
            talk.send(*API_VERSIONS)
            talk.receive()
            assert time.monotonic() - started > sum(sizes) / rate - 1 - 0.1
    assert sum(sizes) > 6_000
