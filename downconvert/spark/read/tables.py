"""Tables in Spark's catalog: `CREATE TABLE t USING `kafka-segments` OPTIONS (path '/logs')`.

Spark asks the source for a schema as the table is created, with the options, and for a reader in
each query, without them (as of 4.3): its catalog keeps options only for sources in the JVM. It does
keep the schema. So the options of a table go into the schema, as metadata of its first column.

Not here: what the options mean (options.py)."""

import json
from collections.abc import Mapping
from typing import Final

from pyspark.sql.types import StructField, StructType

METADATA: Final = "kafka-segments.options"
PROPERTY: Final = "provider"  # which only tables of a catalog have


def with_options(schema: StructType, options: Mapping[str, str]) -> StructType:
    """The schema, with the options in it if they are those of a table."""
    if PROPERTY not in options:
        return schema
    first, *others = schema.fields
    metadata = {METADATA: json.dumps(dict(options))}
    return StructType([StructField(first.name, first.dataType, first.nullable, metadata), *others])


def options_of(schema: StructType, given: Mapping[str, str]) -> dict[str, str]:
    """The options of a query: those in the schema, overridden by those that are given."""
    found: dict[str, str] = {}
    for field in schema.fields:
        text = (field.metadata or {}).get(METADATA)
        if isinstance(text, str):
            found |= json.loads(text)
    return found | {name.lower(): text for name, text in given.items()}
