"""One way to write to everything that takes bytes."""

import io
import os
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from records.files.channel import writer
from records.units import MiB

DATA = memoryview(bytes(range(256)))


class Channel:
    """Returns the given responses, or raises them."""

    def __init__(self, response: Any) -> None:
        self._answer = response

    def write(self, _: memoryview) -> Any:
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    left, right = socket.socketpair()
    with left, right:
        yield left, right


def test_a_socket_takes_bytes_until_it_is_full(
    pair: tuple[socket.socket, socket.socket],
) -> None:
    left, right = pair
    left.setblocking(False)
    write = writer(left)
    large = memoryview(bytes(10_000_000))
    taken = write(large)
    assert 0 < taken < len(large)
    while more := write(large):
        taken += more
    assert write(large) == 0
    received = 0
    while received < taken:
        received += len(right.recv(MiB))
    assert write(DATA) == len(DATA)


def test_a_blocking_socket_takes_bytes(pair: tuple[socket.socket, socket.socket]) -> None:
    left, right = pair
    assert writer(left)(DATA) == len(DATA)
    assert right.recv(1000) == DATA


@pytest.mark.parametrize("buffering", [0, -1])
def test_a_file_raw_or_buffered_takes_bytes(tmp_path: Path, buffering: int) -> None:
    path = tmp_path / "out"
    with path.open("wb", buffering) as file:
        assert writer(file)(DATA) == len(DATA)
    assert path.read_bytes() == DATA


def test_memory_takes_bytes() -> None:
    target = io.BytesIO()
    assert writer(target)(DATA[:10]) == 10
    assert target.getvalue() == DATA[:10]


def test_a_full_pipe_takes_nothing() -> None:
    readable, writable = os.pipe()
    os.set_blocking(writable, False)
    with open(readable, "rb") as _, open(writable, "wb", buffering=0) as file:  # noqa: PTH123
        write = writer(file)
        while write(memoryview(bytes(65536))):
            pass
        assert write(DATA) == 0


def test_a_buffered_file_over_a_full_pipe_reports_the_bytes_in_its_buffer() -> None:
    readable, writable = os.pipe()
    os.set_blocking(writable, False)
    with open(readable, "rb", buffering=0) as reading:  # noqa: PTH123
        file = open(writable, "wb")  # noqa: PTH123
        write, total = writer(file), 0
        data = bytes(range(251)) * 4000
        while taken := write(memoryview(data)[total : total + 50_000]):
            total += taken
        received = b""
        os.set_blocking(readable, False)
        while len(received) < total:
            received += reading.read() or b""
            try:
                file.flush()
            except BlockingIOError:
                continue
        file.close()
    assert received == data[:total]


@pytest.mark.parametrize(
    "response",
    [0, None, BlockingIOError(), ssl.SSLWantReadError(), ssl.SSLWantWriteError()],
    ids=repr,
)
def test_every_form_of_not_now_is_zero(response: Any) -> None:
    assert writer(Channel(response))(DATA) == 0


@pytest.mark.parametrize(
    "error",
    [BrokenPipeError(), ConnectionResetError(), TimeoutError(), ssl.SSLEOFError()],
    ids=repr,
)
def test_errors_of_a_channel_are_passed_to_the_caller(error: Exception) -> None:
    with pytest.raises(type(error)):
        writer(Channel(error))(DATA)


@pytest.mark.parametrize("response", [-1, 257])
def test_a_channel_cannot_take_more_than_it_was_given_or_less_than_nothing(response: int) -> None:
    with pytest.raises(OSError, match="took"):
        writer(Channel(response))(DATA)


def test_a_closed_socket_is_an_error(pair: tuple[socket.socket, socket.socket]) -> None:
    pair[0].close()
    with pytest.raises(OSError, match="Bad file descriptor"):
        writer(pair[0])(DATA)


def test_an_asyncio_writer_is_refused_because_it_buffers_everything() -> None:
    class StreamWriter:
        def write(self, data: memoryview) -> None: ...
        def write_eof(self) -> None: ...

    with pytest.raises(TypeError, match="asyncio"):
        writer(StreamWriter())


def test_objects_that_cannot_be_written_to_are_refused() -> None:
    with pytest.raises(TypeError, match="int has neither send nor write"):
        writer(1)
