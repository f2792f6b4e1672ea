"""Records as Parquet, in folders by topic and date, or as tables, for SQL engines.

The layout is the one that Hive, Spark, Trino and Iceberg's `add_files` read: `topic=.../date=...`,
with the columns of Spark's Kafka source in the files. A run adds records that are not there yet,
and removes nothing: what retention has deleted from the logs stays. Runs are idempotent, also after
one that died at any moment.

Not here: reading records (source.py), what is known to be there (export_manifest.py; of tables,
export_delta.py and export_iceberg.py), writing where nothing is renamed (export_stored.py)."""

import json
import re
import warnings
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import date
from functools import partial
from pathlib import Path
from typing import Final, Protocol
from urllib.parse import unquote, urlsplit

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own name for it

from downconvert.storage.metadata import topic_id_text
from downconvert.storage.names import TopicPartition
from downconvert.storage.open_files import OpenFiles
from downconvert.storage.segment import Segment
from downconvert.storage.tail import Tail

from .export_manifest import Exported, Notes, Range, named_below
from .export_stored import StoredNotes, Written, archive, write_records
from .isolation import committed_of as what_is_committed
from .jobs import JobError, chosen, watched
from .options import Options
from .progress import Step, no_step
from .replicas import topic_id_of
from .schemas import EXPORTED
from .segment_files import PartitionLog
from .source import FORMAT
from .staging import staged
from .stored_trees import THREADS
from .stores import is_stored, pinned, shown
from .trees import cluster_of

SCHEME: Final = re.compile(r"([a-zA-Z][a-zA-Z0-9+.-]+):/")
NO_TIMESTAMP_TYPE: Final = -1
ADDED: Final = "topic string, date date, records bigint"
KEY = ("topic", "partition", "offset")


class Notebook(Protocol):
    """Where it is kept what a target has. `write` is what makes the files of a run count: all of
    them, or none."""

    def read(self, isolation: str, partitions: Sequence[TopicPartition], /) -> Exported:
        """What is there, at least of these partitions."""

    def remove_lost(self) -> None:
        """Removes what runs that died have left, where nothing else does."""

    def write(self, exported: Exported, files: Sequence[Written], /) -> None:
        """Notes all that is there from now on, with the files of this run."""


class Table(Notebook, Protocol):
    """A table in an open format."""

    name: str
    location: str  # where its files go: a URI, or a directory
    is_complete: bool  # whether files have all columns


@dataclass(frozen=True, slots=True)
class Result:
    """`added`: how many records were added by this run, with the columns of ADDED. `archive`: all
    that is there; None: a table, which its own readers read."""

    added: DataFrame
    archive: DataFrame | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """What a run adds. `ranges`: offsets of the partitions that have new records. `is_bounded` is
    False where the end of a log is damaged, or damage is left out: then no note is written, and the
    next run looks at the files again."""

    ranges: Mapping[TopicPartition, Range]
    done: Mapping[TopicPartition, int]  # ends of the partitions without new records
    is_bounded: bool = True


def export(
    session: SparkSession,
    paths: Sequence[str],
    target: str,
    *,
    topics: Sequence[str] = (),
    committed: bool = False,
    skip_damaged: bool = False,
    step: Step = no_step,
) -> DataFrame:
    """Adds the records below the paths to `target`, as `run` does; returns all that is there
    afterwards."""
    result = run(
        session,
        paths,
        target,
        topics=topics,
        committed=committed,
        skip_damaged=skip_damaged,
        step=step,
    )
    assert result.archive is not None
    return result.archive


def run(
    session: SparkSession,
    paths: Sequence[str],
    target: str | Table,
    *,
    topics: Sequence[str] = (),
    committed: bool = False,
    skip_damaged: bool = False,
    step: Step = no_step,
) -> Result:
    """Adds the records below the paths to `target`: a directory, a URI, or a table.

    `date` is of the record's timestamp, in UTC; null where it has none. `committed` leaves out what
    was aborted, `skip_damaged` what is damaged: otherwise damage ends the run, and what it has
    written is not added. One run at a time may write to a target. JobError: there is nothing below
    the paths, they are of another cluster or topic than what is there, or Spark fails."""
    logs = chosen(paths, topics)
    if isinstance(target, str) and not is_stored(target):
        directory = directory_of(target)
        return _to_files(
            session,
            paths,
            logs,
            directory,
            committed=committed,
            skip_damaged=skip_damaged,
            step=step,
        )
    if isinstance(target, str):
        uri = pinned(target)
        there, written = _add(
            session,
            logs,
            StoredNotes(uri),
            uri,
            committed=committed,
            skip_damaged=skip_damaged,
            step=step,
        )
        return Result(_counts(session, written), archive(session, uri, there.files))
    _, written = _add(
        session,
        logs,
        target,
        target.location,
        name=target.name,
        is_complete=target.is_complete,
        committed=committed,
        skip_damaged=skip_damaged,
        step=step,
    )
    return Result(_counts(session, written))


