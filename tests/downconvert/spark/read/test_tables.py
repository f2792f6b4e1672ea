"""The options of a table in Spark's catalog come back with its schema."""

from downconvert.spark.options.options import Options
from downconvert.spark.options.schemas import check_wanted, schema_of
from downconvert.spark.read.tables import METADATA, options_of, with_options

TABLE = {
    "path": "file:/logs",
    "location": "file:/logs",
    "provider": "kafka-segments",
    "topics": "a",
}


def test_options_of_a_table_survive_in_its_schema() -> None:
    schema = schema_of(Options.parse(TABLE))
    kept = with_options(schema, TABLE)
    check_wanted(kept.fields, Options.parse(TABLE))
    assert [field.dataType for field in kept.fields] == [f.dataType for f in schema.fields]
    options = options_of(type(kept).fromJson(kept.jsonValue()), {})
    assert Options.parse(options).topics == ("a",)
    assert Options.parse(options_of(kept, {"Topics": "b"})).topics == ("b",)


def test_a_schema_that_is_of_no_table_is_as_it_was() -> None:
    schema = schema_of(Options.parse({"path": "/logs"}))
    assert with_options(schema, {"path": "/logs"}) is schema
    assert options_of(schema, {"path": "/logs"}) == {"path": "/logs"}
    assert not any(METADATA in field.metadata for field in schema.fields)
