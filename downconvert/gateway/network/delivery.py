"""Sends responses to clients. A large one stays in one thread, from the cluster's response on.

That thread receives the response, advances the exchange and writes to the client, in one call.
Between plain sockets only its end is reported to the event loop. If a socket is not ready within a
moment, the event loop waits for it, so a slow client holds no thread.

Over TLS the event loop receives and sends, and a thread makes the response, a piece at a time."""

import select
import socket
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from time import perf_counter
from typing import Any, Final

from downconvert.gateway.network.sockets.ended import ConnectionEndedError
from downconvert.gateway.network.sockets.receiver import SCRATCH
from downconvert.gateway.network.sockets.streams import PIECE_SIZE, Stream
from downconvert.gateway.session.exchanges import (
    TURN,
    TURN_SIZE,
    Response,
    Step,
    Steps,
    Turn,
    advance,
    nothing,
)
from downconvert.gateway.session.sent import converts
from downconvert.gateway.session.spool import Spool
from downconvert.protocol.responses import ResponseSend
from records.files.sends import NOTHING

from .conversion_pool import AGAIN, TimedPool

INLINE_SECONDS: Final = 0.001  # seconds that the event loop may convert for one client at a time
WAIT_MS: Final = 2  # milliseconds that a thread waits for a socket, while no job waits


