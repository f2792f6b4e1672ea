"""The columns of the data source, for Spark and for Arrow.

Records have the columns and types of Spark's own Kafka source. Spark takes record batches only if
their Arrow schema is exactly the one it derives from its own. A test compares the two.

Not here: filling the columns (gather.py, batches.py, state_tables.py)."""

from collections.abc import Sequence
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from .options import Mode, Options

HEADERS: Final = ArrayType(
    StructType([StructField("key", StringType()), StructField("value", BinaryType())])
)
RECORD: Final = StructType(
    [
        StructField("key", BinaryType()),
        StructField("value", BinaryType()),
        StructField("topic", StringType()),
        StructField("partition", IntegerType()),
        StructField("offset", LongType()),
        StructField("timestamp", TimestampType()),
        StructField("timestampType", IntegerType()),
    ]
)
# The columns of an export. `date` is the day of the timestamp in UTC; null without a timestamp.
EXPORTED: Final = StructType(
    [*RECORD.fields, StructField("headers", HEADERS), StructField("date", DateType())]
)
BATCH: Final = StructType(
    [
        StructField("topic", StringType()),
        StructField("partition", IntegerType()),
        StructField("segment", StringType()),  # path of the log file
        StructField("position", LongType()),  # of the batch's first byte in it
        StructField("baseOffset", LongType()),  # v0, v1: the same as lastOffset
        StructField("lastOffset", LongType()),
        StructField("sizeInBytes", IntegerType()),
        StructField("magic", IntegerType()),
        StructField("codec", StringType()),  # none, gzip, snappy, lz4, zstd
        StructField("timestampType", IntegerType()),
        StructField("baseTimestamp", TimestampType()),  # null: there is none
        StructField("maxTimestamp", TimestampType()),
        StructField("recordsCount", IntegerType()),  # null: unknown in compressed v0 or v1
        StructField("leaderEpoch", IntegerType()),  # null: none; so are all that follow
        StructField("producerId", LongType()),
        StructField("producerEpoch", IntegerType()),
        StructField("baseSequence", IntegerType()),
        StructField("isTransactional", BooleanType()),
        StructField("isControl", BooleanType()),
        StructField("crc", LongType()),
    ]
)
RECORD_PLACE: Final = (
    StructField("recordPartition", IntegerType()),  # of the brokers' internal topic
    StructField("recordOffset", LongType()),
)
OFFSET: Final = StructType(
    [
        StructField("group", StringType()),
        StructField("topic", StringType()),
        StructField("partition", IntegerType()),
        StructField("offset", LongType()),
        StructField("leaderEpoch", IntegerType()),  # null: none; so are all that follow
        StructField("metadata", StringType()),
        StructField("commitTimestamp", TimestampType()),
        StructField("expireTimestamp", TimestampType()),  # if the client has set it
        StructField("topicId", StringType()),
        *RECORD_PLACE,
    ]
)
MEMBER: Final = StructType(
    [
        StructField("memberId", StringType()),
        StructField("groupInstanceId", StringType()),
        StructField("clientId", StringType()),
        StructField("clientHost", StringType()),
        StructField("sessionTimeoutMs", IntegerType()),
        StructField("rebalanceTimeoutMs", IntegerType()),
        StructField("subscription", BinaryType()),
        StructField("assignment", BinaryType()),
    ]
)
GROUP: Final = StructType(
    [
        StructField("group", StringType()),
        StructField("type", StringType()),  # classic, consumer, share, streams
        StructField("records", ArrayType(StringType())),  # Kafka's names of its records
        # This column and all that follow are null if the type is not classic.
        StructField("protocolType", StringType()),
        StructField("protocol", StringType()),
        StructField("generation", IntegerType()),
        StructField("leader", StringType()),
        StructField("stateTimestamp", TimestampType()),
        StructField("members", ArrayType(MEMBER)),
        *RECORD_PLACE,
    ]
)
TOPIC_PARTITION: Final = StructType(
    [StructField("topic", StringType()), StructField("partition", IntegerType())]
)
TRANSACTION: Final = StructType(
    [
        StructField("transactionalId", StringType()),
        StructField("producerId", LongType()),
        StructField("producerEpoch", IntegerType()),
        StructField("previousProducerId", LongType()),
        StructField("nextProducerId", LongType()),
        StructField("timeoutMs", IntegerType()),
        StructField("state", StringType()),  # Ongoing, PrepareCommit, CompleteCommit, ...
        StructField("partitions", ArrayType(TOPIC_PARTITION)),
        StructField("startTimestamp", TimestampType()),
        StructField("updateTimestamp", TimestampType()),
        *RECORD_PLACE,
    ]
)
COUNT: Final = StructType(
    [
        StructField("topic", StringType()),
        StructField("partition", IntegerType()),
        StructField("records", LongType()),  # of a split
    ]
)
SPLIT: Final = StructType(
    [
        StructField("topic", StringType()),
        StructField("partition", IntegerType()),
        StructField("segment", StringType()),  # the file
        StructField("position", LongType()),
        StructField("bytes", LongType()),
        StructField("startOffset", LongType()),
        StructField("endOffset", LongType()),
        # copies of the log that may have offsets that this one lacks
        StructField("copies", IntegerType()),
        StructField("task", IntegerType()),  # null: it is not read
        StructField("pruned", StringType()),  # why it is not read
    ]
)
LEVELS: Final = {
    "count": COUNT,
    "split": SPLIT,
    "record": RECORD,
    "batch": BATCH,
    "offset": OFFSET,
    "group": GROUP,
    "transaction": TRANSACTION,
}
CORRUPT: Final = StructType(
    [
        StructField("segment", StringType()),
        StructField("position", LongType()),  # of the damaged batch
        StructField("reason", StringType()),
        StructField("startOffset", LongType()),  # of the missing offsets; null: not known
        StructField("endOffset", LongType()),  # the offset after it; null: not known
        StructField("state", StringType()),  # torn, damaged or missing
    ]
)

