"""Converts one segment to another format, as a task of a conversion. This file does not use Spark.

Every file is written under a temporary path, synced, read back, compared, and then renamed: indexes
first, then the log, and last the note with its digest. So a task may be killed at any time, and may
run twice at once: both attempts write the same bytes to temporary paths of their own. A killed one
leaves a directory `.converting-...`, which the next run removes.

Not here: the bytes (rewrite.py), comparing (verification.py), which segments and on which machines
(convert.py), the manifest (manifest.py)."""

import resource
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from time import thread_time
from typing import Final

from downconvert.spark.logs.segment_files import PartitionLog
from downconvert.storage import AbortedTransaction, DiskFullError, Log, LogConfig
from downconvert.storage.disk.files import DISK, Files, replace_file
from downconvert.storage.indexes.index_builder import write_indexes
from downconvert.storage.layout import read_layout
from downconvert.storage.names import LEADER_EPOCHS, OFFSET_MAX, PARTITION_METADATA, Kind, file_name
from downconvert.storage.segments.rising import in_order
from downconvert.storage.segments.segment import Segment
from downconvert.storage.segments.tail import next_offset_of
from records import CorruptRecordsError, FileRecords, RecordsError
from records.formats import V2
from records.kernel import Buffer

from .manifest import Entry, Verified, digest_of, is_true, read_note, remove_note, write_note
from .rewrite import Rewritten, Settings, Write, rewrite
from .verification import VerificationError, compare, is_copy

WORK_PREFIX: Final = ".converting-"
CONFIG: Final = LogConfig()
RUSAGE_UNIT: Final = 1 if sys.platform == "darwin" else 1024
BUFFER_SIZE: Final = 1024 * 1024  # bytes of small pieces, before they are written


class OverlapError(RecordsError):
    """Two segments have the same offsets, and neither of them has all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One segment of a partition's directory, and the directory for the result. `log`: the source
    log, if the source or the result is not in a mounted directory (convert_stored.py). `aborted`:
    the aborted transactions; None: those that the files of `source` show."""

    topic: str
    partition: int
    base_offset: int
    source: str
    target: str
    settings: Settings
    source_name: str = ""  # of the log, in notes, if it was copied from a store
    log: PartitionLog | None = None
    aborted: tuple[AbortedTransaction, ...] | None = None

    def __str__(self) -> str:
        return f"{self.source}, segment {self.base_offset}"


def convert_segment(
    task: Task,
    *,
    attempt: str,
    files: Files = DISK,
    end_of: Callable[[Segment], int] = next_offset_of,
) -> Entry:
    """Converts a segment, unless it is converted already. If it cannot be converted, the entry
    states the reason.

    `attempt`: a unique name. `end_of`: returns the end offset of the next segment. OSError,
    DiskFullError: the machine failed, and the target is unchanged."""
    started = thread_time()
    target = Path(task.target)
    entry = _described(task)
    known = read_note(target, task.base_offset)
    if known is not None:
        if _is_same(known, entry) and is_true(known, target):
            return replace(known, status="kept", cpu_seconds=thread_time() - started)
        remove_note(target, task.base_offset, files)
    work = target / f"{WORK_PREFIX}{task.base_offset:020d}-{attempt}"
    files.make_directory(target)
    _remove(work, files)
    files.make_directory(work)
    try:
        entry = _converted(task, entry, work, files, end_of)
        _publish(task.base_offset, work, target, files)
        entry = replace(entry, cpu_seconds=thread_time() - started, peak_memory=_peak_memory())
        note = write_note(work, entry, files)
        files.rename(note, target / note.name)
        files.sync_directory(target)
    except DiskFullError:
        _remove(work, files)
        raise
    except RecordsError as error:
        _remove(work, files)
        spent = thread_time() - started
        entry = failed(task, f"{entry.source}: {error}", replace(entry, cpu_seconds=spent))
        write_note(target, entry, files)
        return entry
    except Exception:
        _remove(work, files)
        raise
    _remove(work, files)
    return entry


def failed(task: Task, error: str, entry: Entry | None = None) -> Entry:
    """The entry of a segment that was not converted, with the known fields."""
    if entry is not None:
        return replace(entry, status="failed", target="", error=error)
    return Entry(
        topic=task.topic,
        partition=task.partition,
        segment=task.base_offset,
        status="failed",
        settings=str(task.settings),
        source=task.source,
        source_size=0,
        source_modified=0,
        error=error,
    )


def remove_leftovers(target: Path, files: Files = DISK) -> None:
    """Removes the files of killed attempts from a partition's directory."""
    for path in target.glob(f"{WORK_PREFIX}*"):
        _remove(path, files)


def _described(task: Task) -> Entry:
    with Log.open(task.source) as log:
        path = _segment(log, task.base_offset).path()
    status = path.stat()
    name = task.source_name or str(path)
    return Entry(
        topic=task.topic,
        partition=task.partition,
        segment=task.base_offset,
        status="converted",
        settings=str(task.settings),
        source=name,
        source_size=status.st_size,
        source_modified=status.st_mtime_ns,
        target=str(Path(task.target) / file_name(task.base_offset, Kind.LOG)),
    )


def _is_same(known: Entry, entry: Entry) -> bool:
    """Whether a note belongs to this source and these settings, by size and time, as in rsync."""
    return (known.settings, known.source_size, known.source_modified) == (
        entry.settings,
        entry.source_size,
        entry.source_modified,
    )


def _segment(log: Log, base_offset: int) -> Segment:
    segment = next(log.segments.starting_at(base_offset), None)
    if segment is None or segment.base_offset != base_offset:
        path = log.path / file_name(base_offset, Kind.LOG)
        raise FileNotFoundError(2, "no such segment", str(path))
    return segment


