"""Adds records to a directory that all machines have mounted, for readers that take every Parquet
file there for a part of it.

Not here: which offsets are new (export_plan.py), what is known to be there (export_manifest.py)."""

import re
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit
from uuid import uuid4

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own name for it

from downconvert.storage.names import TopicPartition
from records.paths import named

from .export_manifest import Exported, Notes, named_below
from .export_plan import Plan, as_json, check_same, given_options, identity_of, plan_of
from .export_result import ADDED, Result, counts, counts_of
from .export_stored import Written, write_records
from .jobs import JobError, watched
from .options import Options
from .progress import Step
from .schemas import EXPORTED
from .segment_files import PartitionLog
from .source import FORMAT

SCHEME: Final = re.compile(r"([a-zA-Z][a-zA-Z0-9+.-]+):/")
NO_TIMESTAMP_TYPE: Final = -1
KEY: Final = ("topic", "partition", "offset")
STAGING: Final = "_run-"  # readers of a directory pass over names that begin so


def directory_of(target: str) -> Path:
    """The directory of a target that is not in a store: a path, or a URI of `file`.

    JobError: it has another scheme, without a host. ValueError: it is empty."""
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
    *,
    committed: bool,
    skip_damaged: bool,
    step: Step,
) -> Result:
    """Adds the records that `paths` have and `directory` has not.

    Files appear there when all of them are written, one by one: those that no note names are read
    by the next run, which adds what they lack. JobError."""
    notes = Notes(directory)
    isolation = "read_committed" if committed else "read_uncommitted"
    there = notes.read(isolation)
    identity = identity_of(logs, isolation)
    check_same(there, identity, str(directory))
    plan = plan_of(logs, there, committed=committed, skip_damaged=skip_damaged)
    _remove_lost(directory)
    if not plan.ranges:
        return Result(session.createDataFrame([], ADDED), archive_of(session, directory))
    before = named_below(archive_of(session, directory).inputFiles())
    doubtful = [uri for name, uri in before.items() if name not in there.files]
    is_apart = all(
        end <= there.start_after(name, start) for name, (start, end) in plan.ranges.items()
    )
    if plan.is_bounded and is_apart and not doubtful:
        written = _written(session, logs, directory, plan, committed=committed, step=step)
        new = {one.file for one in written}
        added = counts(session, written)
    else:
        found = records(session, paths, plan, committed=committed, skip_damaged=skip_damaged)
        found = _without(found, plan, there)
        uri = uri_of(directory)
        if doubtful:
            known = session.read.schema(EXPORTED).option("basePath", uri).parquet(*doubtful)
            found = found.join(known.select(*KEY), list(KEY), "left_anti")
        with watched(session, "export", step, skips=True):
            rows = found.select(*EXPORTED.names).write.partitionBy("topic", "date")
            rows.mode("append").parquet(uri)
        after = named_below(archive_of(session, directory).inputFiles())
        new = after.keys() - before.keys()
        added = counts_of(session, uri, [after[name] for name in sorted(new)])
    if plan.is_bounded:
        there.add(identity)
        there.add(Exported(isolation, ranges={name: [r] for name, r in plan.ranges.items()}))
        there.files |= new
        if doubtful:
            there.files |= _within(known, there)
        notes.write(there)
    return Result(added, archive_of(session, directory))


def _written(
    session: SparkSession,
    logs: Sequence[PartitionLog],
    directory: Path,
    plan: Plan,
    *,
    committed: bool,
    step: Step,
) -> list[Written]:
    """Writes the offsets of a plan without Spark's rows between reader and writer, and moves the
    files to their places when all are whole."""
    starts = {name: start for name, (start, _) in plan.ranges.items()}
    given = given_options(starts, committed=committed, skip_damaged=False)
    given["endingOffsets"] = as_json({name: end for name, (_, end) in plan.ranges.items()})
    options = Options.parse({"path": str(directory), **given}, streaming=False)
    named = [log for log in logs if log.topic_partition in plan.ranges]
    staging = directory / f"{STAGING}{uuid4().hex}"
    try:
        written = write_records(session, named, options, str(staging), step)
        for one in written:
            target = directory / one.file
            target.parent.mkdir(parents=True, exist_ok=True)
            (staging / one.file).replace(target)
    finally:
        shutil.rmtree(staging, ignore_errors=True)
    return written


def _remove_lost(directory: Path) -> None:
    """Removes the files of runs that died before they moved them."""
    for lost in directory.glob(f"{STAGING}*"):
        shutil.rmtree(lost, ignore_errors=True)


def records(
    session: SparkSession, paths: Sequence[str], plan: Plan, *, committed: bool, skip_damaged: bool
) -> DataFrame:
    """The records to export. No shuffle: a task writes what it reads."""
    starts = {name: start for name, (start, _) in plan.ranges.items()} | dict(plan.done)
    given = given_options(starts, committed=committed, skip_damaged=skip_damaged)
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
    return frame.withColumn("date", F.when(has_time, F.to_date("timestamp")))


def _without(found: DataFrame, plan: Plan, there: Exported) -> DataFrame:
    """Leaves out what is there already after offsets that are not: of another copy of the logs."""
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
    """What is in the target. Column types are given: a topic called 7 would be read as a
    number."""
    if not directory.exists():
        return session.createDataFrame([], EXPORTED)
    return session.read.schema(EXPORTED).parquet(uri_of(directory))


def uri_of(directory: Path) -> str:
    """A directory as Hadoop takes it: nothing is quoted."""
    return f"file://{directory}"
