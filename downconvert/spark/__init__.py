"""Kafka's segments on Spark: a data source over log directories, and jobs over what it reads.

Importing this package imports neither Spark nor Arrow, which are of the extra `spark`."""

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["register"]

_FOUND: Final = "DATA_SOURCE_ALREADY_EXISTS"


def register(session: "SparkSession") -> None:
    """Makes the format known to a session that has not found it by itself.

        register(spark)
        records = spark.read.format("kafka-segments").load("/backup/broker-1")
        records.groupBy("topic", "partition").count().show()

    Options and columns: docs/spark.md."""
    from pyspark.errors import AnalysisException

    from .source import SegmentSource

    try:
        session.dataSource.register(SegmentSource)
    except AnalysisException as error:
        if error.getCondition() != _FOUND:  # by way of pyspark_kafka_segments
            raise
