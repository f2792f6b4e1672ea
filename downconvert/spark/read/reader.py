"""Spark's reader of the data source: partitions in the driver, record batches in the workers.

Not here: planning (planner.py), and decoding (rows.py, batches.py, state_tables.py)."""

import os
import socket
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from downconvert.spark.errors import DataLossError, NotMountedError, SegmentChangedError
from downconvert.spark.logs.splits import Split
from downconvert.spark.options.options import Options
from downconvert.spark.options.schemas import arrow_schema, check_wanted
from downconvert.spark.plan.bounds import EVERYTHING, Bounds
from downconvert.spark.plan.planned import rows_of
from downconvert.spark.plan.planner import plan

from .batches import read_batches
from .counting import read_counts
from .rows import read_records
from .state_tables import StateTable
from .workers import spare_what_is_loaded


@dataclass
class Task(InputPartition):
    """The splits or rows of one Spark task."""

    splits: tuple[Split, ...]
    rows: tuple[dict[str, Any], ...] = ()  # rows that the driver has already


class SegmentReader(DataSourceReader):
    """Reads the files that existed at planning. Call `load` again to include later ones."""

    def __init__(self, options: Options, schema: StructType) -> None:
        check_wanted(schema.fields, options)
        self._options = options
        self._schema = schema
        self._bounds = EVERYTHING
        # If push-down is off, Spark does not call this, and refuses readers that override it.
        self.pushFilters = PushFilters(self)  # type: ignore[method-assign]

    def narrow(self, filters: Iterable[Any]) -> None:
        """Leaves out rows that these filters would drop."""
        if self._options.state_topic is None:  # else the columns are not those of a log
            self._bounds = self._bounds.narrowed(filters)

    def partitions(self) -> list[InputPartition]:
        if self._options.level == "split":
            return [Task((), tuple(rows_of(self._options, self._bounds)))]
        return [Task(splits) for splits in plan(self._options, self._bounds)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        if not isinstance(partition, Task):  # Spark reads one empty partition if there is none
            return iter(())
        if partition.rows:
            schema = arrow_schema(self._schema)
            return iter([pa.RecordBatch.from_pylist(list(partition.rows), schema=schema)])
        return read_splits(partition.splits, self._options, self._bounds, self._schema)


class PushFilters:
    """A `pushFilters` that Spark does not see as an override, if push-down is off."""

    def __init__(self, reader: SegmentReader) -> None:
        self._reader = reader
        self.__func__ = getattr(DataSourceReader, "pushFilters", None)

    def __call__(self, filters: list[Any]) -> list[Any]:
        """Notes filters, and returns all of them for Spark to apply once more."""
        self._reader.narrow(filters)
        return filters


def read_splits(
    splits: Iterable[Split], options: Options, bounds: Bounds, schema: StructType
) -> Iterator[Any]:
    """Record batches of splits, one after the other.

    DataLossError: a segment was deleted or changed since planning, and `failOnDataLoss` is set.
    NotMountedError: its directory is not on this machine. `failOnDataLoss` does not matter for it,
    because no data is lost."""
    spare_what_is_loaded()
    wanted = arrow_schema(schema)
    table = StateTable(options, wanted) if options.state_topic is not None else None
    for split in splits:
        try:
            if table is not None:
                yield from table.read(split)
            elif options.level == "batch":
                yield from read_batches(split, options, wanted)
            elif options.level == "count":
                yield from read_counts(split, options, wanted)
            else:
                yield from read_records(split, options, bounds, wanted)
        except FileNotFoundError as error:
            directory = split.segment.directory
            is_mounted = not split.segment.blobs
            if is_mounted and not os.path.isdir(directory):  # noqa: PTH112 - strings, as planned
                raise NotMountedError(directory, socket.gethostname()) from error
            lost = f"{error.filename} was deleted after the query was planned"
        except SegmentChangedError as error:
            lost = str(error)
        else:
            continue
        if options.fail_on_data_loss:
            raise DataLossError(lost)
        warnings.warn(lost, RuntimeWarning, stacklevel=2)
    if table is not None:
        yield from table.rows()
