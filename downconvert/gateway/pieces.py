"""A response in pieces, so that one system call sends what many writes made."""

from collections.abc import Iterator

from downconvert.broker.wire.responses import ResponseSend

from .streams import PIECE_SIZE


def pieces(send: ResponseSend) -> Iterator[memoryview]:
    """All of it, PIECE_SIZE bytes at a time, each made when it is asked for.

    What was yielded is its reader's: none of it is held here. RecordsError: as from the send."""
    channel = _Piece()
    while not send.completed:
        while len(channel.data) < PIECE_SIZE and not send.completed:
            send.write_to(channel)
        yield channel.take()


class _Piece:
    """A channel that takes PIECE_SIZE bytes.

    One serves for a whole response: sends keep how they have written to their last channel."""

    def __init__(self) -> None:
        self.data = bytearray()

    def send(self, data: memoryview) -> int:
        taken = data[: PIECE_SIZE - len(self.data)]
        self.data += taken
        return len(taken)

    def take(self) -> memoryview:
        data, self.data = self.data, bytearray()
        return memoryview(data)
