"""The plan of a query as rows: one for each split, and one for each segment that is left out.

Not here: planning itself (planner.py)."""

from collections.abc import Iterator
from typing import Any

from downconvert.spark.logs.segment_files import PartitionLog, SegmentFile
from downconvert.spark.logs.splits import Split
from downconvert.spark.options.options import Options
from downconvert.spark.stores.attempts import attempted

from .bounds import Bounds
from .planner import offsets_of, partitions, plan_logs


def rows_of(options: Options, bounds: Bounds) -> list[dict[str, Any]]:
    """Rows with the columns of schemas.SPLIT: by task, then the segments that are left out."""
    return attempted(lambda _: _rows_of(options, bounds))


def _rows_of(options: Options, bounds: Bounds) -> list[dict[str, Any]]:
    logs = partitions(options)
    tasks = plan_logs(logs, options, bounds)
    found = [_row(split, number) for number, splits in enumerate(tasks) for split in splits]
    read = {split.segment.path for splits in tasks for split in splits}
    return found + [row for log in logs for row in _left_out(log, options, bounds, read)]


def _row(split: Split, task: int) -> dict[str, Any]:
    return {
        "topic": split.topic,
        "partition": split.partition,
        "segment": split.segment.path,
        "position": split.start,
        "bytes": split.size,
        "startOffset": max(split.first_offset, split.segment.base_offset),
        "endOffset": split.read_until,
        "copies": len(split.copies),
        "task": task,
        "pruned": None,
    }


def _left_out(
    log: PartitionLog, options: Options, bounds: Bounds, read: set[str]
) -> Iterator[dict[str, Any]]:
    topic, partition = log.topic_partition
    start, end = offsets_of(log, options)
    start, end = max(start, bounds.offset_min), min(end, bounds.offset_max + 1)
    for file in log.segments:
        if file.path not in read:
            yield {
                "topic": topic,
                "partition": partition,
                "segment": file.path,
                "position": 0,
                "bytes": file.size,
                "startOffset": file.base_offset,
                "endOffset": file.next_offset,
                "copies": len(log.others),
                "task": None,
                "pruned": _reason(file, log, bounds, start, end),
            }


def _reason(file: SegmentFile, log: PartitionLog, bounds: Bounds, start: int, end: int) -> str:
    if not bounds.takes(*log.topic_partition):
        return "a filter leaves the partition out"
    if file.next_offset <= start:
        return f"ends before offset {start}, where reading begins"
    if file.base_offset >= end:
        return f"begins at or after offset {end}, where reading ends"
    if not file.size:
        return "is empty"
    return "older than a filter asks for, or after the high watermark or an open transaction"
