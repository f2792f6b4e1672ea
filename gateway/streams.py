"""A connection as the gateway reads and writes it: small fixed buffers, and back-pressure.

Plain or TLS, towards a client or towards the cluster. While nobody takes what has arrived, no more
is read from the socket."""

import asyncio
import ssl
from typing import Final

BUFFER_SIZE: Final = 32 * 1024  # bytes for reading
WRITE_MAX: Final = 32 * 1024  # bytes that may wait to be written before the writer has to wait


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
        self.transport: asyncio.Transport

    # --- what the event loop calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        transport.set_write_buffer_limits(high=WRITE_MAX)

    def get_buffer(self, _sizehint: int) -> memoryview:
        return self._view[self._end :]

    def buffer_updated(self, nbytes: int) -> None:
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
            await self.ensure(1)
            piece = self.available[:size]
            other.send(piece)
            self.consume(len(piece))
            size -= len(piece)
            await other.drain()

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


async def connect(host: str, port: int, context: ssl.SSLContext | None, timeout: float) -> Stream:
    """A connection to a host. OSError, TimeoutError; ssl.SSLError is an OSError."""
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(timeout):
        _, stream = await loop.create_connection(
            Stream, host, port, ssl=context, server_hostname=host if context else None
        )
    return stream
