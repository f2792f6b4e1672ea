"""A connection as the gateway reads and writes it: small fixed buffers, and back-pressure.

Plain or TLS, towards a client or towards the cluster. While nobody takes what has arrived, no more
is read from the socket."""

import asyncio
import ssl
import threading
from collections.abc import Callable
from typing import Final

BUFFER_SIZE: Final = 16 * 1024  # bytes for reading
PIECE_SIZE: Final = 64 * 1024  # bytes that are sent at a time, and so may have to wait
SCRATCH_SIZE: Final = 256 * 1024  # bytes that a thread has for what is passed on at once
WRITE_MAX: Final = 32 * 1024  # bytes that may wait to be written before the writer has to wait


_of_thread: Final = threading.local()


def scratch() -> memoryview:
    """A buffer of this thread's. What is in it is good until the event loop goes on."""
    if not hasattr(_of_thread, "scratch"):
        _of_thread.scratch = memoryview(bytearray(SCRATCH_SIZE))
    view: memoryview = _of_thread.scratch
    return view


class ConnectionEndedError(Exception):
    """The other side closed the connection, or it broke."""


class Stream(asyncio.BufferedProtocol):
    """One connection, for one task that reads and one that writes."""

    def __init__(self) -> None:
        self._buffer = bytearray(BUFFER_SIZE)
        self._view = memoryview(self._buffer)
        self._start = self._end = 0
        self._is_paused = self._is_eof = False
        self._reader: asyncio.Future[None] | None = None
        self._writer: asyncio.Future[None] | None = None
        self._may_write = True
        self._pouring: _Pouring | None = None
        self.transport: asyncio.Transport

    # --- what the event loop calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        transport.set_write_buffer_limits(high=WRITE_MAX)

    def get_buffer(self, _sizehint: int) -> memoryview:
        if self._pouring is not None:
            return scratch()[: self._pouring.read_size]
        return self._view[self._end :]

    def buffer_updated(self, nbytes: int) -> None:
        if self._pouring is not None:
            if self._pouring.take(scratch()[:nbytes]):
                self._pouring = None
                self._wake(self._reader)
            return
        self._end += nbytes
        if self._end == BUFFER_SIZE:
            self.transport.pause_reading()
            self._is_paused = True
        self._wake(self._reader)

    def eof_received(self) -> bool:
        self._is_eof = True
        self._wake(self._reader)
        return False

    def connection_lost(self, _error: Exception | None) -> None:
        self._is_eof = True
        self._may_write = False
        self._wake(self._reader)
        self._wake(self._writer)

    def pause_writing(self) -> None:
        self._may_write = False

    def resume_writing(self) -> None:
        self._may_write = True
        self._wake(self._writer)

    # --- reading

    @property
    def available(self) -> memoryview:
        """What has arrived. It is overwritten once it has been consumed."""
        return self._view[self._start : self._end]

    @property
    def has_ended(self) -> bool:
        return self._is_eof

    async def ensure(self, size: int) -> None:
        """Waits until so many bytes are there; at most BUFFER_SIZE. ConnectionEndedError."""
        assert size <= BUFFER_SIZE
        if self._start + size > BUFFER_SIZE:
            waiting = self._end - self._start
            self._view[:waiting] = bytes(self.available)
            self._start, self._end = 0, waiting
        while self._end - self._start < size:
            if self._is_eof:
                raise ConnectionEndedError("the connection ended")
            self._resume()
            self._reader = asyncio.get_running_loop().create_future()
            await self._reader

    def consume(self, size: int) -> None:
        """Lets go of bytes from the beginning of what is available."""
        self._start += size
        if self._start == self._end:
            self._start = self._end = 0
            self._resume()

    async def pour(
        self,
        sink: Callable[[memoryview], object],
        size: int,
        piece_size: int = SCRATCH_SIZE,
        goes_on: Callable[[], bool] = lambda: True,
    ) -> int:
        """Gives what arrives to a sink, up to a size, as long as `goes_on`; how much it was.

        What arrives meanwhile has no buffer of this connection's. ConnectionEndedError, and what
        the sink raises."""
        piece = self.available[:size]
        if piece:
            sink(piece)
            self.consume(len(piece))
        elif self._is_eof:
            raise ConnectionEndedError("the connection ended")
        pouring = _Pouring(sink, size - len(piece), piece_size, goes_on)
        if not pouring.is_done():
            self._pouring = pouring
            try:
                while self._pouring is not None and not self._is_eof:
                    self._resume()
                    self._reader = asyncio.get_running_loop().create_future()
                    await self._reader
            finally:
                self._pouring = None
        if pouring.failure is not None:
            raise pouring.failure
        return size - pouring.left

    def _resume(self) -> None:
        if self._is_paused and self._end < BUFFER_SIZE:
            self._is_paused = False
            self.transport.resume_reading()

    # --- writing

    def send(self, data: memoryview | bytes) -> int:
        """Takes all of it, for a caller who drains afterwards. ConnectionEndedError."""
        if self.transport.is_closing():
            raise ConnectionEndedError("the connection ended")
        self.transport.write(bytes(data))
        return len(data)

    async def drain(self) -> None:
        """Waits until little is left to be written. ConnectionEndedError."""
        while not self._may_write:
            if self.transport.is_closing():
                raise ConnectionEndedError("the connection ended")
            self._writer = asyncio.get_running_loop().create_future()
            await self._writer

    async def copy_to(self, other: "Stream", size: int) -> None:
        """Passes on so many bytes, no faster than the other side takes them."""
        while size:
            size -= await self.pour(other.send, size, PIECE_SIZE, other.takes)
            await other.drain()

    def takes(self) -> bool:
        """Whether little is left to be written."""
        return self._may_write

    def close(self) -> None:
        """What has been written is still sent."""
        self.transport.close()

    def abort(self) -> None:
        """At once."""
        self.transport.abort()

    @staticmethod
    def _wake(waiter: "asyncio.Future[None] | None") -> None:
        if waiter is not None and not waiter.done():
            waiter.set_result(None)


class _Pouring:
    """What is left to be given to a sink."""

    __slots__ = ("_goes_on", "_piece_size", "_sink", "failure", "left")

    def __init__(
        self,
        sink: Callable[[memoryview], object],
        left: int,
        piece_size: int,
        goes_on: Callable[[], bool],
    ) -> None:
        self.left = left
        self.failure: Exception | None = None
        self._sink = sink
        self._piece_size = piece_size
        self._goes_on = goes_on

    @property
    def read_size(self) -> int:
        return min(self.left, self._piece_size)

    def is_done(self) -> bool:
        return not self.left or self.failure is not None or not self._goes_on()

    def take(self, piece: memoryview) -> bool:
        """Whether that was all."""
        try:
            self._sink(piece)
        except (OSError, ConnectionEndedError) as error:
            self.failure = error
        self.left -= len(piece)
        return self.is_done()


async def connect(host: str, port: int, context: ssl.SSLContext | None, timeout: float) -> Stream:
    """A connection to a host. OSError, TimeoutError; ssl.SSLError is an OSError."""
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(timeout):
        _, stream = await loop.create_connection(
            Stream, host, port, ssl=context, server_hostname=host if context else None
        )
    return stream