def _to_files(
    session: SparkSession,
    paths: Sequence[str],
    logs: Sequence[PartitionLog],
    directory: Path,
    *,
    committed: bool,
    skip_damaged: bool,
    step: Step,
) -> Result:
    """`run`, where the target is a directory that all machines have mounted."""
    uri = uri_of(directory)
    notes = Notes(directory)
    isolation = "read_committed" if committed else "read_uncommitted"
    there = notes.read(isolation)
    identity = _identity(logs, isolation)
    _check_same(there, identity, str(directory))
    plan = plan_of(logs, there, committed=committed, skip_damaged=skip_damaged)
    if not plan.ranges:
        return Result(session.createDataFrame([], ADDED), _archive(session, directory))
    found = records(session, paths, plan, committed=committed, skip_damaged=skip_damaged)
    found = _without(found, plan, there)
    before = named_below(_archive(session, directory).inputFiles())
    doubtful = [uri for name, uri in before.items() if name not in there.files]
    if doubtful:
        known = session.read.schema(EXPORTED).option("basePath", uri).parquet(*doubtful)
        found = found.join(known.select(*KEY), list(KEY), "left_anti")
    with watched(session, "export", step):
        found.select(*EXPORTED.names).write.partitionBy("topic", "date").mode("append").parquet(uri)
    archive = _archive(session, directory)
    after = named_below(archive.inputFiles())
    new = [uri for name, uri in after.items() if name not in before]
    if plan.is_bounded:
        there.add(identity)
        there.add(Exported(isolation, ranges={name: [r] for name, r in plan.ranges.items()}))
        there.files |= after.keys() - before.keys()
        if doubtful:
            there.files |= _within(known, there)
        notes.write(there)
    return Result(_counts_of(session, uri, new), archive)


def _without(found: DataFrame, plan: Plan, there: Exported) -> DataFrame:
    """Leaves out what is there already after offsets that are not: of another copy of the logs."""
    for name, (start, end) in plan.ranges.items():
        for first, after in there.ranges.get(name, ()):
            if start < first < end:
                of_log = (F.col("topic") == name.topic) & (F.col("partition") == name.partition)
                found = found.where(~(of_log & F.col("offset").between(first, after - 1)))
    return found


def _counts_of(session: SparkSession, target: str, files: Sequence[str]) -> DataFrame:
    if not files:
        return session.createDataFrame([], ADDED)
    frame = session.read.schema(EXPORTED).option("basePath", target).parquet(*files)
    return frame.groupBy("topic", "date").agg(F.count("*").alias("records"))


def _counts(session: SparkSession, written: Sequence[Written]) -> DataFrame:
    found: dict[tuple[str, date | None], int] = {}
    for one in written:
        found[one.topic, one.day] = found.get((one.topic, one.day), 0) + one.records
    return session.createDataFrame([(*key, count) for key, count in found.items()], ADDED)


def directory_of(target: str) -> Path:
    """The directory of a target that is not in a store: a path, or a URI of `file`.

    JobError: it has another scheme, without a host."""
    found = SCHEME.match(target)
    if found is None:
        return Path(target).absolute()
    if found[1].lower() != "file":
        raise JobError(
            f"{target}: name it by a path that all machines have mounted, or as {found[1]}://..."
        )
    return Path(unquote(urlsplit(target).path)).absolute()


def _add(
    session: SparkSession,
    logs: Sequence[PartitionLog],
    notes: Notebook,
    target: str,
    *,
    name: str | None = None,
    is_complete: bool = False,
    committed: bool,
    skip_damaged: bool,
    step: Step,
) -> tuple[Exported, list[Written]]:
    """Adds files to a store or a table; returns all that is there, and the files of this run.

    Of what is damaged nothing is looked at again. `name`: what the target is called in errors."""
    isolation = "read_committed" if committed else "read_uncommitted"
    there = notes.read(isolation, [log.topic_partition for log in logs])
    identity = _identity(logs, isolation)
    _check_same(there, identity, name or shown(target))
    notes.remove_lost()
    added: list[Written] = []
    while True:
        plan = plan_of(logs, there, committed=committed, skip_damaged=skip_damaged)
        # Up to what is there already, of another copy of the logs; then on after that.
        ends = {
            log: min(end, there.start_after(log, start))
            for log, (start, end) in plan.ranges.items()
        }
        if not plan.ranges:
            return there, added
        named = [log for log in logs if log.topic_partition in plan.ranges]
        starts = {name: start for name, (start, _) in plan.ranges.items()}
        given = _given(starts, committed=committed, skip_damaged=skip_damaged)
        if plan.is_bounded or skip_damaged:  # else what is damaged ends the run
            given["endingOffsets"] = _as_json(ends)
        options = Options.parse({"path": target, **given}, streaming=False)
        written = write_records(session, named, options, target, step, is_complete=is_complete)
        there.files |= {one.file for one in written}
        there.add(identity)
        ranges = {log: [(starts[log], end)] for log, end in ends.items()}
        there.add(Exported(isolation, ranges=ranges))
        notes.write(there, written)
        added += written
        if all(end >= plan.ranges[log][1] for log, end in ends.items()):
            return there, added


