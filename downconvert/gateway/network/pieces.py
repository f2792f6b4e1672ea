"""Sends responses to clients: large ones in pieces, so that all clients have their turns.

Converted records go to a plain socket within the native kernel. To a TLS connection they go in
pieces, so that one call sends the bytes of many writes."""

from collections.abc import Iterator
from functools import partial
from time import perf_counter
from typing import Any, Final

from downconvert.gateway.session.exchanges import TURN_SIZE
from downconvert.protocol.responses import ResponseSend

from .conversion_pool import TimedPool
from .ended import ConnectionEndedError
from .streams import PIECE_SIZE, Stream

SOON: Final = 0.001  # seconds that the event loop may convert for one client at a time


async def send_small(send: ResponseSend, client: Stream) -> None:
    """Sends a response of at most PIECE_SIZE bytes whose records are in memory, or as much of it as
    is converted within SOON. The event loop does so itself.

    ConnectionEndedError, TimeoutError: of the client. RecordsError: as from the send."""
    channel, until = _Piece(), perf_counter() + SOON
    while not send.completed and perf_counter() < until:
        send.write_to(channel)
    client.send(channel.take())
    await client.drain()


async def send_converted(send: ResponseSend, client: Stream, pool: TimedPool) -> None:
    """Sends a response whose records are converted, by the pool's threads.

    ConnectionEndedError, TimeoutError: of the client. RecordsError: as from the send."""
    direct = await client.direct()
    if direct is None:
        following = partial(next, pieces(send), None)
        while piece := await pool.run(following):
            client.send(piece)
            await client.drain()
        return
    with direct:
        turns = partial(_write_in_turns, send, direct, pool)
        while not send.completed:
            try:
                is_full = await pool.run(turns)
            except (ConnectionError, TimeoutError) as error:  # raised by the socket
                client.abort()
                raise ConnectionEndedError(client.peer) from error
            if is_full:
                await client.takes_again(direct)


def _write_in_turns(send: ResponseSend, direct: Any, pool: TimedPool) -> bool:
    """Writes turn after turn, while no other job waits and the client takes bytes. Returns whether
    the client takes no more."""
    turns, written = 1, send.write_to(direct, TURN_SIZE)
    while written >= TURN_SIZE and not send.completed and pool.goes_on(turns):
        turns, written = turns + 1, send.write_to(direct, TURN_SIZE)
    return written < TURN_SIZE and not send.completed


def pieces(send: ResponseSend) -> Iterator[memoryview]:
    """The whole response, PIECE_SIZE bytes at a time, each made when it is asked for.

    The caller owns each piece; none is held here. RecordsError: as from the send."""
    channel = _Piece()
    while not send.completed:
        while len(channel.data) < PIECE_SIZE and not send.completed:
            send.write_to(channel)
        yield channel.take()


class _Piece:
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
