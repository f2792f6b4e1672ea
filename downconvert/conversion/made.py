"""Messages made before a response begins.

A small response is converted once, while it is planned. For a larger one, only recompressed
messages are made early, because their size is unknown until then. So an exact response never needs
filler. It ends after some hundred kilobytes of recompressed messages, and the client's next fetch
begins after them.

The messages wait here until they are sent. Those of all responses share one budget. If the budget
is used up, the messages are made again while they are sent.

Not here: where a response ends (plan.py), sending (send.py)."""

from typing import Final, Self

from records.budget import MemoryBudget
from records.formats import PREFIX
from records.kernel import Buffer
from records.units import KiB, MiB

from .stats import Counts

ENOUGH: Final = 512 * KiB  # bytes of messages for a response; the last message may end after it
HELD_SIZE_MAX: Final = 1 * MiB  # bytes of one response; a larger one is made again
BUDGET: Final = 16 * MiB  # bytes of all responses together


budget: Final = MemoryBudget(BUDGET)


class Held:
    """Whole messages that count against the budget until this object is collected. counts,
    seconds: the statistics and the time of making them."""

    __slots__ = ("_size", "counts", "messages", "seconds")
    _size: int
    counts: Counts
    messages: bytes
    seconds: float

    @classmethod
    def within_budget(cls, messages: bytes, counts: Counts, seconds: float) -> Self | None:
        """None if the budget is used up. The messages are then made again while they are sent."""
        size = len(messages)
        if not budget.take(size):
            return None
        held = cls.__new__(cls)
        held.messages, held.counts, held.seconds, held._size = messages, counts, seconds, size
        return held

    def __del__(self) -> None:
        budget.release(self._size)


class Made:
    """Collects messages while they are made. `enough`: no other message is begun after this many
    bytes of whole messages. `room`: bytes that may be held.

    size: bytes of whole messages in the response. seconds: the time it took to make them."""

    __slots__ = ("_end", "_enough", "_pieces", "_room", "_total", "seconds", "size")

    def __init__(self, enough: int, room: int) -> None:
        self._enough = enough
        self._room = room
        self._pieces: list[bytes] | None = []
        self._end = 0  # of the last message that has begun
        self._total = 0
        self.size = 0
        self.seconds = 0.0

    def add(self, piece: Buffer, *, is_whole: bool) -> None:
        """Adds messages, or a part of a large one. The first part states the size. `is_whole`: the
        last message ends with the piece."""
        at, total = self._end - self._total, self._total + len(piece)
        if is_whole and total <= min(self._enough, self._room):
            self.size = total  # all messages of the piece fit
            at = len(piece)
        elif 0 < at <= len(piece):
            self._note(self._end)
        while at < len(piece):
            at += PREFIX.size + int(PREFIX.unpack_from(piece, at)[1])
            if at <= len(piece):
                self._note(self._total + at)
        self._end = self._total + at
        self._total = total
        if self._total > HELD_SIZE_MAX:
            self._pieces = None
        elif self._pieces is not None:
            self._pieces.append(bytes(piece))

    def _note(self, end: int) -> None:
        """A message ends here. It belongs to the response if there is room."""
        if self.size < self._enough and end <= self._room:
            self.size = end

    @property
    def wanted(self) -> int:
        """Bytes that must still be made; 0 or less if there are enough."""
        if self._total > self._room:
            return 0
        return self._enough - self.size

    @property
    def is_all(self) -> bool:
        """Whether all messages made are in the response."""
        return self.size == self._total

    def hold(self, counts: Counts) -> Held | None:
        """Holds the response's messages until they are sent. Returns None if they must be made
        again."""
        if self._pieces is None:
            return None
        messages = b"".join(self._pieces)[: self.size]
        return Held.within_budget(messages, counts, self.seconds)
