"""Sends of an unchanged range of a file."""

import contextlib
import errno
import os
import random
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest

from records import CorruptRecordsError, FileRecords
from records.files.source import TRUNCATED
from records.files.zero_copy import BUFFER_SIZE, ZeroCopySend
from records.units import GiB, KiB, MiB

DATA = random.Random(1).randbytes(3 * BUFFER_SIZE + 1000)
POSITION, SIZE = 500, 2 * BUFFER_SIZE + 700


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(DATA)
    return path


@pytest.fixture
def send(path: Path) -> Iterator[ZeroCopySend]:
    with FileRecords.open(path) as records:
        yield records.slice(POSITION, SIZE).to_send()


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    left, right = socket.socketpair()
    left.setblocking(False)
    right.setblocking(False)
    with left, right:
        yield left, right


class Taking:
    """Takes the given number of bytes at a time, and nothing in between."""

    def __init__(self, sizes: random.Random | int) -> None:
        self._sizes = sizes
        self.received = bytearray()
        self.calls = 0

    def write(self, data: memoryview) -> int:
        self.calls += 1
        if self.calls % 2:
            return 0
        sizes = self._sizes
        taken = bytes(data[: sizes if isinstance(sizes, int) else sizes.randrange(5000)])
        self.received += taken
        return len(taken)


def over_tls(left: socket.socket, right: socket.socket) -> tuple[ssl.SSLSocket, ssl.SSLSocket]:
    """Both ends of a connection that is encrypted and, for want of a certificate, anonymous."""
    ends = []
    for end, protocol in ((left, ssl.PROTOCOL_TLS_SERVER), (right, ssl.PROTOCOL_TLS_CLIENT)):
        context = ssl.SSLContext(protocol)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        context.maximum_version = ssl.TLSVersion.TLSv1_2
        context.set_ciphers("aNULL:@SECLEVEL=0")
        ends.append(
            context.wrap_socket(end, server_side=end is left, do_handshake_on_connect=False)
        )
    waiting = list(ends)
    while waiting:
        for end in list(waiting):
            with contextlib.suppress(ssl.SSLWantReadError):
                end.do_handshake()
                waiting.remove(end)
    return ends[0], ends[1]


class Wrapped(socket.socket):
    """A socket that does something to its bytes, as TLS does."""

    def send(self, data: bytes | memoryview, flags: int = 0, /) -> int:  # type: ignore[override]
        return super().send(bytes(byte ^ 0xFF for byte in data[:1000]), flags)


def write_all(send: ZeroCopySend, channel: object) -> None:
    while not send.completed:
        send.write_to(channel)


def received(send: ZeroCopySend, left: socket.socket, right: socket.socket) -> bytes:
    got = bytearray()
    while not send.completed:
        send.write_to(left)
        try:
            while piece := right.recv(64 * KiB):
                got += piece
        except (BlockingIOError, ssl.SSLWantReadError):
            pass
    return bytes(got)


def test_a_socket_gets_exactly_the_range(
    send: ZeroCopySend, pair: tuple[socket.socket, socket.socket]
) -> None:
    assert send.size == send.remaining == SIZE
    assert received(send, *pair) == DATA[POSITION : POSITION + SIZE]
    assert (send.remaining, send.completed, send.write_to(pair[0])) == (0, True, 0)


def test_a_socket_that_is_full_takes_nothing(
    send: ZeroCopySend, pair: tuple[socket.socket, socket.socket]
) -> None:
    left, right = pair
    left.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    while send.write_to(left):
        pass
    assert not send.completed
    assert send.write_to(left) == 0
    sent = SIZE - send.remaining
    assert right.recv(MiB) == DATA[POSITION : POSITION + sent]


@pytest.mark.parametrize("sizes", [random.Random(2), 4096, GiB])
def test_every_channel_gets_the_same_bytes(send: ZeroCopySend, sizes: random.Random | int) -> None:
    channel = Taking(sizes)
    write_all(send, channel)
    assert channel.received == DATA[POSITION : POSITION + SIZE]


def test_the_file_is_not_read_for_every_byte_that_a_channel_takes(path: Path) -> None:
    with FileRecords.open(path) as records:
        send = records.slice(0, 300).to_send()
        channel = Taking(1)
        send.write_to(channel), send.write_to(channel)
        os.truncate(path, 0)  # what has been read is kept until it is taken
        write_all(send, channel)
    assert channel.received == DATA[:300]


def test_a_subclass_of_socket_gets_its_bytes_through_its_own_send(
    send: ZeroCopySend, pair: tuple[socket.socket, socket.socket]
) -> None:
    left = Wrapped(fileno=pair[0].detach())
    with left:
        got = received(send, left, pair[1])
    assert bytes(byte ^ 0xFF for byte in got) == DATA[POSITION : POSITION + SIZE]