def _given(
    starts: Mapping[TopicPartition, int], *, committed: bool, skip_damaged: bool
) -> dict[str, str]:
    """The options with which records are read."""
    return {
        "includeHeaders": "true",
        "startingOffsets": _as_json(starts),
        "isolation": "read_committed" if committed else "read_uncommitted",
        "mode": "DROPMALFORMED" if skip_damaged else "FAILFAST",
    }


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


def plan_of(
    logs: Sequence[PartitionLog], there: Exported, *, committed: bool, skip_damaged: bool
) -> Plan:
    """What the logs have now and the archive does not."""
    ranges, done = {}, {}
    is_bounded = not skip_damaged
    threads = 1 if all(log.is_mounted for log in logs) else THREADS
    with ThreadPoolExecutor(threads) as pool:
        ends = list(pool.map(partial(end_of, committed=committed), logs))
    for log, (end, is_sound) in zip(logs, ends, strict=True):
        name = log.topic_partition
        start = there.end_from(name, log.start_offset)
        before = there.end_of(name)
        if before is not None and start > before:
            _warn(f"{name}: offsets {before} up to {start} were deleted before they were exported")
        if before is not None and end < before:
            _warn(f"{name} ends at {end} and was exported up to {before}: it was truncated since")
        if start < end or not is_sound:
            ranges[name] = start, max(start, end)
            is_bounded = is_bounded and is_sound
        else:
            done[name] = start
    return Plan(ranges, done, is_bounded)


def end_of(log: PartitionLog, *, committed: bool) -> tuple[int, bool]:
    """The offset after the last record (or the last committed one), and whether the log ends there
    without damage."""
    if not log.segments:
        return log.start_offset, True
    last = log.segments[-1]
    with staged(log, [last.base_offset], tail=True) as directory:
        segment = Segment(directory, last.base_offset, OpenFiles(), last.state)
        try:
            tail = Tail(segment)
            tail.advance()
        finally:
            segment.release()
    end = max(log.start_offset, tail.next_offset)
    if committed:
        end = min(end, what_is_committed(log).end)
    return end, tail.damage is None


def records(
    session: SparkSession, paths: Sequence[str], plan: Plan, *, committed: bool, skip_damaged: bool
) -> DataFrame:
    """The records to export. No shuffle: a task writes what it reads."""
    starts = {name: start for name, (start, _) in plan.ranges.items()} | dict(plan.done)
    given = _given(starts, committed=committed, skip_damaged=skip_damaged)
    reader = (
        session.read.format(FORMAT)
        .options(**given)
        .option("topics", ",".join(sorted({name.topic for name in plan.ranges})))
    )
    ends = dict(plan.done)
    if plan.is_bounded:
        ends |= {name: end for name, (_, end) in plan.ranges.items()}
    if ends:
        reader = reader.option("endingOffsets", _as_json(ends))
    frame = reader.load(list(paths))
    has_time = F.col("timestampType") != NO_TIMESTAMP_TYPE
    return frame.withColumn("date", F.when(has_time, F.to_date("timestamp")))


def _archive(session: SparkSession, directory: Path) -> DataFrame:
    """What is in the target. Column types are given: a topic called 7 would be read as a
    number."""
    if not directory.exists():
        return session.createDataFrame([], EXPORTED)
    return session.read.schema(EXPORTED).parquet(uri_of(directory))


def uri_of(directory: Path) -> str:
    """A directory as Hadoop takes it: nothing is quoted."""
    return f"file://{directory}"


def _identity(logs: Sequence[PartitionLog], isolation: str) -> Exported:
    """Which cluster and topics the logs are of."""
    identity = Exported(isolation)
    for log in logs:
        identity.cluster_id = identity.cluster_id or cluster_of(str(Path(log.noted).parent))
        text = log.topic_id
        if text is None:
            with staged(replace(log, segments=()), ()) as directory:
                topic_id = topic_id_of(str(directory))
                text = None if topic_id is None else topic_id_text(topic_id)
        if text is not None:
            identity.topic_ids[log.topic_partition.topic] = text
    return identity


def _check_same(there: Exported, identity: Exported, target: str) -> None:
    """The same offset in another cluster, or in a topic made anew, is another record."""
    if there.cluster_id and identity.cluster_id and there.cluster_id != identity.cluster_id:
        raise JobError(
            f"{target} holds records of the cluster {there.cluster_id}, and these logs are of "
            f"{identity.cluster_id}: name another directory"
        )
    for topic, topic_id in sorted(identity.topic_ids.items()):
        if there.topic_ids.get(topic, topic_id) != topic_id:
            raise JobError(
                f"{topic} was deleted and made anew since {target} was written, and counts its "
                "offsets from 0 again: name another directory"
            )


def _as_json(offsets: Mapping[TopicPartition, int]) -> str:
    found: dict[str, dict[str, int]] = {}
    for (topic, partition), offset in offsets.items():
        found.setdefault(topic, {})[str(partition)] = offset
    return json.dumps(found)


def _warn(what: str) -> None:
    warnings.warn(what, RuntimeWarning, stacklevel=3)
