"""A plain socket of the gateway's event loop, with few calls for each arrival and connection.

asyncio's transport makes handles and a future for each new connection, and a handle and four calls
for each arrival. That is slow if thousands of clients connect at once, or if requests are small.

Not here: TLS, which uses asyncio's transports, and handling the bytes (streams.py)."""

import asyncio
import select
import socket
from asyncio.transports import Transport
from collections.abc import Callable
from typing import Any, Final, Protocol

READABLE: Final = select.POLLIN
WRITABLE: Final = select.POLLOUT
LOW: Final = 4  # writing resumes once the queue has this part of its limit or less


class WatchingLoop(Protocol):
    """The parts of the event loop that this file needs."""

    def watch(self, file: int, callback: Callable[[int], None], events: int) -> None: ...
    def unwatch(self, file: int) -> None: ...
    def call_soon(self, callback: Callable[[], None], /) -> object: ...
    def call_exception_handler(self, context: dict[str, Any], /) -> None: ...


class SocketTransport(Transport):
    """A transport of asyncio for a connected, non-blocking socket and its protocol.

    It calls `connection_made` at once. Callers may reuse the buffer of written data."""

    __slots__ = (  # thousands of idle connections exist
        *("_channel", "_events", "_file", "_high", "_is_closing", "_is_full", "_is_lost"),
        *("_loop", "_low", "_protocol", "_unsent"),
    )

    def __init__(
        self, loop: WatchingLoop, channel: socket.socket, protocol: asyncio.BufferedProtocol
    ) -> None:
        super().__init__()
        self._loop = loop
        self._channel = channel
        self._file = channel.fileno()
        self._protocol = protocol
        self._unsent = bytearray()
        self._high = self._low = 0
        self._is_full = False  # whether the protocol has paused writing
        self._is_closing = False
        self._is_lost = False  # whether the connection has ended
        self._events = 0  # the events that the loop watches
        protocol.connection_made(self)
        self._watch(READABLE)

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._channel if name == "socket" else default

    def is_closing(self) -> bool:
        return self._is_closing

    def close(self) -> None:
        """Reads no more, and ends once all written data is sent."""
        if not self._is_closing:
            self._is_closing = True
            if self._unsent:
                self._watch(WRITABLE)
            else:
                self._end()

    def abort(self) -> None:
        """Ends now. Data that is not sent yet is lost."""
        self._is_closing = True
        self._end()

    def _end(self) -> None:
        if not self._is_lost:
            self._is_lost = True
            self._unsent.clear()
            self._watch(0)
            self._loop.call_soon(self._tell_end)

    def _tell_end(self) -> None:
        try:
            self._protocol.connection_lost(None)
        finally:
            self._channel.close()
            del self._protocol  # breaks a reference cycle

    # --- events

    def _watch(self, events: int) -> None:
        if events == self._events:
            return
        self._events = events
        if events:
            self._loop.watch(self._file, self._take_events, events)
        else:
            self._loop.unwatch(self._file)

    def _take_events(self, events: int) -> None:
        """Called by the event loop when the socket is ready."""
        try:
            if self._events & READABLE and events & ~WRITABLE:
                protocol = self._protocol
                try:
                    size = self._channel.recv_into(protocol.get_buffer(-1))
                except BlockingIOError:
                    pass
                except OSError:
                    self.abort()
                else:
                    if size:
                        protocol.buffer_updated(size)
                    else:
                        protocol.eof_received()
                        self.close()
            if self._events & WRITABLE and events & ~READABLE:
                self._send_rest()
        except Exception as error:  # an unexpected error must not end the loop
            context = {"message": "a defect in an event of a socket", "exception": error}
            self._loop.call_exception_handler(context)
            self.abort()

    # --- reading

    def pause_reading(self) -> None:
        self._watch(self._events & ~READABLE)

    def resume_reading(self) -> None:
        if not self._is_closing:
            self._watch(self._events | READABLE)

    # --- writing

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        assert high is not None
        self._high, self._low = high, high // LOW if low is None else low
        self._pause_if_full()

    def get_write_buffer_size(self) -> int:
        return len(self._unsent)

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Sends what the system takes now, and queues a copy of the rest."""
        if self._is_lost:
            return
        if not self._unsent:
            try:
                sent = self._channel.send(data)
            except BlockingIOError:
                sent = 0
            except OSError:
                self.abort()
                return
            if sent == len(data):
                return
            data = memoryview(data)[sent:]
            self._watch(self._events | WRITABLE)
        self._unsent += data
        self._pause_if_full()

    def _pause_if_full(self) -> None:
        if len(self._unsent) > self._high and not self._is_full:
            self._is_full = True
            self._protocol.pause_writing()

    def _send_rest(self) -> None:
        try:
            sent = self._channel.send(self._unsent)
        except BlockingIOError:
            return
        except OSError:
            self.abort()
            return
        del self._unsent[:sent]
        if self._is_full and len(self._unsent) <= self._low:
            self._is_full = False
            self._protocol.resume_writing()
        if not self._unsent:
            self._watch(self._events & ~WRITABLE)
            if self._is_closing:
                self._end()
