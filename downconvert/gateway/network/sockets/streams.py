"""A connection as a stream of bytes, with small fixed buffers and back-pressure.

It may be plain or TLS, to a client or to the cluster. The socket is not read while its buffer is
full of unconsumed bytes.

Not here: forwarding from one to another (splicing.py)."""

import asyncio
import os
import socket
from collections.abc import Callable
from typing import Final

from records.files.sends import NOTHING
from records.units import KiB

from .deadline import Deadline, Parked, wake
from .ended import ConnectionEndedError, StalledError, taken_failure
from .receiver import SCRATCH, SCRATCH_SIZE, Receiver
from .tcp import last_bytes, unsent

BUFFER_SIZE: Final = 16 * KiB  # received bytes that wait for their reader
PIECE_SIZE: Final = 64 * KiB  # bytes that are sent, and so may be queued, at a time
WRITE_MAX: Final = 32 * KiB  # bytes that may wait to be written before the writer has to wait
RECORD_MAX: Final = 16 * KiB  # bytes of a TLS record
CLIENT: Final = "the client"
NOBODY: Final = asyncio.BufferedProtocol()  # the protocol of a connection that has ended
KEPT: Final = -1  # what `on_arrival` returns for bytes that wait for an earlier request
LINGER: Final = 10.0  # seconds after closing in which written bytes are still sent


def _nothing() -> None:
    """The default callback."""


