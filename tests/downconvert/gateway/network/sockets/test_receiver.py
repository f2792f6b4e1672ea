"""Bytes that go to a sink as they arrive: exactly as many as are asked for, while it takes them."""

import socket
from threading import Barrier, Thread
from typing import Final

import pytest

from downconvert.gateway.network.sockets.ended import ConnectionEndedError
from downconvert.gateway.network.sockets.receiver import SCRATCH, SCRATCH_SIZE, Receiver
from downconvert.gateway.network.sockets.streams import BUFFER_SIZE, Stream

from .connected import Use
from .connected import with_stream as connected

DATA: Final = bytes(range(256)) * 4
ERRORS: Final = (OSError(28, "No space left on device"), ConnectionEndedError("the cluster"))


class Sink:
    """Keeps what it is given. `error`: raised from the piece `fails_at` on, which is not kept."""

    def __init__(self, error: Exception | None = None, fails_at: int = 0) -> None:
        self.taken = bytearray()
        self.sizes: list[int] = []
        self.calls = 0
        self._error, self._fails_at = error, fails_at

    def __call__(self, piece: memoryview) -> None:
        self.calls += 1
        if self._error is not None and len(self.sizes) >= self._fails_at:
            raise self._error
        self.sizes.append(len(piece))
        self.taken += piece


def fed(receiver: Receiver, data: bytes, most: int = SCRATCH_SIZE) -> bytes:
    """Feeds a receiver that is not done, at most `most` bytes at a time. Returns what is left."""
    while data:
        size = min(receiver.read_size, most)
        assert size > 0
        is_done = receiver.take(memoryview(data[:size]))
        data = data[size:]
        assert is_done == receiver.is_done()
        if is_done:
            break
    return data


@pytest.mark.parametrize(("left", "piece_size"), [(1, 9), (9, 1), (10, 4), (8, 4), (500, 499)])
@pytest.mark.parametrize("most", [1, 3, SCRATCH_SIZE])
def test_no_byte_is_read_beyond_those_that_are_asked_for(
    left: int, piece_size: int, most: int
) -> None:
    """The bytes after it belong to another response."""
    sink = Sink()
    receiver = Receiver(sink, left, piece_size, lambda: True)
    assert not receiver.is_done()
    assert fed(receiver, DATA, most) == DATA[left:]
    assert sink.taken == DATA[:left]
    assert max(sink.sizes) == min(left, piece_size, most)
    assert (receiver.left, receiver.failure) == (0, None)


def test_a_receiver_that_is_asked_for_nothing_is_done() -> None:
    assert Receiver(Sink(), 0, 10, lambda: True).is_done()


@pytest.mark.parametrize("pieces", [1, 2, 3])
def test_receiving_pauses_when_the_sink_is_full(pieces: int) -> None:
    sink = Sink()
    receiver = Receiver(sink, 500, 7, lambda: len(sink.sizes) < pieces)
    assert not receiver.is_done()
    assert fed(receiver, DATA) == DATA[7 * pieces :]
    assert (sink.taken, receiver.left) == (DATA[: 7 * pieces], 500 - 7 * pieces)
    assert receiver.is_done()


@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize("fails_at", [0, 2])
def test_a_sink_that_fails_is_given_no_more_and_its_error_is_kept(
    error: Exception, fails_at: int
) -> None:
    sink = Sink(error, fails_at)
    receiver = Receiver(sink, 500, 7, lambda: True)
    fed(receiver, DATA)
    assert receiver.failure is error
    assert receiver.is_done()
    assert (sink.sizes, sink.calls) == ([7] * fails_at, fails_at + 1)


def test_a_defect_of_a_sink_is_no_failure_of_the_connection() -> None:
    receiver = Receiver(Sink(ZeroDivisionError()), 500, 7, lambda: True)
    with pytest.raises(ZeroDivisionError):
        receiver.take(memoryview(DATA[:7]))


