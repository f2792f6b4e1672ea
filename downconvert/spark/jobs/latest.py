"""The last record of each key, as after compaction of a topic.

Not here: reading records (source.py)."""

from collections.abc import Sequence
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own name for it

from downconvert.spark.source import FORMAT

from .jobs import chosen, watched
from .progress import Step, no_step

KEY: Final = ("topic", "partition", "key")
LAST: Final = ("offset", "timestamp", "timestampType", "value", "headers")


def latest(
    session: SparkSession,
    paths: Sequence[str],
    *,
    topics: Sequence[str] = (),
    committed: bool = True,
    tombstones: bool = False,
) -> DataFrame:
    """A row for each key of each partition, with the columns of the data source.

    As in compaction, records without a key are left out, and a key in two partitions is two keys.
    `committed`: ignores aborted and open transactions. `tombstones`: includes keys whose last
    record has no value. JobError: there is nothing to read."""
    chosen(paths, topics)
    records = (
        session.read.format(FORMAT)
        .option("includeHeaders", "true")
        .option("topics", ",".join(topics) or "*")
        .option("isolation", "read_committed" if committed else "read_uncommitted")
        .load(list(paths))
        .where("key IS NOT NULL")
    )
    last = F.max_by(F.struct(*LAST), F.col("offset")).alias("last")
    found = records.groupBy(*KEY).agg(last).select(*KEY, "last.*")
    return found if tombstones else found.where("value IS NOT NULL")


def write(frame: DataFrame, target: str, step: Step = no_step) -> int:
    """Writes the rows of `latest` as Parquet, by topic; returns how many keys there are.

    JobError: the target exists, or Spark fails."""
    session = frame.sparkSession
    with watched(session, "latest", step):
        frame.write.partitionBy("topic").mode("error").parquet(target)
        return session.read.schema(frame.schema).parquet(target).count()
