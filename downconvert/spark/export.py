"""Records as Parquet, in folders by topic and date, for whoever asks with SQL.

The layout is the one that Hive, Spark, Trino and Iceberg's `add_files` read: `topic=.../date=...`,
with the columns of Spark's Kafka source in the files. A run replaces exactly the folders that it
has records for, so that the same run twice gives the same; what others wrote stays.

Not here: reading records (source.py)."""

from collections.abc import Sequence

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own name for it

from .jobs import Step, chosen, no_step, watched
from .source import FORMAT

NO_TIMESTAMP_TYPE = -1


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
    """Writes all records below the paths to `target`; gives what is there afterwards.

    `date` is of the record's timestamp, in UTC; null where it has none. `committed` leaves out what
    was aborted, `skip_damaged` what is damaged: else that ends the run, and nothing is replaced.
    JobError: there is nothing, or Spark gave up."""
    chosen(paths, topics)
    frame = records(session, paths, topics, committed=committed, skip_damaged=skip_damaged)
    with watched(session, "export", frame.rdd.getNumPartitions(), step):
        (
            frame.write.partitionBy("topic", "date")
            .option("partitionOverwriteMode", "dynamic")
            .mode("overwrite")
            .parquet(target)
        )
    return session.read.parquet(target)


def records(
    session: SparkSession,
    paths: Sequence[str],
    topics: Sequence[str],
    *,
    committed: bool,
    skip_damaged: bool,
) -> DataFrame:
    """What is exported. No shuffle: a task writes what it reads, into a folder or two."""
    reader = (
        session.read.format(FORMAT)
        .option("includeHeaders", "true")
        .option("isolation", "read_committed" if committed else "read_uncommitted")
        .option("mode", "DROPMALFORMED" if skip_damaged else "FAILFAST")
    )
    if topics:
        reader = reader.option("topics", ",".join(topics))
    frame = reader.load(list(paths))
    has_time = F.col("timestampType") != NO_TIMESTAMP_TYPE
    return frame.withColumn("date", F.when(has_time, F.to_date("timestamp")))
