"""Finds the dirty part of a compacted log, and decides whether it is due for cleaning.

Kafka's rules [LogCleanerManager]: the clean part ends at the cleaner's checkpoint. The dirty part
begins there. It ends at the active segment, the last stable offset, or the first segment with a
record younger than `min.compaction.lag.ms`. It is cleaned when its share of the bytes is above
`min.cleanable.dirty.ratio`, or when it is older than `max.compaction.lag.ms`.

Not here: cleaning (compact_log.py)."""

from dataclasses import dataclass
from itertools import pairwise

from downconvert.storage.config import LogConfig
from downconvert.storage.log import Log
from downconvert.storage.segments.segment import Segment

from .retention import youngest


@dataclass(frozen=True, slots=True)
class Cleanable:
    """The dirty offsets of a log that may be cleaned. Sizes of segments are in bytes."""

    first_dirty: int
    end: int
    clean_bytes: int
    dirty_bytes: int
    is_late: bool  # dirty for longer than max.compaction.lag.ms

    @property
    def dirty_ratio(self) -> float:
        total = self.clean_bytes + self.dirty_bytes
        return self.dirty_bytes / total if total else 0.0

    def is_due(self, config: LogConfig) -> bool:
        if not self.dirty_bytes:
            return False
        return self.is_late or self.dirty_ratio > config.min_cleanable_dirty_ratio


def cleanable(log: Log, config: LogConfig, now: int, up_to: int | None = None) -> Cleanable:
    """The cleanable part of a log that is open for writing; `now` in milliseconds.

    `up_to`: nothing from that offset on is cleaned (a high watermark, say)."""
    segments = list(log.segments)
    bound = log.last_stable_offset if up_to is None else min(up_to, log.last_stable_offset)
    first_dirty = _first_dirty(log)
    end, clean, dirty = segments[0].base_offset, 0, 0
    oldest: Segment | None = None
    for segment, following in pairwise(segments):
        if following.base_offset > bound:
            break
        size = log.writer.size_of(segment)
        if following.base_offset > first_dirty:
            lag = config.min_compaction_lag_ms
            if lag > 0 and now - youngest(log, segment) < lag:
                break
            if size and oldest is None:
                oldest = segment
            dirty += size
        else:
            clean += size
        end = following.base_offset
    is_late = oldest is not None and _is_late(oldest, config, now)
    return Cleanable(min(first_dirty, end), end, clean, dirty, is_late)


def _first_dirty(log: Log) -> int:
    """The first dirty offset: the cleaner's checkpoint, if it is within this log."""
    start = max(log.start_offset, log.segments[0].base_offset)
    point = log.writer.cleaner_point
    return point if start <= point <= log.end_offset else start


def _is_late(segment: Segment, config: LogConfig, now: int) -> bool:
    first = next(segment.slice(0, segment.size).batches(), None)
    if first is None or first.max_timestamp < 0:
        return False
    return now - first.max_timestamp > config.max_compaction_lag_ms
