"""How a promise is kept that was made before anything was compressed.

The key of a compressed message is null by convention, and readers skip it on their way to the
value: with a key of n bytes the same message is n bytes longer, and nothing else changes. So the
sizes of compressed messages need not be known: one finished message is held back, and where the
next one does not fit any more, or none comes, the one held back is padded to the bytes that are
left. The client's next fetch begins with what did not fit.

Not here: what is promised (plan.py), the message with its key (records.wrapper)."""

from collections.abc import Iterator
from typing import NamedTuple

from records.errors import CorruptRecordsError
from records.wrapper import padded

from .output import Output
from .window import LogWindow

CHANGED = "the records changed after they were measured"


class Account(NamedTuple):
    """A promise for messages that were not measured. position: in the records, where their batches
    begin. size: bytes promised for them, all of it compressed messages."""

    position: int
    size: int


class NoRoomError(Exception):
    """The next message does not fit: the one held back is the last."""


class PaddedOutput(Output):
    """Holds a compressed message back, from an account's position on."""

    __slots__ = ("_held", "_left", "_position", "_window", "padding_bytes")

    def __init__(self, size: int, account: Account, window: LogWindow) -> None:
        super().__init__(size)
        self._window = window
        self._position = account.position
        self._left = account.size
        self._held: bytes | None = None
        self.padding_bytes = 0

    def wrapper(self, message: bytes) -> int:
        """Holds the message back. The one held before is the next piece: returns its size, 0 where
        there is none.

        NoRoomError: this one does not fit."""
        if self._window.position < self._position:
            return super().wrapper(message)
        held = self._held
        if held is None:
            self._held = message
            return 0
        if len(held) + len(message) > self._left:
            raise NoRoomError
        self._left -= len(held)
        self._held = message
        return super().wrapper(held)

    def before_direct(self, promised: int, end: int) -> tuple[int, int, bytes | None]:
        if self._window.position < self._position:
            return promised, min(end, self._position), None
        return min(promised, self._left), end, self._held or b""

    def after_direct(self, size: int, held: bytes | None) -> None:
        if held is not None:
            self._left -= size
            self._held = held or None

    def before_plain(self) -> None:
        """NoRoomError: a message is held back. Only a compressed one may follow it, since a plain
        message at the end could not be padded."""
        if self._held is not None:
            raise NoRoomError

    def settle(self) -> Iterator[int]:
        """Pads the message held back to the bytes that are left. Yields its pieces' sizes; nothing
        where none is held. CorruptRecordsError: it is too large already."""
        held, self._held = self._held, None
        if held is None:
            return
        self.padding_bytes = self._left - len(held)
        if self.padding_bytes < 0:
            window = self._window
            raise CorruptRecordsError(CHANGED, window.records.origin + window.position)
        for piece in padded(held, self.padding_bytes):
            self.ready = memoryview(piece)
            yield len(piece)
