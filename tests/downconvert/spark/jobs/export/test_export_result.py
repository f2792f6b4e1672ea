"""The records that a run has added are counted by topic and day."""

from datetime import date

from pyspark.sql import SparkSession

from downconvert.spark.jobs.export.export_result import counts
from downconvert.spark.jobs.export.export_stored import NO_DATE, Written


def written(topic: str, day: str, records: int) -> Written:
    return Written(f"topic={topic}/date={day}/part-{records:032x}-000000.parquet", records, 1, {})


def test_files_of_a_topic_and_a_day_are_one_row(spark: SparkSession) -> None:
    files = [
        written("a", "2024-01-01", 3),
        written("b", "2024-01-01", 100),
        written("a", "2024-01-02", 5),
        written("a", "2024-01-01", 4),
        written("a", NO_DATE, 2),
        written("a", NO_DATE, 1),
    ]
    found = counts(spark, files)
    assert found.columns == ["topic", "date", "records"]
    assert {(row.topic, row.date, row.records) for row in found.collect()} == {
        ("a", date(2024, 1, 1), 7),
        ("a", date(2024, 1, 2), 5),
        ("a", None, 3),
        ("b", date(2024, 1, 1), 100),
    }


def test_a_run_that_adds_nothing_has_no_row(spark: SparkSession) -> None:
    found = counts(spark, [])
    assert (found.columns, found.collect()) == (["topic", "date", "records"], [])
