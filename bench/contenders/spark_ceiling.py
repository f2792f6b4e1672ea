"""Spark's own cost for rows of a source in Python: a data source that does no work.

It hands the first record batch of a log to Spark again and again, until it has handed over about as
many rows as the log has."""

from collections.abc import Iterator
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from downconvert.spark.options.options import Options
from downconvert.spark.options.schemas import schema_of
from downconvert.spark.read.reader import SegmentReader
from downconvert.spark.read.workers import spare_what_is_loaded

COPIES: Final = "copies"


class Ceiling(DataSource):
    """Yields the first batch of each task, `copies` times."""

    @classmethod
    def name(cls) -> str:
        return "ceiling"

    def _options(self) -> Options:
        given = {name: text for name, text in self.options.items() if name != COPIES}
        return Options.parse(given, streaming=False)

    def schema(self) -> Any:
        return schema_of(self._options())

    def reader(self, schema: Any) -> "CeilingReader":
        reader = SegmentReader(self._options(), schema)
        return CeilingReader(reader, int(self.options[COPIES]))


class CeilingReader(DataSourceReader):
    def __init__(self, reader: SegmentReader, copies: int) -> None:
        self._reader = reader
        self._copies = copies

    def partitions(self) -> list[InputPartition]:
        return self._reader.partitions()

    def read(self, partition: InputPartition) -> Iterator[Any]:
        spare_what_is_loaded()  # as the reader's tasks do
        batch = next(self._reader.read(partition))
        for _ in range(self._copies):
            yield batch


def copies_of(path: str, **options: str) -> tuple[int, int]:
    """How often each task must repeat its first rows to reach the log's number of rows; and this
    number of rows."""
    given = {name.lower(): text for name, text in options.items()}
    parsed = Options.parse(given | {"path": path}, streaming=False)
    reader = SegmentReader(parsed, schema_of(parsed))
    tasks = [[batch.num_rows for batch in reader.read(task)] for task in reader.partitions()]
    total = sum(map(sum, tasks))
    return max(1, total // sum(sizes[0] for sizes in tasks)), total


def ceiling(session: SparkSession, path: str, **options: str) -> DataFrame:
    """About as many rows as the data source reads with these options."""
    session.dataSource.register(Ceiling)
    copies, _ = copies_of(path, **options)
    return session.read.format(Ceiling.name()).options(copies=copies, **options).load(path)
