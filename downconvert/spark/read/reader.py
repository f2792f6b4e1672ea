"""Spark's reader of the data source: partitions in the driver, record batches in the workers.

Not here: what is read (planner.py), and how (rows.py, batches.py, state_tables.py)."""

import os
import socket
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from .batches import read_batches
from .bounds import Bounds
from .errors import DataLossError, NotMountedError, SegmentChangedError
from .options import Options
from .planner import plan
from .rows import read_records
from .schemas import arrow_schema, check_wanted
from .splits import Split
from .state_tables import StateTable
from .workers import spare_what_is_loaded

EVERYTHING: Final = Bounds()


@dataclass
class Task(InputPartition):
    """What one Spark task reads."""

    splits: tuple[Split, ...]


class SegmentReader(DataSourceReader):
    """Reads the files as they were when it was planned; `load` again for what came later."""

    def __init__(self, options: Options, schema: StructType) -> None:
        check_wanted(schema.fields, options)
        self._options = options
        self._schema = schema
        self._bounds = EVERYTHING
        # Where push-down is off, Spark does not call this, and refuses readers that override it.
        self.pushFilters = PushFilters(self)  # type: ignore[method-assign]

    def narrow(self, filters: Iterable[Any]) -> None:
        """Leaves out what these filters would drop."""
        if self._options.state_topic is None:  # else columns of these names are not the log's
            self._bounds = self._bounds.narrowed(filters)

    def partitions(self) -> list[InputPartition]:
        return [Task(splits) for splits in plan(self._options, self._bounds)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        if not isinstance(partition, Task):  # Spark reads one empty partition where there is none
            return iter(())
        return read_splits(partition.splits, self._options, self._bounds, self._schema)


class PushFilters:
    """A `pushFilters` that Spark takes for one that was not overridden, where push-down is off."""

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

    DataLossError: a segment was deleted or changed since it was planned, and `failOnDataLoss` is
    set. NotMountedError: its directory is not on this machine. That is an error whatever
    `failOnDataLoss` says: no data is lost."""
    spare_what_is_loaded()
    wanted = arrow_schema(schema)
    table = StateTable(options, wanted) if options.state_topic is not None else None
    for split in splits:
        try:
            if table is not None:
                yield from table.read(split)
            elif options.level == "batch":
                yield from read_batches(split, options, wanted)
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
