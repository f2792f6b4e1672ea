"""Compacts a log that is open for writing: all of it but the active segment.

Segments are cleaned in groups that fit into one, each into `.cleaned` files. When these are safe
they become `.swap` files, take the place of the group, and get their names: whatever interrupts
that, recovery completes it or takes it back (layout.py).

Not here: what stays (compaction.py)."""

from collections.abc import Iterator, Sequence

from records import MemoryRecords

from .compaction import Cleaner, CompactionCount, LatestOffsets, latest_offsets
from .config import DAY, LogConfig
from .files import Files
from .log import Log
from .names import SEGMENT_KINDS, State
from .offset_index import RELATIVE_MAX
from .open_files import OpenFiles
from .segment import Segment
from .segment_writer import SegmentWriter
from .transactions import AbortedRanges


def compact(
    log: Log,
    config: LogConfig,
    *,
    now: int,
    delete_retention_ms: int = DAY,
    files: Files | None = None,
) -> CompactionCount:
    """Leaves the last record of each key in front of the active segment, and of the last stable
    offset. `now` is in milliseconds; tombstones stay for another `delete_retention_ms`.

    The keys of all that is cleaned are in memory while it lasts, some hundred bytes each."""
    segments = _cleanable(log)
    aborted = log.aborted(0, log.end_offset)
    latest = LatestOffsets()
    for segment in segments:
        latest_offsets(latest, segment.slice(0, segment.size), AbortedRanges(aborted))
    last = {state.last_offset for state in log.writer.producers.values()}
    horizon = now + delete_retention_ms
    cleaner = Cleaner(latest, AbortedRanges(aborted), last, now=now, horizon=horizon)
    for group in _groups(segments, config):
        cleaned = _clean(group, cleaner, config, files or log.writer.files)
        log.writer.replace_segments(group, cleaned)
    return cleaner.count


def _cleanable(log: Log) -> list[Segment]:
    stable = log.last_stable_offset
    found = []
    for segment in log.segments:
        following = log.segments.after(segment)
        if following is None or following.base_offset > stable:
            break
        found.append(segment)
    return found


def _groups(segments: Sequence[Segment], config: LogConfig) -> Iterator[list[Segment]]:
    """Neighbours that fit into one segment together, as large as they are now."""
    group: list[Segment] = []
    size = 0
    for segment in segments:
        is_far = group and segment.base_offset - group[0].base_offset > RELATIVE_MAX // 2
        if group and (size + segment.size > config.segment_bytes or is_far):
            yield group
            group, size = [], 0
        group.append(segment)
        size += segment.size
    if group:
        yield group


def _clean(group: Sequence[Segment], cleaner: Cleaner, config: LogConfig, files: Files) -> Segment:
    first = group[0]
    cleaned = Segment(first.path().parent, first.base_offset, OpenFiles(), State.CLEANED)
    for kind in SEGMENT_KINDS:  # an earlier attempt may have been broken off
        files.remove(cleaned.path(kind))
    writer = SegmentWriter(cleaned, 0, first.base_offset, config, files)
    try:
        for segment in group:
            aborted = {entry.last_offset: entry for entry in segment.aborted()}
            for data in cleaner.clean(segment.slice(0, segment.size)):
                headers = list(MemoryRecords(data).batches())
                ended = [aborted[h.last_offset] for h in headers if h.last_offset in aborted]
                writer.append(data, headers, ended)
        writer.close()
    except BaseException:
        writer.abandon()
        raise
    cleaned.release()
    return cleaned
