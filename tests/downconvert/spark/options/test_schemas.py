"""Columns: those of Spark's Kafka source, and exactly what Spark makes of them in Arrow."""

from pathlib import Path

import pytest
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructField, StructType

from downconvert.spark.options.options import Options
from downconvert.spark.options.schemas import CORRUPT, RECORD, arrow_schema, check_wanted, schema_of
from downconvert.spark.read.reader import SegmentReader
from downconvert.spark.stream.stream import SegmentStreamReader
from tests.downconvert.spark.reading import partition, rows
from tests.downconvert.storage.logs import batch


def options(**given: str) -> Options:
    return Options.parse({"path": "/logs"} | given)


def test_records_have_the_columns_of_sparks_kafka_source() -> None:
    assert schema_of(options(includeHeaders="true")).simpleString() == (
        "struct<key:binary,value:binary,topic:string,partition:int,offset:bigint,"
        "timestamp:timestamp,timestampType:int,headers:array<struct<key:string,value:binary>>>"
    )
    assert schema_of(options()) == RECORD
    assert all(field.nullable for field in RECORD.fields)


@pytest.mark.parametrize("level", ["record", "batch"])
def test_arrow_has_what_spark_makes_of_it(level: str) -> None:
    schema = schema_of(options(level=level, includeHeaders="true", mode="PERMISSIVE"))
    assert arrow_schema(schema).equals(to_arrow_schema(schema, timezone="UTC"))


def test_a_schema_of_the_users_names_columns_that_there_are() -> None:
    wanted = StructType([RECORD["offset"], RECORD["value"]])
    check_wanted(wanted.fields, options())
    with pytest.raises(ValueError, match="no column 'headers'; there are key, value"):
        check_wanted([StructField("headers", RECORD["key"].dataType)], options())
    with pytest.raises(ValueError, match="column 'offset' is bigint, not int"):
        check_wanted([StructField("offset", RECORD["partition"].dataType)], options())


@pytest.mark.parametrize("is_stream", [False, True])
def test_a_reader_refuses_a_schema_with_columns_that_there_are_not(is_stream: bool) -> None:
    given = Options.parse({"path": "/logs"}, streaming=is_stream)
    wanted = StructType([StructField("headers", RECORD["key"].dataType)])
    with pytest.raises(ValueError, match="no column 'headers'"):
        (SegmentStreamReader if is_stream else SegmentReader)(given, wanted)


def test_damage_has_a_column_of_its_own() -> None:
    schema = schema_of(options(mode="PERMISSIVE"))
    assert schema.fields[-1] == StructField("_corrupt", CORRUPT)


@pytest.mark.parametrize("level", ["batch", "count", "split"])
def test_only_records_have_headers(level: str) -> None:
    assert "headers" not in schema_of(options(level=level, includeHeaders="true")).names


@pytest.mark.parametrize(
    ("level", "has_one"), [("record", True), ("batch", True), ("count", False), ("split", False)]
)
def test_damage_has_a_column_where_rows_are_read(level: str, has_one: bool) -> None:
    given = options(level=level, mode="PERMISSIVE", columnNameOfCorruptRecord="bad")
    assert ("bad" in schema_of(given).names) is has_one
    assert "bad" not in schema_of(options(level=level, columnNameOfCorruptRecord="bad")).names


def test_the_column_of_damage_has_a_name_of_its_own() -> None:
    with pytest.raises(ValueError, match="value is taken"):
        schema_of(options(mode="PERMISSIVE", columnNameOfCorruptRecord="value"))


def test_columns_come_in_the_order_in_which_they_were_given() -> None:
    given = options(columns="offset, _corrupt,key", mode="PERMISSIVE")
    assert schema_of(given).names == ["offset", "_corrupt", "key"]
    with pytest.raises(ValueError, match="columns: no headers; there are key, value"):
        schema_of(options(columns="offset,headers"))


@pytest.mark.parametrize("level", ["record", "batch"])
def test_damage_makes_no_row_where_its_column_is_not_read(tmp_path: Path, level: str) -> None:
    partition(tmp_path, batch(0) + batch(1)[:-1] + b"?" + batch(2), "a-0")
    name = "offset" if level == "record" else "baseOffset"
    given = {"level": level, "mode": "PERMISSIVE"}
    assert rows(tmp_path, columns=name, **given) == [{name: 0}, {name: 2}]
    assert len(rows(tmp_path, columns=f"{name},_corrupt", **given)) == 3