def test_threads_read_into_buffers_of_their_own() -> None:
    """So one loop's bytes are not another's while both handle what has arrived."""
    both, seen = Barrier(2, timeout=60.0), {}

    def use(byte: int) -> None:
        buffer = SCRATCH.buffer
        buffer[:] = bytes([byte]) * len(buffer)
        both.wait()
        seen[byte] = bytes(SCRATCH.buffer)
        both.wait()

    threads = [Thread(target=use, args=(byte,)) for byte in (1, 2)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert seen == {byte: bytes([byte]) * SCRATCH_SIZE for byte in (1, 2)}
    assert SCRATCH.buffer is SCRATCH.buffer


# --- by a connection


def with_stream(use: Use) -> None:
    """A connection to the cluster that is given up after five seconds of silence."""
    connected(use, lambda: Stream("the cluster", patience=5.0))


@pytest.mark.parametrize("size", [1, 10, 4_000, BUFFER_SIZE, 60_000])
@pytest.mark.parametrize("waiting", [0, 8])
def test_bytes_after_those_of_the_sink_stay_with_the_connection(size: int, waiting: int) -> None:
    """`waiting`: bytes that have arrived before. They are the sink's first, or not its own."""
    data = bytes(range(256)) * 300

    async def use(stream: Stream, theirs: socket.socket) -> None:
        theirs.sendall(data[:waiting])
        await stream.ensure(waiting)
        theirs.sendall(data[waiting : size + 100])
        sink = Sink()
        assert await stream.receive_into(sink, size, 1_000) == size
        assert sink.taken == data[:size]
        await stream.ensure(max(100, waiting - size))
        assert bytes(stream.available[:100]) == data[size : size + 100]

    with_stream(use)


@pytest.mark.parametrize("sizes", [(BUFFER_SIZE,), (BUFFER_SIZE - 1, 1), (9_000, BUFFER_SIZE)])
def test_as_much_may_wait_for_its_reader_as_the_connection_holds(sizes: tuple[int, ...]) -> None:
    data = bytes(range(256)) * 200

    async def use(stream: Stream, theirs: socket.socket) -> None:
        arrived = 0
        for size in sizes:
            theirs.sendall(data[arrived : arrived + size])
            arrived += size
            waiting = min(arrived, BUFFER_SIZE)
            await stream.ensure(waiting)
            assert bytes(stream.available) == data[:waiting]

    with_stream(use)


def test_a_slow_sink_gets_the_rest_later() -> None:
    async def use(stream: Stream, theirs: socket.socket) -> None:
        theirs.sendall(DATA)
        sink = Sink()
        taken = await stream.receive_into(sink, 100, 30, lambda: len(sink.taken) < 50)
        assert (taken, sink.taken) == (60, DATA[:60])
        assert await stream.receive_into(sink, 40, 30) == 40
        assert sink.taken == DATA[:100]

    with_stream(use)


@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize("fails_at", [0, 1])
def test_the_error_of_a_sink_is_raised_to_the_waiting_task(error: Exception, fails_at: int) -> None:
    """And the connection is still read: another response may follow."""

    async def use(stream: Stream, theirs: socket.socket) -> None:
        theirs.sendall(DATA)
        with pytest.raises(type(error)) as caught:
            await stream.receive_into(Sink(error, fails_at), 200, 100)
        assert caught.value is error
        await stream.ensure(100)
        assert not stream.has_ended

    with_stream(use)


def test_an_early_end_is_reported_with_the_bytes_that_arrived() -> None:
    async def use(stream: Stream, theirs: socket.socket) -> None:
        theirs.sendall(DATA[:50])
        theirs.shutdown(socket.SHUT_WR)
        sink = Sink()
        assert await stream.receive_into(sink, 200, 30) == 50
        assert sink.taken == DATA[:50]
        with pytest.raises(ConnectionEndedError, match="the cluster"):
            await stream.receive_into(sink, 150, 30)

    with_stream(use)