def test_over_tls_a_range_is_sent_encrypted(
    send: ZeroCopySend, pair: tuple[socket.socket, socket.socket]
) -> None:
    server, client = over_tls(*pair)
    with server, client:
        got = received(send, server, client)
    assert got == DATA[POSITION : POSITION + SIZE]


def test_a_socket_with_a_timeout_is_waited_for(
    send: ZeroCopySend, pair: tuple[socket.socket, socket.socket]
) -> None:
    left, right = pair
    left.settimeout(0.01)
    with pytest.raises(TimeoutError):
        write_all(send, left)
    sent = SIZE - send.remaining
    got = b""
    while len(got) < sent:
        got += right.recv(MiB)
    assert got == DATA[POSITION : POSITION + sent]


def test_a_send_may_continue_on_another_channel(
    send: ZeroCopySend, pair: tuple[socket.socket, socket.socket]
) -> None:
    channel = Taking(1000)
    send.write_to(channel), send.write_to(channel)
    assert bytes(channel.received) + received(send, *pair) == DATA[POSITION : POSITION + SIZE]


@pytest.mark.parametrize("seed", range(20))
def test_channels_of_both_kinds_may_take_turns(
    send: ZeroCopySend, pair: tuple[socket.socket, socket.socket], seed: int
) -> None:
    """Bytes that one of them left in a buffer are not sent after the other has taken more."""
    dice = random.Random(seed)
    left, right = pair
    left.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    channel, got = Taking(dice), bytearray()
    while not send.completed:
        if dice.random() < 0.2:
            written = send.write_to(left)
            got += right.recv(written) if written else b""
        else:
            before = len(channel.received)
            send.write_to(channel)
            got += channel.received[before:]
    assert got == DATA[POSITION : POSITION + SIZE]


@pytest.mark.parametrize("kind", ["socket", "channel"])
def test_a_shrunken_file_is_an_error_and_not_a_hang(
    path: Path, kind: str, pair: tuple[socket.socket, socket.socket]
) -> None:
    with FileRecords.open(path) as records:
        send = records.slice(100, 1000).to_send()
        os.truncate(path, 300)
        channel = Taking(MiB) if kind == "channel" else pair[0]
        with pytest.raises(CorruptRecordsError, match=TRUNCATED) as caught:
            write_all(send, channel)
        path.write_bytes(DATA)  # other bytes, for all that anybody knows
        with pytest.raises(CorruptRecordsError) as again:
            send.write_to(channel)
    assert again.value is caught.value
    assert caught.value.position == 300
    assert send.remaining == 800


@pytest.mark.parametrize(("size", "is_whole"), [(300, False), (1099, False), (1100, True)])
def test_only_a_whole_range_is_copied_to_a_buffer(path: Path, size: int, is_whole: bool) -> None:
    with FileRecords.open(path) as records:
        send = records.slice(100, 1000).to_send()
        os.truncate(path, size)
        buffer = memoryview(bytearray(2000))
        assert send.copy_to(buffer) == is_whole
    assert bytes(buffer[: size - 100]) == DATA[100:size]
    assert not any(buffer[size - 100 :])
    assert send.remaining == 1000


def test_a_closed_socket_is_an_error(
    send: ZeroCopySend, pair: tuple[socket.socket, socket.socket]
) -> None:
    pair[1].close()
    with pytest.raises(BrokenPipeError):
        send.write_to(pair[0])
    pair[0].close()
    with pytest.raises(OSError, match="Bad file descriptor"):
        send.write_to(pair[0])


def test_an_empty_range_is_sent_at_once(path: Path) -> None:
    with FileRecords.open(path) as records:
        send = records.slice(10, 0).to_send()
        assert send.completed
        assert send.write_to(Taking(1)) == 0


@pytest.mark.parametrize(
    "number",
    [errno.EINVAL, errno.ENOSYS, errno.ENOTSOCK, errno.EOPNOTSUPP],
    ids=errno.errorcode.get,
)
def test_bytes_are_copied_if_sendfile_is_not_supported(
    send: ZeroCopySend,
    pair: tuple[socket.socket, socket.socket],
    number: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls: list[object] = []

    def sendfile(*_: object) -> int:
        calls.append(1)
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "sendfile", sendfile)
    assert received(send, *pair) == DATA[POSITION : POSITION + SIZE]
    assert len(calls) == 1  # it is not tried again


@pytest.mark.parametrize("number", [errno.EIO, errno.ECONNRESET, errno.EPIPE])
def test_other_errors_of_sendfile_are_the_callers(
    send: ZeroCopySend,
    pair: tuple[socket.socket, socket.socket],
    number: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def sendfile(*_: object) -> int:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "sendfile", sendfile)
    for _ in range(2):
        with pytest.raises(OSError, match=os.strerror(number)):
            send.write_to(pair[0])
    assert send.remaining == SIZE
