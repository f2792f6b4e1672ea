"""The data source through Spark itself: everything else is tested without it, faster."""

from pathlib import Path

import pytest
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, SparkSession

from records import Codec, Record, build
from records.formats import V2
from tests import corpus
from tests.damage import damaged
from tests.downconvert.storage.logs import batch, indexed_segment

from .querying import read_on
from .read.test_rows import as_kafka_reads
from .reading import partition, record_of

PUSH_DOWN = "spark.sql.python.filterPushdown.enabled"
INPUTS = ("mixed-1", "mixed-2", "mixed-3")


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Some inputs of the corpus, a topic each, and one of 400 batches with an index."""
    path = tmp_path_factory.mktemp("logs")
    for name in INPUTS:
        partition(path, corpus.segment(name), f"{name}-0")
    many = [batch(10 * i, 10 * i + 5, size=4000) for i in range(400)]
    indexed_segment(path / "many-3", 0, *many, interval=1000)
    return path


def source(spark: SparkSession, path: Path | list[str], **options: object) -> DataFrame:
    texts = {name: str(value) for name, value in options.items()}
    where = path if isinstance(path, list) else str(path)
    return spark.read.format("kafka-segments").options(**texts).load(where)


@pytest.mark.parametrize("size", ["1m", "128m"])
def test_rows_are_the_records(spark: SparkSession, logs: Path, size: str) -> None:
    found = source(spark, logs, includeHeaders="true", maxPartitionBytes=size)
    expected = [row for name in INPUTS for row in as_kafka_reads(name)]
    rows = found.where("topic != 'many'").selectExpr(
        "key", "value", "topic", "partition", "offset", "unix_micros(timestamp) AS timestamp",
        "timestampType", "headers",
    )  # fmt: skip
    assert [record_of(row.asDict(recursive=True)) for row in rows.collect()] == expected
    assert found.count() == len(expected) + 800


@pytest.mark.parametrize("enabled", ["true", "false"])
def test_filters_are_pushed_down_if_the_session_allows_it(
    spark: SparkSession, logs: Path, enabled: str
) -> None:
    spark.conf.set(PUSH_DOWN, enabled)
    try:
        whole = source(spark, logs, maxPartitionBytes="1m")
        few = whole.where("topic = 'many' AND offset BETWEEN 1001 AND 1042")
        few = few.where("timestamp >= timestamp_millis(10100)")
        expected = [n for i in range(100, 105) for n in (10 * i, 10 * i + 5) if 1010 <= n <= 1042]
        assert [row.offset for row in few.collect()] == expected
        partitions = few.rdd.getNumPartitions()
        assert partitions == (1 if enabled == "true" else whole.rdd.getNumPartitions())
    finally:
        spark.conf.unset(PUSH_DOWN)


def test_several_directories_sql_and_a_schema_of_some_columns(
    spark: SparkSession, logs: Path, tmp_path: Path
) -> None:
    partition(tmp_path, batch(0, 1, 2), "other-0")
    both = source(spark, [str(logs), str(tmp_path)], topics="other,many")
    assert both.count() == 803
    named = source(spark, Path(f'["{logs}", "{tmp_path}"]'), topics="other,many")
    assert named.count() == 803
    some = spark.read.format("kafka-segments").schema("offset LONG, value BINARY")
    rows = some.load(str(tmp_path)).collect()
    assert [(row.offset, bytes(row.value)[:2]) for row in rows] == [
        (0, b"0 "), (1, b"1 "), (2, b"2 ")
    ]  # fmt: skip
    options = f"OPTIONS (path '{tmp_path}', level 'batch')"
    spark.sql(f"CREATE TEMPORARY VIEW seen USING `kafka-segments` {options}")
    assert spark.sql("SELECT sum(recordsCount) FROM seen").collect()[0][0] == 3


def test_paths_may_be_patterns(spark: SparkSession, logs: Path) -> None:
    assert source(spark, Path(f"{logs}/ma*-3")).count() == 800
    assert (
        source(spark, Path(f"{logs.parent}/{logs.name[:-1]}?/{{many,none}}-[0-9]")).count() == 800
    )
    with pytest.raises(AnalysisException, match="no directory matches that"):
        source(spark, Path(f"{logs}/no*")).count()


def test_the_catalog_may_have_a_table_of_the_source(spark: SparkSession, logs: Path) -> None:
    options = f"OPTIONS (path '{logs}', topics 'many')"
    spark.sql(f"CREATE TABLE many USING `kafka-segments` {options} COMMENT 'of a backup'")
    try:
        assert spark.sql("SELECT count(*) FROM many").collect()[0][0] == 800
        assert spark.table("many").where("offset < 10").count() == 2
    finally:
        spark.sql("DROP TABLE many")


def test_damage_is_a_row_or_the_end(spark: SparkSession, tmp_path: Path) -> None:
    bad = damaged(batch(3, 4), field="crc", to=0, crc="stale")
    partition(tmp_path, batch(0, 1, 2) + bad + batch(5))
    found = source(spark, tmp_path, mode="PERMISSIVE", verifyCrc="true")
    (row,) = found.where("_corrupt IS NOT NULL").collect()
    assert (row.topic, row.partition, row.offset) == ("topic", 0, None)
    assert row._corrupt.reason.startswith("checksum does not match")
    assert found.where("_corrupt IS NULL").count() == 4
    with pytest.raises(PySparkException, match=r"CorruptSegmentError.*mode=PERMISSIVE"):
        source(spark, tmp_path, verifyCrc="true").count()


def test_wrong_options_are_reported_when_the_query_is_made(spark: SparkSession, logs: Path) -> None:
    with pytest.raises(AnalysisException, match="unknown option lvel"):
        source(spark, logs, lvel="batch")
    with pytest.raises(AnalysisException, match="nothing is not a directory"):
        source(spark, logs.parent / "nothing").count()
    with pytest.raises(AnalysisException, match="nobody: no such topic or partition below"):
        source(spark, logs, subscribe="many,nobody").count()


def test_an_empty_response_has_all_columns(spark: SparkSession, logs: Path) -> None:
    found = source(spark, logs, topics="many", startingOffsets='{"many":{"3":99999}}')
    assert found.collect() == []
    assert len(found.columns) == 7


def test_a_stream_reads_on_where_it_left_off(spark: SparkSession, tmp_path: Path) -> None:
    logs, seen = tmp_path / "logs", list[tuple[int, int]]()
    partition(logs, batch(*range(5)))

    def run() -> None:
        read_on(spark, str(logs), tmp_path / "checkpoint", seen)

    run()
    partition(logs, build([Record(5, 0), Record(6, 0)], magic=V2, codec=Codec.ZSTD), base_offset=5)
    run()
    assert [offset for _, offset in seen] == list(range(7))
    assert len({number for number, _ in seen}) == 3
    newest = max((tmp_path / "checkpoint" / "offsets").glob("[0-9]*"), key=lambda p: int(p.name))
    assert newest.read_text().endswith('{"topic": {"0": 7}}')
