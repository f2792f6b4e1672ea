"""Audits a cluster's logs on Spark: formats, codecs, damage, and the costs of old clients.

Tasks read the segments. They return a row for each partition, format and codec.

Not here: reading a segment (audit_segment.py), results per topic (audit_summary.py)."""

from collections.abc import Iterator, Sequence
from dataclasses import fields
from typing import Final

import pyarrow as pa
from pyspark.sql import Column, DataFrame, Row, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812 - Spark's own name for it

from downconvert.spark.jobs import gap_report
from downconvert.spark.jobs.jobs import chosen, run_tasks, watched
from downconvert.spark.jobs.progress import Step, no_step
from downconvert.spark.logs.segment_files import PartitionLog
from downconvert.spark.logs.staging import trimmed
from records.units import MiB

from .audit_segment import STRETCHES, Share, Task, audit_segments

TASK_SIZE: Final = (
    256 * MiB
)  # a task costs 0.1 s by itself, so small segments of a partition share a task
SAMPLED_SIZE: Final = 32 * MiB  # the same limit if tasks convert all of their segments
DAMAGES_MAX: Final = 5  # per partition, in the report

# The counts and sizes of a share. Without a batch, all of them are 0.
SUMS: Final = tuple(field.name for field in fields(Share) if field.default == 0)
COST: Final = pa.struct(
    [
        ("cpu_seconds", pa.float64()),
        ("bytes_out", pa.int64()),
        ("buffers", pa.int64()),
        ("temporary", pa.int64()),
    ]
)
RESULT: Final = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("segment", pa.int64()),
        ("magic", pa.int32()),
        ("codec", pa.string()),
        *((name, pa.int64()) for name in SUMS),
        ("first_offset", pa.int64()),
        ("next_offset", pa.int64()),
        ("damages", pa.list_(pa.string())),
        ("oldest", pa.int64()),
        ("newest", pa.int64()),
        ("v1", COST),
        ("v0", COST),
    ]
)


def audit(
    session: SparkSession,
    paths: Sequence[str],
    *,
    topics: Sequence[str] = (),
    everything: bool = False,
    verify_crc: bool = True,
) -> DataFrame:
    """A row for each topic, partition, format and codec below the paths: the columns of `Share`
    (audit_segment.py), summed over segments. A partition without batches has one row, without
    magic.

    `everything`: all records are read and converted, not a sample. `verify_crc`: the checksums of
    all batches are verified, not only those of the sample. Each Spark action runs the audit
    again."""
    tasks = plan(paths, topics, everything, verify_crc)
    return added_up(run_tasks(session, tasks, audit_segments, RESULT))


def run(frame: DataFrame, step: Step = no_step) -> list[Row]:
    """The rows of `audit`: a few for each partition."""
    with watched(frame.sparkSession, "audit", step):
        return frame.collect()


def absent(
    session: SparkSession,
    paths: Sequence[str],
    *,
    topics: Sequence[str] = (),
    step: Step = no_step,
) -> dict[str, int]:
    """The number of offsets that no copy has, by topic, according to the headers."""
    gaps = gap_report.gaps(session, paths, topics=topics, verify_crc=False)
    return gap_report.absent_offsets(gap_report.run(gaps, step))


def plan(
    paths: Sequence[str], topics: Sequence[str], everything: bool, verify_crc: bool = True
) -> list[Task]:
    """Tasks of about the same size. JobError: there is nothing to do."""
    stretches = 0 if everything else STRETCHES
    return [task for log in chosen(paths, topics) for task in _tasks(log, stretches, verify_crc)]


def _tasks(log: PartitionLog, stretches: int, verify_crc: bool) -> Iterator[Task]:
    size_max = TASK_SIZE if stretches else SAMPLED_SIZE

    def task(bases: list[int]) -> Task:
        return Task(
            *log.topic_partition,
            log.directory,
            tuple(bases),
            stretches,
            verify_crc,
            trimmed(log, bases),
        )

    bases: list[int] = []
    size = 0
    for segment in log.segments:
        if segment.next_offset <= log.start_offset:
            continue
        if bases and size + segment.size > size_max:
            yield task(bases)
            bases, size = [], 0
        bases.append(segment.base_offset)
        size += segment.size
    if bases:
        yield task(bases)


def added_up(rows: DataFrame) -> DataFrame:
    """Sums by partition, format and codec. Offsets missing between two segments also count as a
    gap."""
    before = (
        Window.partitionBy("topic", "partition")
        .orderBy("segment", F.col("segments").desc())
        .rowsBetween(Window.unboundedPreceding, -1)
    )
    end = F.last("next_offset", ignorenulls=True).over(before)
    missing = F.greatest(F.coalesce(F.col("first_offset") - end, F.lit(0)), F.lit(0))
    rows = rows.withColumn("missing_between", missing)
    between = {
        "gaps": F.col("gaps") + F.when(F.col("missing_between") > 0, 1).otherwise(0),
        "missing_offsets": F.col("missing_offsets") + F.col("missing_between"),
    }
    rows = rows.withColumns(between)
    damages = F.slice(F.flatten(F.collect_list("damages")), 1, DAMAGES_MAX)
    return rows.groupBy("topic", "partition", "magic", "codec").agg(
        *(F.sum(name).alias(name) for name in SUMS),
        F.min("first_offset").alias("first_offset"),
        F.max("next_offset").alias("next_offset"),
        F.sum(F.size("damages")).alias("damaged"),
        damages.alias("damages"),
        F.min("oldest").alias("oldest"),
        F.max("newest").alias("newest"),
        _cost("v1"),
        _cost("v0"),
    )


def _cost(name: str) -> Column:
    sums = [F.sum(f"{name}.{part}").alias(part) for part in ("cpu_seconds", "bytes_out")]
    peaks = [F.max(f"{name}.{part}").alias(part) for part in ("buffers", "temporary")]
    return F.struct(*sums, *peaks).alias(name)
