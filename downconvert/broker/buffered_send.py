"""Converted bytes that are kept in memory until they are sent.

An answer states its size before its first byte. What is compressed again has to be made for its
size to be known, so that an exact size costs the work twice: once to measure, once to send. While
the budget lasts, the bytes of the first time are kept instead. All answers share one budget, since
a slow client holds its bytes for as long as it takes.

Not here: what is kept and what is measured (fetch_assembly.py)."""

from collections.abc import Callable, Iterable
from threading import Lock
from time import perf_counter
from typing import Any, Final, Self

from downconvert import AbortedTransaction, ConversionPolicy, ConversionStats, convert
from records import RecordsError
from records.sends import PendingBytes
from records.source import Records
from records.units import KiB, MiB

# Of one range. A client that fetches as much as is usual (1 MiB of each partition) gets no more.
BUFFERED_SIZE_MAX: Final = 4 * MiB

WRITE_SIZE_MAX: Final = 64 * KiB  # so that other connections have their turns


class MemoryBudget:
    """How many bytes all answers of a broker together may hold. Thread-safe."""

    __slots__ = ("_left", "_lock")

    def __init__(self, size: int) -> None:
        self._left = size
        self._lock = Lock()

    @property
    def left(self) -> int:
        return self._left

    def take(self, size: int) -> bool:
        """Takes `size` bytes, until they are released. False: there are not as many."""
        with self._lock:
            if size > self._left:
                return False
            self._left -= size
            return True

    def release(self, size: int) -> None:
        with self._lock:
            self._left += size


class BufferedSend:
    """Converted bytes on their way out, whose memory is released when they are sent."""

    __slots__ = ("_budget", "_data", "_held", "_pending", "damage", "size", "stats")

    def __init__(
        self,
        data: bytearray,
        budget: MemoryBudget,
        held: int,
        stats: ConversionStats,
        damage: RecordsError | None,
    ) -> None:
        self.size = len(data)
        self.stats = stats
        self.damage = damage  # why it ends before the records do
        self._data = memoryview(data)
        self._pending = PendingBytes(self._data)
        self._budget = budget
        self._held = held

    @classmethod
    def of(
        cls,
        records: Records,
        to_magic: int,
        first_offset: int,
        policy: ConversionPolicy,
        budget: MemoryBudget,
        *,
        aborted: Iterable[AbortedTransaction] = (),
        clock: Callable[[], float] = perf_counter,
    ) -> Self | None:
        """The records converted; None: the budget has no room for them. RecordsError: damage or a
        refusal is all there is."""
        data = bytearray()
        held = 0
        damage: RecordsError | None = None
        started = clock()
        conversion = convert(records, to_magic, first_offset, policy, aborted=aborted)
        try:
            for piece in conversion:
                if held + len(piece) > BUFFERED_SIZE_MAX or not budget.take(len(piece)):
                    budget.release(held)
                    return None
                held += len(piece)
                data += piece
        except RecordsError as error:
            if not data:
                raise
            damage = error
        except BaseException:  # the disk
            budget.release(held)
            raise
        stats = conversion.stats
        stats.seconds_converting = clock() - started
        return cls(data, budget, held, stats, damage)

    def cut(self, size: int) -> None:
        """Sends only the first `size` bytes."""
        self.size = min(self.size, size)
        self._data = self._data[: self.size]
        self._pending.left = self._data

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
        return not self._pending.left

    def write_to(self, channel: Any, budget: int | None = None) -> int:
        """Makes one write, of `budget` bytes if there is one, and returns the bytes written; 0: not
        now."""
        written = self._pending.write_to(channel, budget or WRITE_SIZE_MAX)
        if self.completed:
            self.close()
        return written

    def close(self) -> None:
        """Releases the memory: all is sent, or the rest is not wanted."""
        held, self._held = self._held, 0
        self._data = memoryview(b"")
        self._pending.left = self._data
        self._budget.release(held)

    def __del__(self) -> None:  # a connection that ended
        if self._held:
            self.close()
