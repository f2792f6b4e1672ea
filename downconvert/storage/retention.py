"""Which segments of a log are old enough, or too many, to be removed.

Kafka's rules: segments go from the beginning, one after the other, as long as each is beyond a
limit. By time a segment is as old as its youngest record (or its file, if its records have no
timestamps), and the active one may go too, once a new one has been begun. By size they go while
what is left is no less than the limit.

Not here: removing them (log_writer.py)."""

from collections.abc import Sequence
from dataclasses import dataclass

from .config import LogConfig
from .log import Log
from .segment import Segment


@dataclass(frozen=True, slots=True)
class SegmentAge:
    """What retention goes by."""

    size: int  # bytes
    timestamp: int  # milliseconds; of the youngest record, or of the file


def segments_to_remove(segments: Sequence[SegmentAge], config: LogConfig, now: int) -> int:
    """How many segments are to go, from the first on. All of them: a new one is to be begun."""
    by_time = 0
    if config.retention_ms >= 0:
        for segment in segments:
            is_empty_active = by_time == len(segments) - 1 and not segment.size
            if now - segment.timestamp <= config.retention_ms or is_empty_active:
                break
            by_time += 1
    by_size = 0
    if config.retention_bytes >= 0:
        excess = sum(segment.size for segment in segments) - config.retention_bytes
        for segment in segments[:-1]:
            excess -= segment.size
            if excess < 0:
                break
            by_size += 1
    return max(by_time, by_size)


def age_of(segment: Segment, end: int) -> SegmentAge:
    """A segment up to the position `end`. Reads headers where no index says how old it is."""
    timestamp = segment.max_timestamp()
    if timestamp is None:
        headers = segment.slice(0, end).batches()
        timestamp = max((header.max_timestamp for header in headers), default=-1)
    if timestamp < 0:
        timestamp = segment.path().stat().st_mtime_ns // 1_000_000
    return SegmentAge(end, timestamp)


def apply_retention(log: Log, config: LogConfig, now: int) -> int:
    """Removes what is old or too much; `now` in milliseconds. Gives the number of segments."""
    writer = log.writer
    ages = [age_of(segment, writer.end_of(segment)) for segment in log.segments]
    count = segments_to_remove(ages, config, now)
    if count:
        writer.remove_oldest(count)
    return count
