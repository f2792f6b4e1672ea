"""Lets Spark find the format `kafka-segments` by itself: `spark.read.format("kafka-segments")`.

Spark 4 imports every module whose name begins with `pyspark_`, and uses its `DefaultSource`. If one
of them cannot be imported, Spark finds no source of any other. So only Spark is imported before the
format is used.

Not here: the source itself (downconvert/spark/source.py)."""

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from downconvert.spark.read.reader import SegmentReader
    from downconvert.spark.source import SegmentSource
    from downconvert.spark.stream.stream import SegmentStreamReader


class DefaultSource(DataSource):
    """The data source, imported when it is used."""

    @classmethod
    def name(cls) -> str:
        return "kafka-segments"

    def schema(self) -> "StructType":
        return self._source().schema()

    def reader(self, schema: "StructType") -> "SegmentReader":
        return self._source().reader(schema)

    def streamReader(self, schema: "StructType") -> "SegmentStreamReader":  # noqa: N802
        return self._source().streamReader(schema)

    def _source(self) -> "SegmentSource":
        from downconvert.spark.source import SegmentSource

        return SegmentSource(self.options)