class Delivery:
    """The part of answering one request that a thread does.

    `waiting`: its context is entered in the event loop while the client does not read."""

    __slots__ = (
        *("_cannot_send", "_client", "_head", "_make_result", "_pool", "_send", "_source"),
        *("_spool", "_step", "_steps", "_target", "_upstream"),
        "waiting",
    )

    def __init__(self, client: Stream, pool: TimedPool) -> None:
        self._client = client
        self._pool = pool
        self.waiting: Callable[[], AbstractContextManager[None]] = nullcontext
        self._target: socket.socket | None = None  # a duplicate of the client's socket
        self._upstream: Stream
        self._source: socket.socket  # a duplicate of the cluster's socket
        self._head: memoryview  # the bytes of it that have been read already
        self._spool: Spool | None = None  # a response that has not arrived whole
        self._steps: Steps
        self._make_result: Callable[[], Any]  # makes the result of the exchange's last step
        self._step: Step | None = None  # the exchange's next step
        self._send: ResponseSend | None = None  # the response, once it may be sent
        self._cannot_send: Exception | None = None  # why not

    # --- methods for the event loop

    async def open(self) -> None:
        """Lets the thread send the response. ConnectionEndedError, TimeoutError: of the client."""
        if self._target is None:
            self._target = await self._client.direct()

    async def advance(self, steps: Steps, make_result: Callable[[], Any]) -> Step:
        """Advances an exchange to its next step that is not a turn. `make_result`: makes the result
        of its last step. Also sends as much of a response as the client takes at once."""
        self._steps, self._make_result, self._step = steps, make_result, None
        await self._pool.run(self._run)
        assert self._step is not None
        return self._step

    async def receive(
        self, upstream: Stream, spool: Spool, steps: Steps, make_result: Callable[[], Any]
    ) -> Step:
        """As `advance`, but receives the rest of the cluster's response first.

        ConnectionEndedError, TimeoutError: of the cluster."""
        self._upstream, self._spool = upstream, spool
        self._source, self._head = upstream.lend(spool.size)
        try:
            if not self._pool.may_continue(0):  # bytes of a waiting job belong in its spool
                self._take_head(spool)
            step = await self.advance(steps, make_result)
            while not spool.is_whole:
                await upstream.ready(self._source, to_write=False)
                step = await self.advance(steps, make_result)
        finally:
            self._spool = None
            upstream.take_back(self._source)
        return step

    async def send(self, send: ResponseSend, *, is_small: bool) -> None:
        """Sends the response, or its rest. `is_small`: its records are in memory, and few.

        ConnectionEndedError, TimeoutError: of the client. RecordsError: as from the send."""
        if send.size <= PIECE_SIZE and (whole := send.take_whole()) is not None:
            await self._pass(whole)
            return
        if self._send is None and not converts(send):
            for piece in pieces(send):
                await self._pass(piece)
            return
        if self._send is None and is_small and send.size <= PIECE_SIZE:
            await self._send_small(send)
        if not send.completed or self._cannot_send is not None:
            await self._finish(send)

    async def _send_small(self, send: ResponseSend) -> None:
        """Sends as much as the event loop can convert within INLINE_SECONDS."""
        channel, until = Piece(), perf_counter() + INLINE_SECONDS
        while not send.completed and perf_counter() < until:
            send.write_to(channel)
        await self._pass(channel.take())

    async def _pass(self, piece: memoryview | bytearray) -> None:
        self._client.send(piece)
        if not self._client.is_writable:
            with self.waiting():
                await self._client.drain()

    async def _finish(self, send: ResponseSend) -> None:
        """Has a thread send the rest."""
        await self.open()
        if self._target is None:
            following = partial(next, pieces(send), None)
            while piece := await self._pool.run(following):
                await self._pass(piece)
            return
        if self._send is None:
            self._send = send
            await self._pool.run(self._run)
        while self._cannot_send is None and not send.completed:
            with self.waiting():
                await self._client.ready(self._target, to_write=True)
            await self._pool.run(self._run)
        error, self._cannot_send = self._cannot_send, None
        try:
            if isinstance(error, ConnectionError | TimeoutError):  # raised by the socket
                self._client.abort()
                raise ConnectionEndedError(self._client.peer) from error
            if error is not None:
                raise error
        finally:
            del error  # breaks a reference cycle through this frame

    def close(self) -> None:
        """Closes the duplicate of the client's socket."""
        if self._target is not None:
            self._target.close()

    # --- methods for a thread

    def _run(self) -> object:
        """Takes turns until it has to wait. Returns AGAIN if other jobs may have a turn first."""
        turns = 0
        while self._take_turn():
            turns += 1
            if not self._pool.may_continue(turns):
                return AGAIN
        return None

    def _take_turn(self) -> bool:
        """Takes a turn. Returns whether another one can follow at once."""
        if self._spool is not None and not self._spool.is_whole:
            return self._receive(self._spool)
        if self._send is not None:
            return self._write(self._send)
        self._step = step = advance(self._steps, self._make_result)
        self._make_result = nothing
        if isinstance(step, Turn):
            return True
        is_final = isinstance(step, Response) and step.ends is None and step.throttled is None
        if is_final and self._target is not None:
            assert isinstance(step, Response)
            self._send = step.send
        return self._send is not None

    def _receive(self, spool: Spool) -> bool:
        self._take_head(spool)
        left = TURN_SIZE
        while left > 0 and not spool.is_whole:
            if not self._is_ready(self._source, select.POLLIN):
                self._step = TURN
                return False
            left -= spool.receive(self._read, SCRATCH.buffer)
        return True

    def _take_head(self, spool: Spool) -> None:
        if self._head:
            spool.write(self._head)
            self._head = NOTHING

    def _read(self, buffer: memoryview) -> int:
        try:
            size = self._source.recv_into(buffer)
        except BlockingIOError:
            return 0
        except OSError as error:
            raise ConnectionEndedError(self._upstream.peer) from error
        if not size:
            raise ConnectionEndedError(self._upstream.peer)
        return size

    def _write(self, send: ResponseSend) -> bool:
        assert self._target is not None
        try:
            if send.write_to(self._target, TURN_SIZE) >= TURN_SIZE or send.completed:
                return not send.completed
        except Exception as error:  # `finish` raises it
            self._cannot_send = error
            return False
        return self._is_ready(self._target, select.POLLOUT)

    def _is_ready(self, file: socket.socket, event: int) -> bool:
        """Whether a socket is ready now, or soon if no other job waits."""
        poll = select.poll()
        poll.register(file, event)
        return bool(poll.poll(WAIT_MS if self._pool.may_continue(0) else 0))


def pieces(send: ResponseSend) -> Iterator[memoryview]:
    """The whole response, in pieces of PIECE_SIZE bytes. Each is made when it is requested.

    The caller owns each piece. RecordsError: as from the send."""
    channel = Piece()
    while not send.completed:
        while len(channel.data) < PIECE_SIZE and not send.completed:
            send.write_to(channel)
        yield channel.take()


class Piece:
    """A channel that takes PIECE_SIZE bytes.

    One object serves a whole response: sends keep state about their last channel."""

    def __init__(self) -> None:
        self.data = bytearray()

    def send(self, data: memoryview) -> int:
        taken = data[: PIECE_SIZE - len(self.data)]
        self.data += taken
        return len(taken)

    def take(self) -> memoryview:
        data, self.data = self.data, bytearray()
        return memoryview(data)
