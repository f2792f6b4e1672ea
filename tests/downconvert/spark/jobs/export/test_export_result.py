"""The records that a run has added are counted by topic and day."""

from datetime import date
from types import SimpleNamespace
from typing import Any

from pyspark.sql import SparkSession

from downconvert.spark.jobs.export.export_result import ADDED, counts
from downconvert.spark.jobs.export.export_stored import NO_DATE, Written


def written(topic: str, day: str, records: int) -> Written:
    return Written(f"topic={topic}/date={day}/part-{records:032x}-000000.parquet", records, 1, {})


FILES = [
    written("a", "2024-01-01", 3),
    written("b", "2024-01-01", 100),
    written("a", "2024-01-02", 5),
    written("a", "2024-01-01", 4),
    written("a", NO_DATE, 2),
    written("a", NO_DATE, 1),
]
COUNTS = {
    ("a", date(2024, 1, 1), 7),
    ("a", date(2024, 1, 2), 5),
    ("a", None, 3),
    ("b", date(2024, 1, 1), 100),
}


def test_files_of_a_topic_and_a_day_are_one_row() -> None:
    session: Any = SimpleNamespace(createDataFrame=lambda rows, columns: (rows, columns))
    rows: Any = counts(session, FILES)
    assert (len(rows[0]), set(rows[0]), rows[1]) == (4, COUNTS, ADDED)
    none: Any = counts(session, [])
    assert none == ([], ADDED)


def test_spark_has_the_rows_with_their_columns(spark: SparkSession) -> None:
    found = counts(spark, FILES)
    assert found.columns == ["topic", "date", "records"]
    assert {tuple(row) for row in found.collect()} == COUNTS
    assert counts(spark, []).columns == found.columns
