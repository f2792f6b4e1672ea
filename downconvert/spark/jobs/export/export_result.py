"""What a run of an export has added, and what is there afterwards.

Not here: the run (export.py)."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own name for it

from .export_stored import Written
from .schemas import EXPORTED

ADDED: Final = "topic string, date date, records bigint"


@dataclass(frozen=True, slots=True)
class Result:
    """`added`: how many records were added by this run, with the columns of ADDED. `archive`: all
    that is there; None: a table, which its own readers read."""

    added: DataFrame
    archive: DataFrame | None = None


def counts(session: SparkSession, written: Sequence[Written]) -> DataFrame:
    """Of the files that this project has written, which know how many records they have."""
    found: dict[tuple[str, date | None], int] = {}
    for one in written:
        found[one.topic, one.day] = found.get((one.topic, one.day), 0) + one.records
    return session.createDataFrame([(*key, count) for key, count in found.items()], ADDED)


def counts_of(session: SparkSession, target: str, files: Sequence[str]) -> DataFrame:
    """Of the files that Spark has written, by reading them."""
    if not files:
        return session.createDataFrame([], ADDED)
    frame = session.read.schema(EXPORTED).option("basePath", target).parquet(*files)
    return frame.groupBy("topic", "date").agg(F.count("*").alias("records"))
