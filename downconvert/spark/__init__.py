"""Kafka's segments on Spark: a data source over log directories, and jobs that use it.

Importing this package imports neither Spark nor Arrow, which the extra `spark` installs."""

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
    another one. Spark's own choice is the first `python3` in PATH, which lacks the packages of a
    virtual environment that was not activated. Warnings of lost records appear in the driver.

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
        if error.getCondition() != _FOUND:  # _FOUND: pyspark_kafka_segments has registered it
            raise


def count(session: "SparkSession", *paths: str, **options: str) -> int:
    """The number of records that a query with these options reads. For v2 this reads the batch
    headers only, because they have the count.

    A DataFrame's own `count()` reads all records: Spark does not let a source in Python know that
    no column is wanted."""
    found = _rows(session, "count", paths, options).groupBy().sum("records").collect()
    return int(found[0][0] or 0)


def splits(session: "SparkSession", *paths: str, **options: str) -> "DataFrame":
    """The plan of a query with these options. It has a row for each split, with its task. It also
    has a row for each segment of the query's partitions that is left out, with the reason
    (`pruned`)."""
    return _rows(session, "split", paths, options)


def _rows(
    session: "SparkSession", level: str, paths: tuple[str, ...], options: dict[str, str]
) -> "DataFrame":
    register(session)
    reader = session.read.format("kafka-segments").options(**options)
    return reader.option("level", level).load(list(paths))
