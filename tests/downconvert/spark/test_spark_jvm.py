"""tests/spark_jvm.py: Spark's classes come from the archive."""

from pathlib import Path

from pyspark.sql import SparkSession


def test_the_session_takes_its_classes_from_the_archive(spark: SparkSession) -> None:
    assert spark.range(1).count() == 1
    children = [
        child
        for file in Path("/proc/self/task").glob("*/children")
        for child in file.read_text().split()
    ]
    assert any("/spark.jsa" in Path(f"/proc/{child}/maps").read_text() for child in children)