TIMESTAMP: Final = pa.timestamp("us", tz="UTC")
ARROW: Final[dict[type[DataType], Any]] = {
    BinaryType: pa.binary(),
    BooleanType: pa.bool_(),
    DateType: pa.date32(),
    IntegerType: pa.int32(),
    LongType: pa.int64(),
    StringType: pa.string(),
    TimestampType: TIMESTAMP,
}


def schema_of(options: Options) -> StructType:
    """All columns for these options."""
    fields = list(LEVELS[options.level].fields)
    if options.include_headers and options.level == "record":
        fields.append(StructField("headers", HEADERS))
    if options.mode is Mode.PERMISSIVE and options.level not in ("count", "split"):
        if options.corrupt_column in {field.name for field in fields}:
            raise ValueError(
                f"columnNameOfCorruptRecord: {options.corrupt_column} is taken; name another column"
            )
        fields.append(StructField(options.corrupt_column, CORRUPT))
    if options.columns:
        there = {field.name: field for field in fields}
        unknown = [name for name in options.columns if name not in there]
        if unknown:
            raise ValueError(f"columns: no {', '.join(unknown)}; there are {', '.join(there)}")
        fields = [there[name] for name in options.columns]
    return StructType(fields)


def check_wanted(wanted: Sequence[StructField], options: Options) -> None:
    """Checks a given schema. ValueError: it names an unknown column, or one of another type."""
    there = {field.name: field.dataType for field in schema_of(options).fields}
    for field in wanted:
        if field.name not in there:
            raise ValueError(f"no column {field.name!r}; there are {', '.join(there)}")
        if field.dataType != there[field.name]:
            raise ValueError(
                f"column {field.name!r} is {there[field.name].simpleString()}, "
                f"not {field.dataType.simpleString()}"
            )


def arrow_schema(schema: StructType) -> Any:
    """The Arrow schema that Spark derives from one of its own."""
    return pa.schema([_arrow_field(field) for field in schema.fields])


def _arrow_field(field: StructField) -> Any:
    return pa.field(field.name, _arrow_type(field.dataType), nullable=field.nullable)


def _arrow_type(kind: DataType) -> Any:
    if isinstance(kind, StructType):
        return pa.struct([_arrow_field(field) for field in kind.fields])
    if isinstance(kind, ArrayType):
        element = pa.field("element", _arrow_type(kind.elementType), nullable=kind.containsNull)
        return pa.list_(element)
    return ARROW[type(kind)]
