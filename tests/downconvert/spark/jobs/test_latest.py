"""The last record of each key: by offset, in its partition, and in no aborted transaction."""

from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from downconvert.spark.jobs.jobs import JobError
from downconvert.spark.jobs.latest import latest, write
from records import ControlRecordType, Record, build, build_marker
from records.formats import V2
from tests.downconvert.spark.reading import partition

Kept = list[tuple[str, int, bytes, int, bytes | None]]


def record(offset: int, key: bytes | None, value: bytes | None, timestamp: int = 5) -> Record:
    return Record(offset, timestamp, key=key, value=value, headers=(("h", b"%d" % offset),))


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Keys in two partitions and topics, one of them last written in an aborted transaction."""
    path = tmp_path_factory.mktemp("latest")
    first = [
        record(0, b"a", b"old", timestamp=900),
        record(1, b"b", b"stays"),
        record(2, b"a", b"new", timestamp=100),
        record(3, b"c", b"was"),
        record(4, b"c", None),
        record(5, None, b"no key"),
    ]
    aborted = build(
        [record(6, b"b", b"aborted")],
        magic=V2,
        producer_id=7,
        producer_epoch=0,
        transactional=True,
    )
    marker = build_marker(ControlRecordType.ABORT, offset=7, timestamp=0, producer_id=7)
    partition(path, build(first, magic=V2) + aborted + marker, "007-0")
    partition(path, build([record(0, b"a", b"other")], magic=V2), "007-1")
    partition(path, build([record(0, b"a", b"third")], magic=V2), "z-0")
    return path


def found(session: SparkSession, logs: Path, **options: Any) -> Kept:
    rows = latest(session, [str(logs)], **options).collect()
    return sorted((r.topic, r.partition, bytes(r.key), r.offset, r.value) for r in rows)


A: Kept = [("007", 0, b"a", 2, b"new")]
B: Kept = [("007", 0, b"b", 1, b"stays")]
OTHER: Kept = [("007", 1, b"a", 0, b"other")]
THIRD: Kept = [("z", 0, b"a", 0, b"third")]
DELETED: Kept = [("007", 0, b"c", 4, None)]


def test_the_last_record_of_a_key_is_the_one_with_the_highest_offset(
    spark: SparkSession, logs: Path
) -> None:
    assert found(spark, logs) == A + B + OTHER + THIRD
    assert found(spark, logs, tombstones=True) == A + B + DELETED + OTHER + THIRD
    (row,) = latest(spark, [str(logs)], topics=["z"]).collect()
    assert row.asDict(recursive=True) == {
        "topic": "z",
        "partition": 0,
        "key": b"a",
        "offset": 0,
        "timestamp": row.timestamp,
        "timestampType": 0,
        "value": b"third",
        "headers": [{"key": "h", "value": b"0"}],
    }


def test_aborted_records_count_only_if_they_are_asked_for(spark: SparkSession, logs: Path) -> None:
    aborted: Kept = [("007", 0, b"b", 6, b"aborted")]
    assert found(spark, logs, topics=["007"], committed=False) == A + aborted + OTHER
    assert found(spark, logs, topics=["z", "0*"]) == A + B + OTHER + THIRD


def test_rows_are_written_once_with_the_same_options(
    spark: SparkSession, logs: Path, tmp_path: Path
) -> None:
    target, steps = str(tmp_path / "out"), list[str]()
    options: Any = {"topics": ["007"], "committed": False, "tombstones": True}
    frame = latest(spark, [str(logs)], **options)
    count = write(frame, target, lambda what, *_: steps.append(what))
    assert count == 4
    rows = spark.read.parquet(f"{target}/topic=007").collect()
    assert sorted((bytes(r.key), r.value) for r in rows) == [
        (b"a", b"new"), (b"a", b"other"), (b"b", b"aborted"), (b"c", None)
    ]  # fmt: skip
    assert set(steps) == {"latest"}
    with pytest.raises((JobError, AnalysisException), match="already exists"):
        write(frame, target)
    assert spark.read.parquet(f"{target}/topic=007").count() == 4


def test_topics_that_are_not_there_are_an_error(spark: SparkSession, logs: Path) -> None:
    with pytest.raises(JobError, match="no topic is called y; there is 007, z"):
        latest(spark, [str(logs)], topics=["y"])
