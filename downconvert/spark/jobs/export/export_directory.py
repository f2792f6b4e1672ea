"""Adds records to a directory that all machines have mounted, for readers that treat every Parquet
file in it as data.

Not here: which offsets are new (export_plan.py), notes of the contents (export_manifest.py)."""

import re
import shutil
from collections.abc import Sequence
from datetime import MAXYEAR, MINYEAR
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit
from uuid import uuid4

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own name for it

from downconvert.spark.jobs.jobs import JobError, watched
from downconvert.spark.jobs.progress import Step
from downconvert.spark.logs.segment_files import PartitionLog
from downconvert.spark.options.schemas import EXPORTED
from downconvert.spark.source import FORMAT
from downconvert.storage.disk.files import DISK, replace_file
from downconvert.storage.names import TopicPartition
from records.paths import named

from .export_manifest import Exported, Notes, named_below
from .export_noted import add, epochs_of, known_of
from .export_plan import (
    Plan,
    Settings,
    all_facts,
    as_json,
    bounds_of,
    given_options,
    identity_of,
    plan_of,
)
from .export_result import ADDED, Result, counts, counts_of
from .export_stored import Written, without_offsets

SCHEME: Final = re.compile(r"([a-zA-Z][a-zA-Z0-9+.-]+):/")
NO_TIMESTAMP_TYPE: Final = -1
KEY: Final = ("topic", "partition", "offset")
STAGING: Final = "_run-"  # readers of a directory skip names with this prefix


def directory_of(target: str) -> Path:
    """The directory of a target that is not in a store: a path, or a URI of `file`.

    JobError: it has another scheme, and no host. ValueError: it is empty."""
    found = SCHEME.match(target)
    if found is None:
        return named(target).absolute()
    if found[1].lower() != "file":
        raise JobError(
            f"{target}: name it by a path that all machines have mounted, or as {found[1]}://..."
        )
    return Path(unquote(urlsplit(target).path)).absolute()


def add_to(
    session: SparkSession,
    paths: Sequence[str],
    logs: Sequence[PartitionLog],
    directory: Path,
    settings: Settings,
    step: Step,
) -> Result:
    """Adds the records of `paths` that the directory lacks.

    Files appear there one by one, after all of them are written. The next run reads files without a
    note, and adds only what they lack. JobError."""
    notes = DirectoryNotes(directory)
    there = notes.read(settings.isolation)
    doubtful = [name for name in _files(directory) if name not in there.files]
    if doubtful:
        added = _add_beside(session, paths, logs, notes, doubtful, settings, step)
        return Result(added, archive_of(session, directory))
    try:
        _, written = add(
            session,
            logs,
            notes,
            str(notes.staging),
            name=str(directory),
            settings=settings,
            step=step,
        )
    finally:
        notes.close()
    return Result(counts(session, written), archive_of(session, directory))


class DirectoryNotes:
    """The notes of a directory. New files are written to a staging folder, and moved to their
    places when all files of a step are complete."""

    def __init__(self, directory: Path) -> None:
        self._notes = Notes(directory)
        self.directory = directory
        self.staging = directory / f"{STAGING}{uuid4().hex}"

    def read(self, isolation: str, _partitions: Sequence[TopicPartition] = ()) -> Exported:
        """As `Notes.read`."""
        return self._notes.read(isolation)

    def remove_lost(self) -> None:
        """Removes the unmoved files of killed runs."""
        for lost in self.directory.glob(f"{STAGING}*"):
            shutil.rmtree(lost, ignore_errors=True)

    def remove(self, name: TopicPartition, start: int, end: int) -> None:
        """Rewrites each file that has such records without them, in place."""
        for file in _files(self.directory):
            if file.startswith(f"topic={name.topic}/"):
                path = self.directory / file
                left = without_offsets(path.read_bytes(), name.partition, start, end)
                if left is not None:
                    replace_file(DISK, path, left)

    def write(self, exported: Exported, files: Sequence[Written]) -> None:
        """Moves the files to their places, and writes the note."""
        for one in files:
            target = self.directory / one.file
            target.parent.mkdir(parents=True, exist_ok=True)
            (self.staging / one.file).replace(target)
        self._notes.write(exported)

    def close(self) -> None:
        shutil.rmtree(self.staging, ignore_errors=True)


