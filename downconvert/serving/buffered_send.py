"""Converted bytes that stay in memory until they are sent to all clients that request them.

The bytes of all conversions share one budget, because a slow client may hold its bytes for long.

Not here: the cache of chunks (conversion_cache.py), conversions for one client
(downconvert/conversion), the parts of one response (fetch_assembly.py)."""

from collections.abc import Callable, Iterable
from threading import Lock
from time import perf_counter
from typing import Any, Final, Self, TypeAlias

from downconvert import AbortedTransaction, ConversionPolicy, ConversionStats, convert
from records import RecordsError
from records.budget import MemoryBudget
from records.files.sends import PendingBytes
from records.files.source import Records
from records.units import KiB, MiB

# For one range. A client with the usual limit (1 MiB a partition) gets less.
BUFFERED_SIZE_MAX: Final = 4 * MiB

WRITE_SIZE_MAX: Final = 64 * KiB  # so that other connections have their turns

Take: TypeAlias = Callable[[int], bool]  # takes bytes of a budget; False: too few are left


class KeptBytes:
    """Converted bytes with any number of holders. The last release frees the memory. The first
    holder is their creator. Thread-safe."""

    __slots__ = ("_budget", "_held", "_holders", "_lock", "data", "stats")

    def __init__(
        self,
        data: bytes,
        budget: MemoryBudget,
        held: int,
        stats: ConversionStats,
    ) -> None:
        """`held`: bytes of the budget taken for them."""
        self.data = data
        self.stats = stats
        self._budget = budget
        self._held = held
        self._holders = 1
        self._lock = Lock()

    @property
    def is_shared(self) -> bool:
        """Whether there is more than one holder."""
        return self._holders > 1

    def hold(self) -> Self:
        with self._lock:
            self._holders += 1
        return self

    def release(self) -> None:
        with self._lock:
            self._holders -= 1
            if self._holders:
                return
            held, self._held = self._held, 0
            self.data = b""
        self._budget.release(held)


class BufferedConversion:
    """A conversion that keeps its bytes. Its caller runs it in any number of steps."""

    __slots__ = ("_budget", "_conversion", "_data", "_held", "_seconds", "_take", "damage")

    def __init__(
        self,
        records: Records,
        to_magic: int,
        first_offset: int,
        policy: ConversionPolicy,
        budget: MemoryBudget,
        *,
        aborted: Iterable[AbortedTransaction] = (),
        take: Take | None = None,
    ) -> None:
        """`take`: used in place of the budget's own `take`."""
        self._conversion = convert(records, to_magic, first_offset, policy, aborted=aborted)
        self._budget = budget
        self._take = take or budget.take
        self._data = bytearray()
        self._held = 0
        self._seconds = 0.0
        self.damage: RecordsError | None = None  # why it ended before the records do

    @property
    def source_size(self) -> int:
        """Bytes of records converted so far. At the end they are whole batches."""
        return self._conversion.stats.bytes_in

    def run(self, work: int | None = None, clock: Callable[[], float] = perf_counter) -> int:
        """Converts until about `work` is done, or to the end. Returns the unused work. If that is 0
        or less, the conversion needs another call.

        Work is bytes that go through memory. Bytes of compressed batches count several times.
        NoMemoryError: the budget has no room, or the conversion is too large. RecordsError: damage
        or a refusal before the first byte. OSError: the disk. After an error nothing is held."""
        started = clock()
        left = 1 if work is None else work
        done = self.work_done
        try:
            for piece in self._conversion:
                size = len(piece)
                if self._held + size > BUFFERED_SIZE_MAX:
                    raise NoMemoryError(is_large=True)
                if not self._take(size):
                    raise NoMemoryError(is_large=False)
                self._held += size
                self._data += piece
                if work is not None:
                    left = work + done - self.work_done
                    if left <= 0:
                        break
        except RecordsError as error:
            if not self._data:
                self.close()
                raise
            self.damage = error
        except BaseException:
            self.close()
            raise
        self._seconds += clock() - started
        return left

    @property
    def work_done(self) -> int:
        """The work done, counted as in `run`."""
        return self._conversion.work

    def kept(self, overhead: int = 0) -> KeptBytes:
        """The bytes, after all is converted. `overhead`: bytes of the budget that the caller has
        taken in addition."""
        stats = self._conversion.stats
        stats.seconds_converting = self._seconds
        held, self._held = self._held, 0
        return KeptBytes(bytes(self._data), self._budget, held + overhead, stats)

    def close(self) -> None:
        """Releases the bytes without sending them."""
        held, self._held = self._held, 0
        self._data = bytearray()
        self._budget.release(held)

    def __del__(self) -> None:
        if self._held:
            self.close()


class NoMemoryError(Exception):
    """The budget has no room for a conversion. is_large: it never will."""

    def __init__(self, *, is_large: bool) -> None:
        super().__init__("too large to be kept" if is_large else "no room to keep it")
        self.is_large = is_large


class BufferedSend:
    """Sends kept bytes from `start` on. It holds them until they are sent."""

    __slots__ = ("_data", "_kept", "_pending", "size", "stats")

    def __init__(self, kept: KeptBytes, stats: ConversionStats, start: int = 0) -> None:
        """The caller's hold of the bytes passes to this object. `stats`: of this response."""
        self._kept: KeptBytes | None = kept
        self._data = memoryview(kept.data)[start:]
        self.size = len(self._data)
        self.stats = stats
        self._pending = PendingBytes(self._data)

    def cut(self, size: int) -> None:
        """Sends only the first `size` bytes."""
        self.size = min(self.size, size)
        self._data = self._data[: self.size]
        self._pending.left = self._data

    def copy_to(self, buffer: memoryview) -> bool:
        """Like `ZeroCopySend.copy_to`."""
        buffer[: self.size] = self._data
        return True

    def skip(self, size: int) -> None:
        """Skips bytes that were sent in another way. Must be called before any `write_to`."""
        self._pending.left = self._data[size:]
        if self.completed:
            self.close()

    @property
    def head(self) -> memoryview:
        """Its first bytes."""
        return self._data

    @property
    def completed(self) -> bool:
        return not self._pending.left

    def write_to(self, channel: Any, budget: int | None = None) -> int:
        """Writes once, at most `budget` bytes, and returns how many. 0: the channel takes none
        now."""
        written = self._pending.write_to(channel, budget or WRITE_SIZE_MAX)
        if self.completed:
            self.close()
        return written

    def close(self) -> None:
        """Releases the bytes. Unsent ones are dropped."""
        kept, self._kept = self._kept, None
        self._data = memoryview(b"")
        self._pending.left = self._data
        if kept is not None:
            kept.release()

    def __del__(self) -> None:  # called if a connection ends before the send
        if self._kept is not None:
            self.close()
