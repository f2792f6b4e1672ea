"""Kafka's segments on Spark: a data source over log directories, and jobs over what it reads.

Importing this package imports neither Spark nor Arrow, which are of the extra `spark`."""

import os
import sys
from typing import TYPE_CHECKING, Final

from .notices import listen, name_place

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["count", "register", "splits"]

_FOUND: Final = "DATA_SOURCE_ALREADY_EXISTS"

name_place()


def register(session: "SparkSession") -> None:
    """Makes the format known to a session that has not found it by itself.

    On this machine the session's tasks then run in the driver's Python, unless PYSPARK_PYTHON names
    another one: Spark would take the `python3` of the path, which has none of what is in a virtual
    environment that was not activated. Warnings of lost records are warnings of the driver's.

        register(spark)
        records = spark.read.format("kafka-segments").load("/backup/broker-1")
        records.groupBy("topic", "partition").count().show()

    Options and columns: docs/spark.md."""
    from pyspark.errors import AnalysisException

    from .source import SegmentSource

    context = getattr(session, "sparkContext", None)  # Spark Connect has none
    if context is not None and context.master.startswith("local"):
        context.pythonExec = os.environ.get("PYSPARK_PYTHON", sys.executable)
    listen()
    try:
        session.dataSource.register(SegmentSource)
    except AnalysisException as error:
        if error.getCondition() != _FOUND:  # by way of pyspark_kafka_segments
            raise


def count(session: "SparkSession", *paths: str, **options: str) -> int:
    """How many records a query with these options reads. In v2 the headers of batches have the
    count, so no record is read.

    A DataFrame's own `count()` reads all records: Spark does not tell a source in Python that no
    column is wanted."""
    found = _rows(session, "count", paths, options).groupBy().sum("records").collect()
    return int(found[0][0] or 0)


def splits(session: "SparkSession", *paths: str, **options: str) -> "DataFrame":
    """The plan of a query with these options: a row for each split, with its task, and one for each
    segment of its partitions that is left out, with the reason (`pruned`)."""
    return _rows(session, "split", paths, options)


def _rows(
    session: "SparkSession", level: str, paths: tuple[str, ...], options: dict[str, str]
) -> "DataFrame":
    register(session)
    reader = session.read.format("kafka-segments").options(**options)
    return reader.option("level", level).load(list(paths))
