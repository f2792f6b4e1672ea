"""Refuses a target with segments that their source no longer has.

A log that was cleaned, truncated or recreated since an earlier run now has other segments. If the
target had both, a broker would read offsets twice, or read records that a later leader has
truncated. Segments before the source's first one stay, because only retention has deleted them from
the source.

Not here: whether a segment is converted again (convert_segment.py, convert_stored.py)."""

from collections.abc import Callable, Iterable, Sequence
from os.path import dirname

from downconvert.spark.jobs.jobs import JobError
from downconvert.spark.logs.segment_files import PartitionLog

from .manifest import NOTE_SUFFIX, Entry


def check_current(
    logs: Sequence[PartitionLog], notes: Iterable[str], read: Callable[[str], Entry | None]
) -> None:
    """JobError: a note describes a segment that its log no longer has.

    `notes`: names below the target, `topic-0/00000000000000000000.converted.json`. `read`: reads a
    note, and returns None if that is impossible."""
    of_folder = {str(log.topic_partition): log for log in logs if log.segments}
    for name in sorted(notes):
        folder, _, file = name.rpartition("/")
        base, log = file.removesuffix(NOTE_SUFFIX), of_folder.get(folder)
        if log is None or not base.isdecimal() or not _is_absent(log, int(base)):
            continue
        entry = read(name)
        if entry is None or entry.status == "failed" or not _belonged_to(log, entry):
            continue
        raise JobError(
            f"{entry.target} was made from {entry.source}, which is gone while earlier segments "
            "are there: the log was cleaned, truncated or recreated since; remove the target's "
            f"{folder}, or name another target"
        )


def _is_absent(log: PartitionLog, base_offset: int) -> bool:
    bases = [segment.base_offset for segment in log.segments]
    return base_offset > bases[0] and base_offset not in bases


def _belonged_to(log: PartitionLog, entry: Entry) -> bool:
    """Whether a segment belonged to this log, not to another part of the partition elsewhere."""
    directories = {segment.directory for segment in log.segments}
    directories |= {log.directory, *(other.directory for other in log.others)}
    return dirname(entry.source) in directories  # noqa: PTH120 - may be a URI
