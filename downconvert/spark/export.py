"""Records as Parquet, in folders by topic and date, for SQL engines.

The layout is the one that Hive, Spark, Trino and Iceberg's `add_files` read: `topic=.../date=...`,
with the columns of Spark's Kafka source in the files. A run adds records that are not there yet,
and removes nothing: what retention has deleted from the logs stays. Runs are idempotent, also after
one that died at any moment.

Not here: reading records (source.py), what is known to be there (export_manifest.py)."""

import json
import warnings
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own name for it
from pyspark.sql.types import DateType, StructField, StructType

from downconvert.storage.metadata import topic_id_text
from downconvert.storage.names import TopicPartition
from downconvert.storage.open_files import OpenFiles
from downconvert.storage.segment import Segment
from downconvert.storage.tail import Tail

from .export_manifest import Exported, Notes, Range, named_below
from .export_stored import StoredNotes, archive, write_records
from .isolation import committed_of as what_is_committed
from .jobs import JobError, Step, chosen, no_step, watched
from .options import Options
from .replicas import topic_id_of
from .schemas import HEADERS, RECORD
from .segment_files import PartitionLog
from .source import FORMAT
from .staging import staged
from .stored_trees import THREADS
from .stores import is_stored, pinned, shown
from .trees import cluster_of

NO_TIMESTAMP_TYPE = -1
KEY = ("topic", "partition", "offset")
COLUMNS = StructType(
    [*RECORD.fields, StructField("headers", HEADERS), StructField("date", DateType())]
)


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
    """Adds the records below the paths to `target`; returns all that is there afterwards.

    `date` is of the record's timestamp, in UTC; null where it has none. `committed` leaves out what
    was aborted, `skip_damaged` what is damaged: otherwise damage ends the run, and what it has
    written is not added. One run at a time may write to a target. JobError: there is nothing below
    the paths, they are of another cluster or topic than what is there, or Spark fails."""
    logs = chosen(paths, topics)
    if is_stored(target):
        uri = pinned(target)
        return _to_store(
            session, logs, uri, committed=committed, skip_damaged=skip_damaged, step=step
        )
    notes = Notes(session, target)
    isolation = "read_committed" if committed else "read_uncommitted"
    there = notes.read(isolation)
    identity = _identity(logs, isolation)
    _check_same(there, identity, target)
    plan = plan_of(logs, there, committed=committed, skip_damaged=skip_damaged)
    if not plan.ranges:
        return _archive(session, target)
    found = records(session, paths, plan, committed=committed, skip_damaged=skip_damaged)
    before = named_below(_archive(session, target).inputFiles())
    doubtful = [uri for name, uri in before.items() if name not in there.files]
    if doubtful:
        known = session.read.schema(COLUMNS).option("basePath", target).parquet(*doubtful)
        found = found.join(known.select(*KEY), list(KEY), "left_anti")
    with watched(session, "export", found.rdd.getNumPartitions(), step):
        found.select(*COLUMNS.names).write.partitionBy("topic", "date").mode("append").parquet(
            target
        )
    archive = _archive(session, target)
    if plan.is_bounded:
        there.add(identity)
        there.add(Exported(isolation, ranges={name: [r] for name, r in plan.ranges.items()}))
        there.files |= named_below(archive.inputFiles()).keys() - before.keys()
        if doubtful:
            there.files |= _within(known, there)
        notes.write(there)
    return archive


def _to_store(
    session: SparkSession,
    logs: Sequence[PartitionLog],
    target: str,
    *,
    committed: bool,
    skip_damaged: bool,
    step: Step,
) -> DataFrame:
    """`export`, where the target is in a store. Of what is damaged nothing is looked at again."""
    isolation = "read_committed" if committed else "read_uncommitted"
    notes = StoredNotes(target)
    there = notes.read(isolation)
    identity = _identity(logs, isolation)
    _check_same(there, identity, shown(target))
    notes.remove_lost()
    plan = plan_of(logs, there, committed=committed, skip_damaged=skip_damaged)
    if plan.ranges:
        named = [log for log in logs if log.topic_partition in plan.ranges]
        starts = {name: start for name, (start, _) in plan.ranges.items()}
        given = _given(starts, committed=committed, skip_damaged=skip_damaged)
        if plan.is_bounded or skip_damaged:  # else what is damaged ends the run
            ends = {name: end for name, (_, end) in plan.ranges.items()}
            given["endingOffsets"] = _as_json(ends)
        options = Options.parse({"path": target, **given}, streaming=False)
        there.files |= write_records(session, named, options, target, step)
        there.add(identity)
        there.add(Exported(isolation, ranges={name: [r] for name, r in plan.ranges.items()}))
        notes.write(there)
    return archive(session, target, there.files)


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


def _archive(session: SparkSession, target: str) -> DataFrame:
    """What is in the target. Column types are given: a topic called 7 would be read as a
    number."""
    try:
        return session.read.schema(COLUMNS).parquet(target)
    except AnalysisException as error:
        if error.getCondition() != "PATH_NOT_FOUND":
            raise
        return session.createDataFrame([], COLUMNS)


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
