"""Records become Parquet by topic and date; the same run twice is the same once."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from downconvert.spark.export import export
from downconvert.spark.jobs import JobError
from records import Codec
from tests.downconvert.storage.logs import batch, segment

DAY = 86_400_000  # milliseconds


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "logs"
    path.mkdir()
    segment(path / "a-0", 0, batch(0, 1, timestamp=DAY), batch(2, timestamp=3 * DAY))
    segment(path / "b-0", 0, batch(0, magic=0), batch(1, codec=Codec.GZIP, timestamp=DAY))
    return path


def folders(target: Path) -> set[str]:
    return {
        str(path.parent.relative_to(target))
        for path in target.rglob("*.parquet")
        if not path.name.startswith(".")
    }


def test_records_are_in_folders_by_topic_and_date_and_twice_is_once(
    spark: SparkSession, source: Path, tmp_path: Path
) -> None:
    target = tmp_path / "lake"
    for _ in range(2):
        frame = export(spark, [str(source)], str(target))
        found = {(row.topic, row.offset): row for row in frame.collect()}
        assert frame.count() == len(found) == 5
    assert folders(target) == {
        "topic=a/date=1970-01-02",
        "topic=a/date=1970-01-04",
        "topic=b/date=1970-01-02",
        "topic=b/date=__HIVE_DEFAULT_PARTITION__",
    }
    assert found["b", 0].date is None
    assert bytes(found["a", 2].value) == b"2 2 2 2 2 "
    (source / "a-0" / "00000000000000000000.log").write_bytes(batch(0, timestamp=DAY))
    rows = export(spark, [str(source)], str(target), topics=["a"]).collect()
    assert sorted((row.topic, row.offset) for row in rows) == [
        ("a", 0),
        ("a", 2),
        ("b", 0),
        ("b", 1),
    ]


def test_damage_ends_a_run_or_is_left_out(
    spark: SparkSession, source: Path, tmp_path: Path
) -> None:
    segment(source / "b-0", 0, batch(0)[:-1] + b"\xff", batch(1, timestamp=DAY))
    with pytest.raises(JobError, match="export: "):
        export(spark, [str(source)], str(tmp_path / "lake"))
    assert not folders(tmp_path / "lake")
    frame = export(spark, [str(source)], str(tmp_path / "lake"), skip_damaged=True)
    assert frame.where("topic = 'b'").count() == 1
