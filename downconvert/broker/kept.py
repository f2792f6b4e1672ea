"""Converted bytes that are kept until they are sent.

An answer says its size before it begins. What is compressed again has no size before it is made, so
that an exact one costs the work twice: once to measure, once to send. Where there is room the bytes
of the first time are kept instead. Only so many for all answers together: who is slow would have
them in memory for as long as it takes.

Not here: what is kept and what is measured (reading.py)."""

from collections.abc import Callable, Iterable
from threading import Lock
from time import perf_counter
from typing import Any, Final, Self

from downconvert import AbortedTransaction, ConversionPolicy, ConversionStats, convert
from records import RecordsError
from records.channel import Write, writer
from records.source import Records

# Of one range. A client that fetches as much as is usual (1 MiB of each partition) gets no more.
KEPT_SIZE_MAX: Final = 4 * 1024 * 1024

WRITE_SIZE_MAX: Final = 64 * 1024  # so that connections have their turns
NO_CHANNEL: Final = object()  # so far


class KeepRoom:
    """How many bytes there is room for, in all answers of a broker together."""

    __slots__ = ("_left", "_lock")

    def __init__(self, size: int) -> None:
        self._left = size
        self._lock = Lock()

    @property
    def left(self) -> int:
        return self._left

    def take(self, size: int) -> bool:
        """Whether there is as much; then it is the caller's."""
        with self._lock:
            if size > self._left:
                return False
            self._left -= size
            return True

    def give_back(self, size: int) -> None:
        with self._lock:
            self._left += size


class KeptSend:
    """Converted bytes on their way out, which give their room back when they are gone."""

    __slots__ = (
        "_channel",
        "_data",
        "_held",
        "_room",
        "_sent",
        "_write",
        "damage",
        "size",
        "stats",
    )

    def __init__(
        self,
        data: bytearray,
        room: KeepRoom,
        held: int,
        stats: ConversionStats,
        damage: RecordsError | None,
    ) -> None:
        self.size = len(data)
        self.stats = stats
        self.damage = damage  # why it ends before the records do
        self._data = memoryview(data)
        self._room = room
        self._held = held
        self._sent = 0
        self._channel: Any = NO_CHANNEL
        self._write: Write

    @classmethod
    def of(
        cls,
        records: Records,
        to_magic: int,
        first_offset: int,
        policy: ConversionPolicy,
        room: KeepRoom,
        *,
        aborted: Iterable[AbortedTransaction] = (),
        clock: Callable[[], float] = perf_counter,
    ) -> Self | None:
        """The records converted; None: there is no room. RecordsError: damage or a refusal is all
        there is."""
        data = bytearray()
        held = 0
        damage: RecordsError | None = None
        started = clock()
        conversion = convert(records, to_magic, first_offset, policy, aborted=aborted)
        try:
            for piece in conversion:
                if held + len(piece) > KEPT_SIZE_MAX or not room.take(len(piece)):
                    room.give_back(held)
                    return None
                held += len(piece)
                data += piece
        except RecordsError as error:
            if not data:
                raise
            damage = error
        except BaseException:  # the disk
            room.give_back(held)
            raise
        stats = conversion.stats
        stats.seconds_converting = clock() - started
        return cls(data, room, held, stats, damage)

    def cut(self, size: int) -> None:
        """Only so many bytes are sent."""
        self.size = min(self.size, size)
        self._data = self._data[: self.size]

    @property
    def is_whole(self) -> bool:
        """Whether all of the records are in it, before it is cut."""
        return self.damage is None

    @property
    def head(self) -> memoryview:
        """How it begins."""
        return self._data

    @property
    def completed(self) -> bool:
        return self._sent == self.size

    def write_to(self, channel: Any) -> int:
        """Makes one write, and returns the bytes written; 0: not now."""
        if self.completed:
            return 0
        if channel is not self._channel:
            self._write = writer(channel)
            self._channel = channel
        written = self._write(self._data[self._sent : self._sent + WRITE_SIZE_MAX])
        self._sent += written
        if self.completed:
            self.close()
        return written

    def close(self) -> None:
        """Gives its room back: all of it is sent, or nobody wants the rest."""
        held, self._held = self._held, 0
        self._data = memoryview(b"")
        self._room.give_back(held)

    def __del__(self) -> None:  # a connection that ended
        if self._held:
            self.close()
