"""Tables in Spark's catalog: `CREATE TABLE t USING `kafka-segments` OPTIONS (path '/logs')`.

When a table is created, Spark requests a schema from the source, with the options. In each query it
requests a reader, without the options (as of 4.3): the catalog keeps options only for sources in
the JVM. It does keep the schema. So the options of a table are stored in the schema, as metadata of
its first column.

Not here: the meaning of the options (options.py)."""

import json
from collections.abc import Mapping
from typing import Final

from pyspark.sql.types import StructField, StructType

METADATA: Final = "kafka-segments.options"
PROPERTY: Final = "provider"  # only tables of a catalog have it


def with_options(schema: StructType, options: Mapping[str, str]) -> StructType:
    """The schema, with the options in it if they are those of a table."""
    if PROPERTY not in options:
        return schema
    first, *others = schema.fields
    metadata = {METADATA: json.dumps(dict(options))}
    return StructType([StructField(first.name, first.dataType, first.nullable, metadata), *others])


def options_of(schema: StructType, given: Mapping[str, str]) -> dict[str, str]:
    """The options of a query: those in the schema, overridden by the given ones."""
    found: dict[str, str] = {}
    for field in schema.fields:
        text = (field.metadata or {}).get(METADATA)
        if isinstance(text, str):
            found |= json.loads(text)
    return found | {name.lower(): text for name, text in given.items()}
