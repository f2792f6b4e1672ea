"""The data source `kafka-segments`: its name, schema and readers for Spark.

Not here: its options (options.py), its columns (schemas.py), reading (reader.py, stream.py)."""

from typing import Final

from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from .notices import forward
from .options.options import Options
from .options.schemas import schema_of
from .read.reader import SegmentReader
from .read.tables import options_of, with_options
from .stream.stream import SegmentStreamReader

FORMAT: Final = "kafka-segments"

forward()


class SegmentSource(DataSource):
    """`spark.read.format("kafka-segments")`."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> StructType:
        return with_options(schema_of(Options.parse(self.options)), self.options)

    def reader(self, schema: StructType) -> SegmentReader:
        options = options_of(schema, self.options)
        return SegmentReader(Options.parse(options, streaming=False), schema)

    def streamReader(self, schema: StructType) -> SegmentStreamReader:  # noqa: N802 - Spark's name
        options = options_of(schema, self.options)
        return SegmentStreamReader(Options.parse(options, streaming=True), schema)
