"""Finds the segments of a log that may be removed because of their age or of the log's size.

Kafka's rules: segments are removed from the beginning, one after the other, while each is beyond a
limit. For the limit of time, a segment is as old as its youngest record, or as its file if its
records have no timestamps. The active segment may be removed too, after a new one has begun. For
the limit of size, segments are removed while the rest is not smaller than the limit. Both limits
need `delete` in `cleanup.policy`. Segments that end before the log's start offset always go:
another broker may have deleted their records, and stopped before it removed the files.

Not here: removing them (log_writer.py)."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from downconvert.storage.config import LogConfig
from downconvert.storage.log import Log
from downconvert.storage.segments.segment import Segment


@dataclass(frozen=True, slots=True)
class Removable:
    """The number of first segments that may be removed, and the setting that allows it."""

    count: int
    reason: str  # empty if none may be removed


def segments_to_remove(
    sizes: Sequence[int], timestamps: Iterable[int], config: LogConfig, now: int
) -> Removable:
    """Applies the rules to segments with these sizes in bytes, and these timestamps of their
    youngest records. If all are removed, the caller must begin a new segment. Times are in
    milliseconds. `timestamps` are read up to the first segment that stays."""
    if not config.is_deleted:
        return Removable(0, "")
    by_time = 0
    if config.retention_ms >= 0:
        for size, timestamp in zip(sizes, timestamps, strict=False):
            is_empty_active = by_time == len(sizes) - 1 and not size
            if now - timestamp <= config.retention_ms or is_empty_active:
                break
            by_time += 1
    by_size = 0
    if config.retention_bytes >= 0:
        excess = sum(sizes) - config.retention_bytes
        for size in sizes[:-1]:
            excess -= size
            if excess < 0:
                break
            by_size += 1
    if by_size > by_time:
        return Removable(by_size, f"retention.bytes={config.retention_bytes}")
    return Removable(by_time, f"retention.ms={config.retention_ms}" if by_time else "")


def youngest(log: Log, segment: Segment) -> int:
    """The timestamp of a segment's youngest record in milliseconds. If no record has one, the
    modification time of the file. Reads headers if neither the writer nor an index knows the
    timestamp."""
    timestamp = None
    if log.is_writable:
        timestamp = log.writer.max_timestamp(segment)
    elif not log.segments.is_last(segment):  # its index may lack the latest records
        timestamp = segment.max_timestamp()
    if timestamp is None:
        headers = segment.slice(0, log.end_of(segment)).batches()
        timestamp = max((header.max_timestamp for header in headers), default=-1)
    if timestamp < 0:
        timestamp = segment.path().stat().st_mtime_ns // 1_000_000
    return timestamp


def removable(log: Log, config: LogConfig, now: int, up_to: int | None = None) -> Removable:
    """The removable segments of a log that is open for writing; `now` in milliseconds.

    `up_to`: no segment with an offset at or above that (a high watermark, say)."""
    segments = list(log.segments)
    sizes = [log.writer.size_of(segment) for segment in segments]
    found = segments_to_remove(sizes, (youngest(log, s) for s in segments), config, now)
    ends = [segment.base_offset for segment in segments[1:]] + [log.end_offset]
    deleted = sum(end <= log.start_offset for end in ends[:-1])
    if deleted > found.count:
        found = Removable(deleted, f"the log starts at offset {log.start_offset}")
    if up_to is None or not found.count:
        return found
    count = sum(end <= up_to for end in ends[: found.count])
    return Removable(count, found.reason if count else "")
