"""Columns: those of Spark's Kafka source, and exactly what Spark makes of them in Arrow."""

import pytest
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructField, StructType

from downconvert.spark.options.options import Options
from downconvert.spark.options.schemas import CORRUPT, RECORD, arrow_schema, check_wanted, schema_of


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


def test_damage_has_a_column_of_its_own() -> None:
    schema = schema_of(options(mode="PERMISSIVE"))
    assert schema.fields[-1] == StructField("_corrupt", CORRUPT)
