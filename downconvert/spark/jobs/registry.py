"""The header of Confluent's serializers: a zero byte and a schema id of four bytes, big-endian.

Not here: decoding Avro, Protobuf or JSON, which Spark's `from_avro` and `from_protobuf` do. (In
Protobuf the indexes of the message follow the header.)"""

from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - Spark's own name for it

MAGIC: Final = "00"  # in hexadecimal
HEADER_SIZE: Final = 5


def schema_id(column: Column | str) -> Column:
    """The schema id of keys or values, as a long; null where they have no such header.

    `column`: the column of the keys or values, or its name."""
    value = _column(column)
    digits = F.hex(F.substring(value, 2, HEADER_SIZE - 1))
    return F.when(_has_header(value), F.conv(digits, 16, 10).cast("long"))


def payload(column: Column | str) -> Column:
    """Keys or values without the header. Those without a header stay as they are.

    `column`: the column of the keys or values, or its name."""
    value = _column(column)
    rest = value.substr(F.lit(HEADER_SIZE + 1), F.length(value) - HEADER_SIZE)
    return F.when(_has_header(value), rest).otherwise(value)


def _column(given: Column | str) -> Column:
    return F.col(given) if isinstance(given, str) else given


def _has_header(value: Column) -> Column:
    return (F.length(value) >= HEADER_SIZE) & (F.hex(F.substring(value, 1, 1)) == MAGIC)
