"""The benchmark of Spark runs, and checks what it measures."""

from pathlib import Path

from pyspark.sql import SparkSession

from bench.spark import BATCH_COPIES, measure, report


def test_all_contenders_read_the_same(spark: SparkSession, tmp_path: Path) -> None:
    size = 64 * 1024
    lines = list[str]()
    figures = measure(
        spark, tmp_path, size=size, partitions=1, rounds=1, with_kafka=False, tell=lines.append
    )
    assert lines == ["round 1 of 1"]
    assert figures.log_bytes > size
    assert figures.records > 50
    assert {len(rates) for rates in figures.rates.values()} == {1, 2}
    assert len(list(tmp_path.glob("logs/links-*"))) == BATCH_COPIES
    assert any(line.startswith("batches, times records") for line in report(figures))