# --- making


def _converted(
    task: Task, entry: Entry, work: Path, files: Files, end_of: Callable[[Segment], int]
) -> Entry:
    """Writes the log, the indexes and the other files into `work`, and compares."""
    settings = task.settings
    made = work / file_name(task.base_offset, Kind.LOG)
    with Log.open(task.source) as log:
        segment = _segment(log, task.base_offset)
        if log.segments.is_last(segment) and log.damage is not None:
            raise log.damage
        source = segment.slice(0, log.end_of(segment))
        aborted = _aborted(log, segment, task)
        following = log.segments.after(segment)
        next_offset = OFFSET_MAX if following is None else following.base_offset
        if following is not None:
            source = _before(source, segment, following, end_of)
        base_offset = segment.base_offset
        done, size = _write(
            made,
            files,
            lambda write: rewrite(source, write, settings, aborted, base_offset, next_offset),
        )
        with FileRecords.open(made) as target:
            batches_out = write_indexes(target, work, task.base_offset, files, CONFIG)
            verified, records = _verified(source, target, aborted, settings, done)
        for path in _kept(log, segment, settings.to_magic):
            name = path.name.removesuffix(segment.state)
            replace_file(files, work / name, path.read_bytes())
    return replace(
        entry,
        source_digest=digest_of(segment.path()),
        target_size=size,
        target_digest=digest_of(made),
        batches_in=done.batches,
        batches_out=batches_out,
        records=records,
        records_converted=done.records_converted,
        control_batches=done.control_batches,
        aborted_batches=done.aborted_batches,
        verified=verified,
    )


def _before(
    source: FileRecords, segment: Segment, following: Segment, end_of: Callable[[Segment], int]
) -> FileRecords:
    """The records before the next segment. After a cleaner has merged two segments, a copy of the
    log may have the second one too. CorruptRecordsError: the next segment lacks some of the offsets
    that both should have."""
    start = end = following.base_offset
    if next_offset_of(segment) <= start:
        return source
    size = 0
    with suppress(CorruptRecordsError):  # damage is reported as the segment is read
        for header in in_order(source.batches(), segment.base_offset, start):
            end = header.last_offset + 1
            if header.base_offset < start:
                size = header.position + header.size
        if end_of(following) >= end:
            return source.slice(0, size)
        raise OverlapError(
            f"offsets from {start} up to {end} are also in the next segment, which lacks some of "
            "them: remove one of the two"
        )
    return source


def _aborted(log: Log, segment: Segment, task: Task) -> list[AbortedTransaction]:
    if task.settings.to_magic == V2:
        return []
    if task.aborted is not None:
        return list(task.aborted)
    following = log.segments.after(segment)
    end = log.end_offset if following is None else following.base_offset
    return log.aborted(segment.base_offset, end)


def _write(path: Path, files: Files, make: Callable[[Write], Rewritten]) -> tuple[Rewritten, int]:
    """Writes a file from the pieces that `make` writes; returns its result, and the file's size."""
    file = files.open(path)
    buffer = bytearray()
    position = 0

    def write(piece: Buffer) -> None:
        nonlocal position
        buffer.extend(piece)
        if len(buffer) >= BUFFER_SIZE:
            file.write_at(buffer, position)
            position += len(buffer)
            buffer.clear()

    try:
        done = make(write)
        if buffer:
            file.write_at(buffer, position)
        file.sync()
    finally:
        file.close()
    return done, position + len(buffer)


def _verified(
    source: FileRecords,
    target: FileRecords,
    aborted: list[AbortedTransaction],
    settings: Settings,
    done: Rewritten,
) -> tuple[Verified, int]:
    if done.is_copy:
        if not is_copy(source, target):
            raise VerificationError(
                f"{target.name} should be a copy of {source.name}, and has other bytes"
            )
        return "copy", -1
    left_out = aborted if settings.isolation == "read_committed" else []
    return compare(source, target, settings.to_magic, left_out, settings.record_size_max)


def _kept(log: Log, segment: Segment, to_magic: int) -> Iterator[Path]:
    """Copies the other files of a segment. With the first segment, it also copies the files of the
    partition.

    v0 and v1 have neither transactions nor producers nor leader epochs."""
    directory = segment.path().parent
    is_first, following = segment is log.segments[0], log.segments.after(segment)
    if is_first:
        yield from filter(Path.exists, [directory / PARTITION_METADATA])
    if to_magic < V2:
        return
    if is_first:
        yield from filter(Path.exists, [directory / LEADER_EPOCHS])
    yield from filter(Path.exists, [segment.path(Kind.TRANSACTION_INDEX)])
    for offset in read_layout(directory).snapshots:
        begins = is_first or offset >= segment.base_offset
        if begins and (following is None or offset < following.base_offset):
            yield directory / file_name(offset, Kind.SNAPSHOT)


# --- publishing


def _publish(base_offset: int, work: Path, target: Path, files: Files) -> None:
    """Renames everything into place, the log last."""
    files.sync_directory(work)
    log = file_name(base_offset, Kind.LOG)
    names = sorted(path.name for path in work.iterdir())
    names.sort(key=lambda name: name == log)
    for name in names:
        files.rename(work / name, target / name)
    files.sync_directory(target)
    files.sync_directory(target.parent)


def _remove(work: Path, files: Files) -> None:
    if not work.exists():
        return
    for path in work.iterdir():
        files.remove(path)
    work.rmdir()


def _peak_memory() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * RUSAGE_UNIT
