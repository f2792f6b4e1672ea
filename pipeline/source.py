"""The data source `kafka-segments`: what Spark is told of it.

Not here: its options (options.py), its columns (schemas.py), reading (reader.py)."""

from typing import Final

from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource

FORMAT: Final = "kafka-segments"


def register(session: SparkSession) -> None:
    """Makes the format known to a session."""
    session.dataSource.register(SegmentSource)


class SegmentSource(DataSource):
    """`spark.read.format("kafka-segments")`."""

    @classmethod
    def name(cls) -> str:
        return FORMAT
