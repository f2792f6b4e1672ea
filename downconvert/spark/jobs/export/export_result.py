"""The result of an export's run: the number of added records, and the contents of the target.

Not here: the run (export.py)."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from typing import Final

from pyspark.sql import DataFrame, SparkSession

from .export_stored import Written

ADDED: Final = "topic string, date date, records bigint"


@dataclass(frozen=True, slots=True)
class Result:
    """`added`: how many records this run added, with the columns of ADDED. `archive`: all records
    of the target; None for a table, which has its own readers."""

    added: DataFrame
    archive: DataFrame | None = None


def counts(session: SparkSession, written: Sequence[Written]) -> DataFrame:
    """The number of records in files that this project has written, from their metadata."""
    found: dict[tuple[str, date | None], int] = {}
    for one in written:
        found[one.topic, one.day] = found.get((one.topic, one.day), 0) + one.records
    return session.createDataFrame([(*key, count) for key, count in found.items()], ADDED)
