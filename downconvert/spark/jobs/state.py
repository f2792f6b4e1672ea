"""Committed offsets, groups and transactional ids, from the brokers' internal topics.

Not here: making the rows from records (state_tables.py)."""

from collections.abc import Sequence

from pyspark.sql import DataFrame, SparkSession

from downconvert.spark.options.options import STATE_TOPICS, Level
from downconvert.spark.source import FORMAT

from .jobs import JobError, Json, chosen, watched
from .progress import Step, no_step


def state(
    session: SparkSession, paths: Sequence[str], level: Level, *, skip_damaged: bool = False
) -> DataFrame:
    """The data source with this level: "offset", "group" or "transaction".

    JobError: the level's topic is not below the paths. Damage fails the query, unless it is
    skipped."""
    topic = STATE_TOPICS[level]
    logs = chosen(paths, ())
    if not any(log.topic_partition.topic == topic for log in logs):
        raise JobError(f"{' '.join(paths)}: {topic} is not there; name a log directory that has it")
    return (
        session.read.format(FORMAT)
        .option("level", level)
        .option("mode", "DROPMALFORMED" if skip_damaged else "FAILFAST")
        .load(list(paths))
    )


def run(
    session: SparkSession,
    paths: Sequence[str],
    level: Level,
    *,
    order: Sequence[str],
    names: Sequence[str] = (),
    skip_damaged: bool = False,
    limit: int,
    step: Step = no_step,
) -> tuple[list[Json], bool]:
    """The rows of `state`, at most `limit`, in order of these columns; and whether there are no
    more.

    names: only rows with one of these in the first column; none: all."""
    frame = state(session, paths, level, skip_damaged=skip_damaged)
    if names:
        frame = frame.where(frame[order[0]].isin(list(names)))
    with watched(session, f"read {STATE_TOPICS[level]}", step, skips=True):
        found = frame.orderBy(*order).limit(limit + 1).collect()
    rows = [row.asDict(recursive=True) for row in found]
    return rows[:limit], len(rows) <= limit
