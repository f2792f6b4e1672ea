"""The data source `kafka-segments`: what Spark is told of it.

Not here: its options (options.py), its columns (schemas.py), reading (reader.py, stream.py)."""

from typing import Final

from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from .options import Options
from .reader import SegmentReader
from .schemas import schema_of
from .stream import SegmentStreamReader

FORMAT: Final = "kafka-segments"


def register(session: SparkSession) -> None:
    """Makes the format known to a session.

        register(spark)
        records = spark.read.format("kafka-segments").load("/backup/broker-1")
        records.groupBy("topic", "partition").count().show()

    Options and columns: docs/spark.md."""
    session.dataSource.register(SegmentSource)


class SegmentSource(DataSource):
    """`spark.read.format("kafka-segments")`."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> StructType:
        return schema_of(Options.parse(self.options))

    def reader(self, schema: StructType) -> SegmentReader:
        return SegmentReader(Options.parse(self.options, streaming=False), schema)

    def streamReader(self, schema: StructType) -> SegmentStreamReader:  # noqa: N802 - Spark's name
        return SegmentStreamReader(Options.parse(self.options, streaming=True), schema)
