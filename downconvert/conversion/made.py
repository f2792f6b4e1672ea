"""Messages that were made before an answer begins.

A small answer is made once, while it is planned. Of a larger one what is compressed again is: how
large that is shows only when it has been compressed. So an exact answer promises what has been
made, and nothing else: however the batches differ, there is nothing to be filled up. Some hundred
kilobytes are made, and the client's next fetch begins with what comes after them.

The bytes wait here until they are sent. What all answers hold counts against one budget. Where that
is used up, the same bytes are made again while they are sent.

Not here: how far an answer goes (plan.py), sending (send.py)."""

from threading import Lock
from typing import Final, Self

from records.formats import PREFIX
from records.kernel import Buffer
from records.units import KiB, MiB

from .stats import Counts

ENOUGH: Final = 512 * KiB  # bytes of messages for an answer, of which the last may end beyond
HELD_SIZE_MAX: Final = 1 * MiB  # of one answer: what becomes larger is made again
BUDGET: Final = 16 * MiB  # bytes, of all answers together


class _Budget:
    def __init__(self, size: int) -> None:
        self._lock = Lock()
        self.left = size

    def take(self, size: int) -> bool:
        with self._lock:
            if size > self.left:
                return False
            self.left -= size
            return True

    def release(self, size: int) -> None:
        with self._lock:
            self.left += size


budget: Final = _Budget(BUDGET)


class Held:
    """Whole messages that are counted against the budget until this is collected. counts, seconds:
    what was done to make them, and for how long."""

    __slots__ = ("_size", "counts", "messages", "seconds")

    def __init__(self, messages: bytes, counts: Counts, seconds: float) -> None:
        self.messages = messages
        self.counts = counts
        self.seconds = seconds
        self._size = len(messages)

    @classmethod
    def within_budget(cls, messages: bytes, counts: Counts, seconds: float) -> Self | None:
        """None: they are made again while they are sent."""
        return cls(messages, counts, seconds) if budget.take(len(messages)) else None

    def __del__(self) -> None:
        budget.release(self._size)


class Made:
    """Messages in the making. `enough`: bytes of whole messages after which no other is begun.
    `room`: bytes that there is room for.

    size: bytes of the whole messages that an answer has. seconds: that it took to make them."""

    __slots__ = ("_bytes", "_end", "_enough", "_room", "_total", "seconds", "size")

    def __init__(self, enough: int, room: int) -> None:
        self._enough = enough
        self._room = room
        self._bytes: bytearray | None = bytearray()
        self._end = 0  # of the last message that has begun
        self._total = 0
        self.size = 0
        self.seconds = 0.0

    def add(self, piece: Buffer, *, is_whole: bool) -> None:
        """Adds messages, or a part of a large one, whose size is in the first part. `is_whole`: the
        last of them ends with the piece."""
        at, total = self._end - self._total, self._total + len(piece)
        if is_whole and not at and total <= min(self._enough, self._room):
            self.size = total  # none of these is the last
            at = len(piece)
        elif 0 < at <= len(piece):
            self._note(self._end)
        while at < len(piece):
            at += PREFIX.size + int(PREFIX.unpack_from(piece, at)[1])
            if at <= len(piece):
                self._note(self._total + at)
        self._end = self._total + at
        self._total = total
        if self._bytes is not None:
            self._bytes += piece
            if self._total > HELD_SIZE_MAX:
                self._bytes = None

    def _note(self, end: int) -> None:
        """A message ends there."""
        if self.size < self._enough and end <= self._room:
            self.size = end

    @property
    def wanted(self) -> int:
        """Bytes that are still to be made; 0 or less: there are enough."""
        if self._total > self._room:
            return 0
        return self._enough - self.size

    @property
    def is_all(self) -> bool:
        """Whether all that was made is in the answer."""
        return self.size == self._total

    def hold(self, counts: Counts) -> Held | None:
        """The answer's messages, until they are sent. None: they are made again then."""
        if not self.size or self._bytes is None:
            return None
        messages = bytes(memoryview(self._bytes)[: self.size])
        return Held.within_budget(messages, counts, self.seconds)
