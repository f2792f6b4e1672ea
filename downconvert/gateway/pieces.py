"""A response in pieces, so that one system call sends what many writes made."""

from downconvert.broker.wire.responses import ResponseSend

from .streams import PIECE_SIZE


def filled(send: ResponseSend) -> memoryview:
    """The next PIECE_SIZE bytes, or what is left. RecordsError: as from the send."""
    piece = _Piece()
    while len(piece.data) < PIECE_SIZE and not send.completed:
        send.write_to(piece)
    # Sends keep the channel that they have written to last, and with it what it holds.
    data, piece.data = piece.data, bytearray()
    return memoryview(data)


class _Piece:
    """A channel that takes PIECE_SIZE bytes."""

    def __init__(self) -> None:
        self.data = bytearray()

    def send(self, data: memoryview) -> int:
        taken = data[: PIECE_SIZE - len(self.data)]
        self.data += taken
        return len(taken)