class Stream(asyncio.BufferedProtocol):
    """One connection, for one reading and one writing task. The socket is read into the thread's
    buffer. Bytes that are not taken at once are copied to a buffer of exactly their size.

    `peer`: the other side's name, for messages. `patience`: seconds without progress after which a
    transfer has failed; None: no limit. `buffer_size`: bytes that may wait for their reader.

    `file`: the number of its socket. `beside`: a future of the code that uses the socket directly.
    It is done when the other side goes."""

    __slots__ = (  # thousands of idle streams exist
        *("_abort_timer", "_buffer_size", "_is_lost", "_is_paused"),
        *("_receiver", "_reader", "_writer", "available", "beside", "deadline"),
        *(
            "file",
            "has_ended",
            "is_plain",
            "is_writable",
            "on_arrival",
            "on_end",
            "patience",
            "peer",
        ),
        "transport",
    )

    def __init__(
        self,
        peer: str = "the other side",
        patience: float | None = None,
        buffer_size: int = BUFFER_SIZE,
    ) -> None:
        self.peer = peer
        self.patience = patience
        self.on_end: Callable[[], None] = _nothing  # called when the other side has gone
        # Called with all waiting bytes whenever more arrive. Returns how many bytes it has taken.
        # KEPT: none, and its owner calls `offer_again` later, so no reader is needed for them. The
        # bytes are valid until it returns.
        self.on_arrival: Callable[[memoryview], int] | None = None
        self.available, self._buffer_size = NOTHING, buffer_size  # received bytes, not taken
        self.has_ended = False  # whether the other side sends no more
        self._is_paused = self._is_lost = False
        self._abort_timer: asyncio.TimerHandle | None = None  # after closing
        self.deadline = Deadline()
        self._reader: asyncio.Future[None] | Parked | None = None
        self._writer: asyncio.Future[None] | None = None
        self.is_writable = True  # whether few bytes are queued for writing
        self.beside: asyncio.Future[None] | None = None
        self._receiver: Receiver | None = None
        self.transport: asyncio.Transport
        self.file: int
        self.is_plain: bool  # whether there is no TLS

    # --- methods for the event loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        transport.set_write_buffer_limits(high=WRITE_MAX)
        self.file = transport.get_extra_info("socket").fileno()
        self.is_plain = transport.get_extra_info("sslcontext") is None
        if not self.is_plain:
            # When the other side ends, asyncio decrypts into one buffer and drops the rest. So it
            # reads no more before all earlier bytes are taken. At most one record is left then.
            transport.set_read_buffer_limits(high=1, low=0)  # type: ignore[attr-defined]

    def get_buffer(self, _sizehint: int) -> memoryview:
        buffer = SCRATCH.buffer
        if self._receiver is not None:
            return buffer[: self._receiver.read_size]
        waiting = len(self.available)
        if waiting:  # the new bytes are appended to these
            buffer[:waiting] = self.available
        return buffer[
            waiting : self._buffer_size if self.is_plain else self._buffer_size + RECORD_MAX
        ]

    def buffer_updated(self, nbytes: int) -> None:
        if self._receiver is not None:
            if self._receiver.take(SCRATCH.buffer[:nbytes]):
                self._receiver = None
                wake(self._reader)
            return
        data = SCRATCH.buffer[: len(self.available) + nbytes]
        taken = 0 if self.on_arrival is None else self.on_arrival(data)
        if taken > 0:
            if taken == len(data):
                self.available = NOTHING
                return
            data = data[taken:]
        self.available = memoryview(bytes(data))
        if len(data) >= self._buffer_size:
            self.pause_reading()
        if taken != KEPT:
            wake(self._reader)

    def eof_received(self) -> bool:
        self.has_ended = True
        wake(self._reader)
        wake(self._writer)
        wake(self.beside)
        self.on_end()
        return False

    def connection_lost(self, _error: Exception | None) -> None:
        self.has_ended = self._is_lost = True
        self.is_writable = False
        self.deadline.close()
        if self._abort_timer is not None:
            self._abort_timer.cancel()
        wake(self._reader)
        wake(self._writer)
        wake(self.beside)
        self.on_end()
        # Breaks reference cycles: the callbacks, and the TLS transport with its large buffer, refer
        # to this stream.
        self.on_end, self.on_arrival = _nothing, None
        if not self.is_plain:
            self.transport.set_protocol(NOBODY)

    def pause_writing(self) -> None:
        self.is_writable = False

    def resume_writing(self) -> None:
        self.is_writable = True
        wake(self._writer)

    # --- reading

    async def ensure(self, size: int, limit: float | None = None) -> None:
        """Waits until this many bytes, at most BUFFER_SIZE, are there. `limit`: by the loop's
        clock. ConnectionEndedError, TimeoutError."""
        assert size <= BUFFER_SIZE
        while len(self.available) < size:
            if self.has_ended:
                raise ConnectionEndedError(self.peer)
            await self.more(limit)

    async def more(self, limit: float | None) -> None:
        """Waits until `on_arrival` leaves bytes, the other side has gone, or `wake` is called.
        TimeoutError."""
        self.resume_reading()
        self._reader = asyncio.get_running_loop().create_future()
        await self.deadline.wait(self._reader, limit)

    def park(self, waiter: Parked, limit: float) -> None:
        """As `more`, for a connection without a task."""
        self.resume_reading()
        self._reader = waiter
        self.deadline.begin(waiter, limit)

    def unpark(self) -> None:
        """Ends the wait that `park` has begun, if any. TimeoutError: the wait has reached its
        limit."""
        self._reader = None
        self.deadline.end()

    def wake(self) -> None:
        """Resumes the task that waits in `more`, or ends the wait that `park` has begun."""
        wake(self._reader)

    def offer_again(self) -> None:
        """Offers the waiting bytes to `on_arrival` again."""
        if self.on_arrival is not None and self.available:
            self.consume(max(self.on_arrival(self.available), 0))

    def consume(self, size: int) -> None:
        """Discards bytes from the beginning of `available`."""
        self.available = self.available[size:] or NOTHING  # NOTHING holds no buffer
        self.resume_reading()  # the rest may be less than `on_arrival` needs

    async def receive_into(
        self,
        sink: Callable[[memoryview], object],
        size: int,
        piece_size: int = SCRATCH_SIZE,
        may_continue: Callable[[], bool] = lambda: True,
    ) -> int:
        """Passes up to `size` received bytes to a sink, while `may_continue()` is true. Returns the
        number of passed bytes.

        The bytes are read into the thread's buffer, not into one of the connection.
        ConnectionEndedError, TimeoutError, and errors of the sink."""
        piece = self.available[:size]
        if piece:
            sink(piece)
            self.consume(len(piece))
        elif self.has_ended:
            raise ConnectionEndedError(self.peer)
        receiver = Receiver(sink, size - len(piece), piece_size, may_continue)
        if not receiver.is_done():
            self._receiver = receiver
            try:
                while self._receiver is not None and not self.has_ended:
                    self.resume_reading()
                    self._reader = asyncio.get_running_loop().create_future()
                    await self._moves(self._reader, lambda: -receiver.left)
            finally:
                self._receiver = None
        if receiver.failure is not None:
            raise taken_failure(receiver)
        return size - receiver.left

    def take(self, size: int) -> memoryview:
        """As `consume`, but returns the bytes, and does not resume reading."""
        taken, self.available = self.available[:size], self.available[size:] or NOTHING
        return taken

    def may_bring(self, size: int) -> bool:
        """Whether this many bytes are there or may still arrive."""
        left: int | None = 0 if self.has_ended else None
        if left is None and self.is_plain:
            left = last_bytes(self.file)  # the end is not noticed while reading is paused
        return left is None or len(self.available) + left >= size

    def pause_reading(self) -> None:
        """Stops reading the socket until `resume_reading`."""
        if not self._is_paused:
            self.transport.pause_reading()
            self._is_paused = True

    def resume_reading(self) -> None:
        """Reads the socket again if there is room for more bytes."""
        if self._is_paused and len(self.available) < self._buffer_size:
            self._is_paused = False
            self.transport.resume_reading()

    # --- writing

    def send(self, data: memoryview | bytes | bytearray) -> int:
        """Takes all the data. The caller drains afterwards. ConnectionEndedError."""
        if self.transport.is_closing():
            raise ConnectionEndedError(self.peer)
        # TLS keeps a reference to the data, but the caller may reuse the buffer.
        self.transport.write(data if self.is_plain else bytes(data))
        return len(data)

    async def drain(self) -> None:
        """Waits until few bytes are queued for writing. ConnectionEndedError, TimeoutError."""
        while not self.is_writable:
            if self.has_ended or self.transport.is_closing():
                raise ConnectionEndedError(self.peer)
            self._writer = asyncio.get_running_loop().create_future()
            await self._moves(
                self._writer,
                lambda: -self.transport.get_write_buffer_size() - unsent(self.file),
            )

    async def flushed(self) -> None:
        """Waits until the write queue is empty. Only for plain sockets, because the queue of TLS is
        never empty. ConnectionEndedError, TimeoutError."""
        assert self.is_plain
        self.transport.set_write_buffer_limits(high=0)
        try:
            await self.drain()
        finally:
            self.transport.set_write_buffer_limits(high=WRITE_MAX)

    # --- for threads that read and write past the transport

    async def direct(self) -> socket.socket | None:
        """A duplicate of its socket, for writing past the transport, after the transport's queue is
        empty. None: the connection is not plain. The caller closes the duplicate.

        The original may be closed when the other side goes, and its file number may then be that of
        another connection. ConnectionEndedError, TimeoutError."""
        if not self.is_plain:
            return None
        if self.transport.get_write_buffer_size():
            await self.flushed()
        return self._copy()

    def lend(self, size: int) -> tuple[socket.socket, memoryview]:
        """A duplicate of its socket, for reading past the transport until `take_back`, and the
        bytes that have been read already, at most `size`. Plain sockets only.
        ConnectionEndedError."""
        copy = self._copy()
        self.pause_reading()
        return copy, self.take(size)

    def take_back(self, copy: socket.socket) -> None:
        """Reads through the transport again. `copy`: from `lend`."""
        copy.close()
        if not self.transport.is_closing():
            self.resume_reading()

    def _copy(self) -> socket.socket:
        if self.transport.is_closing():
            raise ConnectionEndedError(self.peer)
        # With family and type given, `socket` needs no system calls to find them.
        family = self.transport.get_extra_info("socket").family
        copy = socket.socket(family, socket.SOCK_STREAM, 0, os.dup(self.file))
        copy.setblocking(False)
        return copy

    async def ready(self, copy: socket.socket, *, to_write: bool) -> None:
        """Waits until the duplicate of its socket is writable, or with `to_write` False readable.
        ConnectionEndedError, TimeoutError."""
        loop = asyncio.get_running_loop()
        self.beside = waiter = loop.create_future()
        (loop.add_writer if to_write else loop.add_reader)(copy.fileno(), wake, waiter)
        try:
            if not self.transport.is_closing():
                await self._moves(waiter, lambda: -unsent(copy.fileno()))
        finally:
            (loop.remove_writer if to_write else loop.remove_reader)(copy.fileno())
        if self.transport.is_closing():
            raise ConnectionEndedError(self.peer)

    async def _moves(self, future: "asyncio.Future[None]", progress: Callable[[], int]) -> None:
        """Waits for a future for as long as there is progress. TimeoutError: there is none."""
        before = progress()
        try:
            async with asyncio.timeout(self.patience):
                await future
        except TimeoutError:
            if progress() <= before:
                raise self.silence() from None

    def silence(self) -> StalledError:
        """The error of a transfer without progress."""
        return StalledError(self.peer, self.patience)

    def close(self) -> None:
        """Closes the connection. Written bytes are still sent, if the other side takes them
        soon."""
        if not self.transport.is_closing():  # a second close makes a TLS transport unusable
            self.transport.close()
        is_sent = self.is_plain and not self.transport.get_write_buffer_size()
        if not (self._is_lost or is_sent) and self._abort_timer is None:  # TLS may wait anyway
            call_later = asyncio.get_running_loop().call_later
            self._abort_timer = call_later(LINGER, self.transport.abort)

    def abort(self) -> None:
        """Closes the connection at once. Written bytes may be lost."""
        self.transport.abort()