def _files(directory: Path) -> list[str]:
    """The files that readers of the directory see, by their names below it."""
    found = (path for path in directory.glob("topic=*/**/*") if path.is_file())
    names = (path.relative_to(directory) for path in found)
    return sorted(
        str(name) for name in names if not any(part.startswith(("_", ".")) for part in name.parts)
    )


def _add_beside(
    session: SparkSession,
    paths: Sequence[str],
    logs: Sequence[PartitionLog],
    notes: DirectoryNotes,
    doubtful: Sequence[str],
    settings: Settings,
    step: Step,
) -> DataFrame:
    """Adds records to a directory that has files without a note: their offsets are read, and not
    added again. Returns how many records were added."""
    directory = notes.directory
    facts = all_facts(logs)
    there = known_of(logs, facts, notes, str(directory), settings)
    plan = plan_of(logs, bounds_of(logs, settings), there)
    if not plan.ranges:
        return session.createDataFrame([], ADDED)
    before = set(_files(directory))
    found = _without(records(session, paths, plan, settings), plan, there)
    uri = uri_of(directory)
    uris = [uri_of(directory / name) for name in doubtful]
    known = session.read.schema(EXPORTED).option("basePath", uri).parquet(*uris)
    found = found.join(known.select(*KEY), list(KEY), "left_anti")
    with watched(session, "export", step, skips=True):
        rows = found.select(*EXPORTED.names).write.partitionBy("topic", "date")
        rows.mode("append").parquet(uri)
    new = [name for name in _files(directory) if name not in before]
    if plan.is_bounded and not settings.skip_damaged:
        there.add(identity_of(logs, facts, settings.isolation))
        ranges = {name: [one] for name, one in plan.ranges.items()}
        there.add(Exported(settings.isolation, ranges=ranges))
        there.add(Exported(settings.isolation, epochs=epochs_of(logs, facts, there)))
        there.files |= {*new, *_within(known, there)}
        notes.write(there, ())
    return counts_of(session, uri, [uri_of(directory / name) for name in new])


def records(
    session: SparkSession, paths: Sequence[str], plan: Plan, settings: Settings
) -> DataFrame:
    """The records to export. There is no shuffle: a task writes what it reads."""
    starts = {name: start for name, (start, _) in plan.ranges.items()} | dict(plan.done)
    given = given_options(starts, settings)
    given["mode"] = "DROPMALFORMED" if settings.skip_damaged else "FAILFAST"
    reader = (
        session.read.format(FORMAT)
        .options(**given)
        .option("topics", ",".join(sorted({name.topic for name in plan.ranges})))
    )
    ends = dict(plan.done)
    if plan.is_bounded:
        ends |= {name: end for name, (_, end) in plan.ranges.items()}
    if ends:
        reader = reader.option("endingOffsets", as_json(ends))
    frame = reader.load(list(paths))
    has_time = F.col("timestampType") != NO_TIMESTAMP_TYPE
    has_day = F.year("timestamp").between(MINYEAR, MAXYEAR)
    return frame.withColumn("date", F.when(has_time & has_day, F.to_date("timestamp")))


def _without(found: DataFrame, plan: Plan, there: Exported) -> DataFrame:
    """Leaves out records that the target has from another copy of the logs, after a gap."""
    for name, (start, end) in plan.ranges.items():
        for first, after in there.ranges.get(name, ()):
            if start < first < end:
                of_log = (F.col("topic") == name.topic) & (F.col("partition") == name.partition)
                found = found.where(~(of_log & F.col("offset").between(first, after - 1)))
    return found


def _within(known: DataFrame, there: Exported) -> set[str]:
    """The files whose records are all within the offsets of a note."""
    rows = known.select(F.input_file_name().alias("file"), *KEY).groupBy("file", *KEY[:2])
    found: set[str] = set()
    outside: set[str] = set()
    for row in rows.agg(F.min("offset").alias("low"), F.max("offset").alias("high")).collect():
        names = named_below([row.file]).keys()
        found |= names
        if there.end_from(TopicPartition(row.topic, row.partition), row.low) <= row.high:
            outside |= names
    return found - outside


def archive_of(session: SparkSession, directory: Path) -> DataFrame:
    """The records of the target. Column types are given: otherwise a topic called 7 would be read
    as a number."""
    if not directory.exists():
        return session.createDataFrame([], EXPORTED)
    return session.read.schema(EXPORTED).parquet(uri_of(directory))


def uri_of(directory: Path) -> str:
    """A directory as a URI for Hadoop, which does not unquote."""
    return f"file://{directory}"
