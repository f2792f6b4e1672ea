"""Reports missing offsets of logs, a row for each gap: which offsets, and why.

Tasks read headers and verify checksums, like a query of batches with PERMISSIVE. Records that a
later leader has truncated are also reported if a copy still has them, although no reader gets them.
The driver finds those in the copies. Offsets that compaction or retention has removed are no gap.

Not here: which offsets are missing (logs/completeness.py, read/entries.py), gaps at which a stream
waits (plan/gaps.py)."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from downconvert.spark.logs.completeness import State
from downconvert.spark.logs.segment_files import PartitionLog
from downconvert.spark.logs.splits import Split
from downconvert.spark.options.options import Mode, Options
from downconvert.spark.options.schemas import CORRUPT, arrow_schema
from downconvert.spark.plan.bounds import EVERYTHING
from downconvert.spark.plan.planner import plan_logs
from downconvert.spark.read.batches import read_batches

from .jobs import Json, chosen, run_tasks, watched
from .progress import Step, no_step

RESULT: Final = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("from", pa.int64()),  # null: not known
        ("to", pa.int64()),  # the offset after the last one; null: not known
        ("state", pa.string()),  # torn, damaged, missing or superseded
        ("why", pa.string()),
    ]
)
COLUMN: Final = "_corrupt"


@dataclass(frozen=True, slots=True)
class Task:
    """Splits to check, and gaps that are known already."""

    splits: tuple[Split, ...]
    options: Options
    known: tuple[Json, ...] = ()

    def __str__(self) -> str:
        if not self.splits:
            return "copies"
        file = self.splits[0].segment
        return f"{file.directory}, segment {file.base_offset}"


def gaps(
    session: SparkSession,
    paths: Sequence[str],
    *,
    topics: Sequence[str] = (),
    compacted: Sequence[str] = (),
    verify_crc: bool = True,
) -> DataFrame:
    """A row for each gap below the paths: the columns of RESULT. Each Spark action checks again.

    `compacted`: topics in which compaction removed the offsets that are missing between segments.
    Without `verify_crc` only headers are read. JobError: there is nothing to check."""
    tasks = plan_of(paths, topics=topics, compacted=compacted, verify_crc=verify_crc)
    return run_tasks(session, tasks, look, RESULT)


def run(frame: DataFrame, step: Step = no_step) -> list[Json]:
    """The rows of `gaps`, by partition and offset. Adjacent gaps of one state are joined."""
    with watched(frame.sparkSession, "gaps", step):
        return joined(row.asDict() for row in frame.collect())


def plan_of(
    paths: Sequence[str],
    *,
    topics: Sequence[str] = (),
    compacted: Sequence[str] = (),
    verify_crc: bool = True,
) -> list[Task]:
    """The tasks of `gaps`. JobError: there is nothing to check, or a named topic does not exist."""
    options = Options(
        paths=tuple(paths),
        level="batch",
        topics=tuple(topics),
        mode=Mode.PERMISSIVE,
        corrupt_column=COLUMN,
        verify_crc=verify_crc,
    )
    logs = chosen(paths, topics, compacted)
    tasks = [Task(splits, options) for splits in plan_logs(logs, options, EVERYTHING)]
    known = tuple(row for log in logs for row in _superseded(log))
    return [*tasks, Task((), options, known)] if known else tasks


def look(task: Task) -> Iterator[Json]:
    """The gaps of a task, in the order of the log."""
    yield from task.known
    schema = pa.schema([pa.field(COLUMN, pa.struct(list(arrow_schema(CORRUPT))))])
    for split in task.splits:
        for batch in read_batches(split, task.options, schema):
            for report in batch.column(0).drop_null().to_pylist():
                yield {
                    "topic": split.topic,
                    "partition": split.partition,
                    "from": report["startOffset"],
                    "to": report["endOffset"],
                    "state": report["state"],
                    "why": f"{report['segment']}: {report['reason']}",
                }


def _superseded(log: PartitionLog) -> Iterator[Json]:
    topic, partition = log.topic_partition
    for one in log.superseded:
        yield {
            "topic": topic,
            "partition": partition,
            "from": one.start,
            "to": one.end,
            "state": State.SUPERSEDED.value,
            "why": f"{one.directory} has them in leader epoch {one.epoch}, and a later leader has "
            "truncated them",
        }


def joined(rows: Iterable[Json]) -> list[Json]:
    """Rows by partition and offset. Adjacent gaps of one state are joined."""
    found: list[Json] = []
    for row in sorted(rows, key=_order):
        if found and _continues(found[-1], row):
            found[-1] = found[-1] | {"to": row["to"]}
        else:
            found.append(row)
    return found


def _order(row: Json) -> tuple[str, int, bool, int]:
    is_superseded = row["state"] == State.SUPERSEDED
    return row["topic"], row["partition"], is_superseded, -1 if row["from"] is None else row["from"]


def _continues(before: Json, row: Json) -> bool:
    same = all(before[name] == row[name] for name in ("topic", "partition", "state"))
    return same and before["to"] is not None and before["to"] == row["from"]


def absent_offsets(rows: Iterable[Json]) -> dict[str, int]:
    """The number of offsets that no copy has, by topic. Gaps of unknown size do not count."""
    found: dict[str, int] = {}
    for row in rows:
        if row["state"] != State.SUPERSEDED and None not in (row["from"], row["to"]):
            found[row["topic"]] = found.get(row["topic"], 0) + row["to"] - row["from"]
    return found
