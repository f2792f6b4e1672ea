"""Converts segments from any format to another, on Spark: one task per segment.

The target is a directory that all executors see under one name, or a folder of an object store. It
may be read during the run, because its files are always complete. A second run converts the
remaining segments, and compares the others with the digests in their notes.

Not here: the work of a task (convert_segment.py), the notes (manifest.py)."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final
from uuid import uuid4

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own name for it

from downconvert.spark.jobs.jobs import JobError, Json, chosen, run_tasks, watched
from downconvert.spark.jobs.progress import Step, no_step
from downconvert.spark.logs.isolation import Committed, committed_of
from downconvert.spark.logs.segment_files import PartitionLog, are_mounted
from downconvert.spark.logs.staging import trimmed
from downconvert.spark.logs.stored_trees import OF_PARTITION
from downconvert.spark.logs.trees import is_elsewhere
from downconvert.spark.stores.parallel import in_parallel
from downconvert.spark.stores.patterns import expanded
from downconvert.spark.stores.stores import below, is_stored, pinned, shown
from downconvert.storage.disk.files import DISK, replace_file
from downconvert.storage.names import CLEAN_SHUTDOWN, LOCK, LOG_STARTS, META_PROPERTIES
from records import RecordsError
from records.formats import V2
from records.paths import named

from .convert_segment import Task, convert_segment, failed, remove_leftovers
from .convert_stored import convert_stored
from .manifest import MANIFEST, NOTE_SUFFIX, gather, read_manifest, read_note_at
from .outdated import check_current
from .rewrite import Settings
from .stored_manifest import (
    begin,
    gather_stored,
    read_stored_note,
    stored_entries,
    stored_notes,
)

RESULT: Final = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("segment", pa.int64()),
        ("status", pa.string()),
        ("error", pa.string()),
        ("source_size", pa.int64()),
        ("target_size", pa.int64()),
        ("cpu_seconds", pa.float64()),
        ("peak_memory", pa.int64()),
    ]
)
ENTRY_DDL: Final = (
    "topic string, partition int, segment long, status string, settings string, source string, "
    "source_size long, source_modified long, source_digest string, target string, "
    "target_size long, target_digest string, batches_in long, batches_out long, records long, "
    "records_converted long, control_batches long, aborted_batches long, verified string, "
    "error string, cpu_seconds double, peak_memory long"
)
ERRORS_MAX: Final = 5  # in the summary of a run; the manifest has all


@dataclass(frozen=True, slots=True)
class Summary:
    """The figures of one run. Sizes are bytes."""

    converted: int
    kept: int
    failed: int
    source_size: int
    target_size: int
    cpu_seconds: float
    peak_memory: int  # of the largest task's process
    errors: tuple[str, ...]  # some of them


def convert(
    session: SparkSession,
    paths: Sequence[str],
    target: str,
    settings: Settings,
    *,
    topics: Sequence[str] = (),
) -> DataFrame:
    """Converts the segments below `paths`; returns the entries of the manifest
    (`manifest.Entry`)."""
    run(session, paths, target, settings, topics=topics)
    return manifest(session, target)


def manifest(session: SparkSession, target: str) -> DataFrame:
    """The manifest of a directory."""
    if is_stored(target):
        rows = [asdict(entry) for entry in stored_entries(pinned(target))]
        return session.createDataFrame(rows, ENTRY_DDL)
    path = (Path(target) / MANIFEST).resolve()
    return session.read.schema(ENTRY_DDL).json(f"file://{path}")  # Hadoop does not unquote


def run(
    session: SparkSession,
    paths: Sequence[str],
    target: str,
    settings: Settings,
    *,
    topics: Sequence[str] = (),
    step: Step = no_step,
) -> Summary:
    """Converts the segments below `paths` that are not converted yet.

    JobError: there is nothing to convert, or the target is unsuitable. Segments that cannot be
    converted are counted, and noted in the manifest. The manifest is written even if the run
    fails."""
    if is_stored(target):
        return _run_to_store(session, paths, pinned(target), settings, topics, step)
    into = named(target).absolute()
    tasks = plan(paths, into, settings, topics)
    into.mkdir(parents=True, exist_ok=True)
    directories = sorted({Path(task.target) for task in tasks})
    for directory in directories:
        remove_leftovers(directory)
    work = partial(_work, uuid4().hex[:8])
    results = run_tasks(session, tasks, work, RESULT)
    try:
        with watched(session, "convert", step):
            summary = summary_of(results)
    finally:
        for directory in directories:
            remove_leftovers(directory)
        gather(into)
    if not summary.failed:
        _copy_directory_files(paths, into, settings)
    return summary


def _run_to_store(
    session: SparkSession,
    paths: Sequence[str],
    target: str,
    settings: Settings,
    topics: Sequence[str],
    step: Step,
) -> Summary:
    """As `run`, for a target in a store."""
    logs = chosen(paths, topics)
    for path in filter(is_stored, paths):
        if f"{shown(target)}/".startswith(f"{shown(pinned(path))}/"):
            raise JobError(f"{shown(target)} is inside of {path}: name a folder outside of it")
    try:
        begin(target, str(settings))
    except ValueError as error:
        raise JobError(f"{shown(target)} {error}") from error
    notes = stored_notes(target)
    check_current(logs, notes, lambda name: read_stored_note(notes[name]))
    tasks = _tasks(logs, lambda name: below(target, name), settings)
    results = run_tasks(session, tasks, partial(_work, uuid4().hex[:8]), RESULT)
    try:
        with watched(session, "convert", step):
            return summary_of(results)
    finally:
        gather_stored(target)


def plan(
    paths: Sequence[str], target: Path, settings: Settings, topics: Sequence[str]
) -> list[Task]:
    """A task for each segment. JobError: the target is among the sources, or has other content."""
    logs = chosen(paths, topics)
    for path in map(Path, _mounted(paths)):
        if target.resolve().is_relative_to(path.resolve()):
            raise JobError(f"{target} is inside of {path}: name a directory outside of it")
    _check(target, settings)
    folders = [target / str(log.topic_partition) for log in logs]
    notes = {str(p.relative_to(target)): p for f in folders for p in f.glob(f"*{NOTE_SUFFIX}")}
    check_current(logs, notes, lambda name: read_note_at(notes[name]))
    return _tasks(logs, lambda name: str(target / name), settings)


def _mounted(paths: Sequence[str]) -> list[str]:
    """The directories among the paths."""
    return expanded([path for path in paths if not is_elsewhere(path)])


def _tasks(
    logs: Sequence[PartitionLog], target: Callable[[str], str], settings: Settings
) -> list[Task]:
    tasks: list[Task] = []
    for log, committed in zip(logs, _committed(logs, settings), strict=True):
        into = target(str(log.topic_partition))
        for segment in log.segments:
            task = Task(
                topic=log.topic_partition.topic,
                partition=log.topic_partition.partition,
                base_offset=segment.base_offset,
                source=log.directory if segment.blobs else str(Path(log.directory).absolute()),
                target=into,
                settings=settings,
            )
            if log.is_mounted and not is_stored(into):
                tasks.append(task)
                continue
            part = log if log.is_mounted else trimmed(log, [segment.base_offset])
            if segment is not log.segments[0]:  # the first one's task copies the partition's files
                sides = tuple(side for side in part.sides if side[0] not in OF_PARTITION)
                part = replace(part, sides=sides)
            if log.is_mounted:
                part = replace(part, segments=(segment,))
            task = replace(task, source_name=segment.path, log=part)
            if committed is not None:
                aborted = committed.between(segment.base_offset, segment.next_offset)
                task = replace(task, aborted=aborted)
            tasks.append(task)
    return tasks


def _committed(logs: Sequence[PartitionLog], settings: Settings) -> list[Committed | None]:
    """The committed part of each log. None: its task finds the aborted records.

    A task fetches one segment of a log in a store. Without transaction indexes, the marker of an
    aborted transaction may be in another segment."""
    if settings.to_magic == V2 or settings.isolation != "read_committed":
        return [None] * len(logs)
    return in_parallel(
        lambda log: None if log.is_mounted else committed_of(log),
        logs,
        is_mounted=are_mounted(logs),
    )


def _check(target: Path, settings: Settings) -> None:
    if not target.exists() or not any(target.iterdir()):
        return
    if not (target / MANIFEST).exists():
        if any(target.glob("*/*.converted.json")):  # notes of an unfinished run
            return
        raise JobError(f"{target} holds other things: name a new directory, or an earlier target")
    known = next((entry.settings for entry in read_manifest(target)), str(settings))
    if known != str(settings):
        raise JobError(
            f"{target} holds a conversion to {known}, and this is one to {settings}: name another "
            "directory"
        )


def _work(run_id: str, task: Task) -> Iterable[Json]:
    """The work of a worker for a task."""
    context = TaskContext.get()
    attempt = f"{run_id}-{context.taskAttemptId() if context else 0}"
    try:
        if task.log is None:
            entry = convert_segment(task, attempt=attempt)
        else:
            entry = convert_stored(task, task.log, attempt=attempt)
    except (OSError, RecordsError) as error:  # the disk is full or missing
        entry = failed(task, f"{task.source}: {error}")
    yield {name: getattr(entry, name) for name in RESULT.names}


def summary_of(results: DataFrame) -> Summary:
    """The counts and sums of a run's results."""
    errors = F.when(results.status == "failed", results.error)
    counts = {
        status: F.count(F.when(results.status == status, 1)).alias(status)
        for status in ("converted", "kept", "failed")
    }
    found = results.agg(
        *counts.values(),
        F.sum("source_size").alias("source_size"),
        F.sum("target_size").alias("target_size"),
        F.sum("cpu_seconds").alias("cpu_seconds"),
        F.max("peak_memory").alias("peak_memory"),
        F.slice(F.sort_array(F.collect_set(errors)), 1, ERRORS_MAX).alias("errors"),
    ).first()
    assert found is not None
    return Summary(**(found.asDict() | {"errors": tuple(found["errors"])}))


def _copy_directory_files(paths: Sequence[str], target: Path, settings: Settings) -> None:
    """Copies the files that a broker keeps beside its partitions, if the source is one directory.

    The marker of a clean shutdown is not copied. A broker that starts on the result then recovers
    its logs, and finds the new ends of logs from which batches were left out."""
    directories = [Path(path) for path in _mounted(paths)]
    if len(directories) != 1 or len(paths) > 1 or not (directories[0] / META_PROPERTIES).exists():
        return
    for path in sorted(directories[0].iterdir()):
        is_wanted = settings.to_magic == V2 or path.name in (META_PROPERTIES, LOG_STARTS)
        if path.is_file() and is_wanted and path.name not in (LOCK, CLEAN_SHUTDOWN):
            replace_file(DISK, target / path.name, path.read_bytes())
