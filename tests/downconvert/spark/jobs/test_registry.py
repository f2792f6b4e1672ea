"""The schema registry's header is read and taken off."""

from pyspark.sql import SparkSession

from downconvert.spark.jobs.registry import payload, schema_id

VALUES = [
    (b"\x00\x00\x00\x01\x02body", 258, b"body"),
    (b"\x00\x7f\xff\xff\xff", 2**31 - 1, b""),
    (b"\x00\x00\x00\x01", None, b"\x00\x00\x00\x01"),
    (b"\x01\x00\x00\x01\x02body", None, b"\x01\x00\x00\x01\x02body"),
    (b"", None, b""),
    (None, None, None),
]


def test_schema_ids_and_payloads(spark: SparkSession) -> None:
    frame = spark.createDataFrame([(value,) for value, _, _ in VALUES], "value binary")
    for column in (frame.value, "value"):
        rows = frame.select(schema_id(column).alias("id"), payload(column).alias("rest"))
        found = [(row.id, None if row.rest is None else bytes(row.rest)) for row in rows.collect()]
        assert found == [(identity, rest) for _, identity, rest in VALUES]
