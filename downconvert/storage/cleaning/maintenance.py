"""Rolling, retention and compaction of a log, in steps.

Each step is small, so the caller decides how much is done in a second. Nothing here waits or reads
a clock: the time is an argument. The log may be read and appended to between steps. With a `lock`,
other threads may do so during steps, and wait only briefly.

Not here: the schedule of steps (the broker), the rules (retention.py, cleanable.py)."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from downconvert.storage.config import LogConfig
from downconvert.storage.log import Log
from records.units import format_count, format_size

from .cleanable import Cleanable, cleanable
from .compact_log import NO_LOCK, Compaction, InterruptedPassError
from .compaction import CompactionCount
from .offset_map import BUFFER_SIZE
from .retention import Removable, removable

# Segments that one step removes. The lock is held meanwhile, and each takes a few system calls.
REMOVED_MAX: Final = 16


class Kind(Enum):
    """The kind of a change."""

    ROLLED = "rolled"
    REMOVED = "removed"
    CLEANED = "cleaned"


@dataclass(frozen=True, slots=True)
class Done:
    """One completed change. Its text is a line for the operator."""

    kind: Kind
    name: str  # of the partition's directory
    start_offset: int  # of the log, afterwards
    end_offset: int  # the end of the removed or cleaned records, or the start of the new segment
    segments: int = 0
    size: int = 0  # bytes that were removed
    reason: str = ""
    count: CompactionCount = field(default_factory=CompactionCount)

    @property
    def fields(self) -> dict[str, object]:
        """The fields of a JSON log line."""
        fields: dict[str, object] = {"partition": self.name, "done": self.kind.name.lower()}
        fields["offset"] = self.end_offset
        match self.kind:
            case Kind.ROLLED:
                return fields | {"why": self.reason}
            case Kind.REMOVED:
                return fields | {"segments": self.segments, "bytes": self.size, "why": self.reason}
            case Kind.CLEANED:
                return fields | {
                    "records_before": self.count.records_in,
                    "records_after": self.count.records_out,
                    "bytes_before": self.count.bytes_in,
                    "bytes_after": self.count.bytes_out,
                }

    def __str__(self) -> str:
        if self.kind is Kind.ROLLED:
            return f"{self.name}: a new segment begins at offset {self.end_offset} ({self.reason})"
        if self.kind is Kind.REMOVED:
            return (
                f"{self.name}: {format_count(self.segments, 'segment')} of "
                f"{format_size(self.size)} removed, up to offset {self.end_offset} ({self.reason})"
            )
        count = self.count
        return (
            f"{self.name}: cleaned up to offset {self.end_offset}, {count.records_in:,} records "
            f"to {count.records_out:,}, {format_size(count.bytes_in)} to "
            f"{format_size(count.bytes_out)}"
        )


@dataclass(frozen=True, slots=True)
class Due:
    """The changes that are due for a log."""

    roll: bool
    remove: Removable
    clean: Cleanable | None

    def __bool__(self) -> bool:
        return self.roll or self.remove.count > 0 or self.clean is not None


@dataclass(frozen=True, slots=True)
class Step:
    """The result of a step: whether there is more to do at once, and what was completed."""

    has_more: bool
    done: Done | None = None


class Maintenance:
    """The maintenance of one log that is open for writing."""

    def __init__(
        self,
        log: Log,
        *,
        buffer_size: int = BUFFER_SIZE,
        lock: AbstractContextManager[object] = NO_LOCK,
        bound: Callable[[], int | None] = lambda: None,
    ) -> None:
        """`buffer_size`: bytes of the cleaner's offset map. `bound`: returns an offset, such as the
        high watermark, from which on nothing is removed or cleaned; None means no bound. It is
        called with the lock held."""
        self._log = log
        self._buffer_size = buffer_size
        self._lock = lock
        self._bound = bound
        self._compaction: Compaction | None = None

    @property
    def is_cleaning(self) -> bool:
        return self._compaction is not None

    def due(self, config: LogConfig, now: int) -> Due:
        """The changes that are due by the settings at the time `now` (milliseconds). Does not take
        the lock."""
        log, bound = self._log, self._bound()
        part = cleanable(log, config, now, bound) if config.is_compacted else None
        if part is not None and not part.is_due(config):
            part = None
        return Due(log.writer.active.is_old(now), removable(log, config, now, bound), part)

    def step(self, config: LogConfig, now: int, size: int) -> Step:
        """Rolls a segment, removes some, or lets the cleaner read about `size` bytes.

        CorruptRecordsError: the log cannot be cleaned. OSError, StorageError: the disk failed.
        After an error the pass is abandoned, and a later step begins a new one."""
        if self._compaction is not None:
            return self._clean(self._compaction, size)
        with self._lock:
            if self._log.writer.is_closed:  # deleted in the meantime
                return Step(False)
            due = self.due(config, now)
            if due.roll:
                return Step(True, self._roll(config))
            if due.remove.count:
                return Step(True, self._remove(due.remove))
            if due.clean is None:
                return Step(False)
            self._compaction = Compaction(
                self._log,
                config,
                due.clean,
                now=now,
                buffer_size=self._buffer_size,
                lock=self._lock,
            )
        return Step(True)

    def close(self) -> None:
        """Abandons a pass in progress."""
        compaction, self._compaction = self._compaction, None
        if compaction is not None:
            compaction.close()

    def _roll(self, config: LogConfig) -> Done:
        log = self._log
        log.writer.roll()
        reason = f"segment.ms={config.roll_ms}"
        return Done(Kind.ROLLED, log.path.name, log.start_offset, log.end_offset, reason=reason)

    def _remove(self, found: Removable) -> Done:
        log = self._log
        count = min(found.count, REMOVED_MAX)
        size = sum(log.writer.size_of(segment) for segment in list(log.segments)[:count])
        log.writer.remove_oldest(count)
        start = log.start_offset
        return Done(
            Kind.REMOVED, log.path.name, start, start, count, size=size, reason=found.reason
        )

    def _clean(self, compaction: Compaction, size: int) -> Step:
        try:
            if compaction.step(size):
                return Step(True)
        except InterruptedPassError:
            self.close()
            return Step(True)
        except BaseException:
            self.close()
            raise
        self._compaction = None
        count = compaction.count
        name, start = self._log.path.name, compaction.part.first_dirty
        # If the map was full, the rest is still dirty, and another step finds it.
        return Step(True, Done(Kind.CLEANED, name, start, compaction.end, count=count))
