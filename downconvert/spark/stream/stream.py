"""Spark's streaming reader: follows growing logs, a micro-batch at a time.

Not here: up to which offsets logs can be read (follow.py), reading (rows.py, batches.py)."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import pyspark
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from downconvert.spark.logs.places import Json, Place, from_json, to_json
from downconvert.spark.options.options import Options
from downconvert.spark.options.schemas import check_wanted
from downconvert.spark.plan.bounds import EVERYTHING
from downconvert.spark.plan.planner import tasks_of
from downconvert.spark.read.reader import Task, read_splits

from .follow import LogFollower, Offsets
from .followed_logs import FollowedLogs

if TYPE_CHECKING:
    from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow
else:
    try:
        from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow
    except ImportError:  # before Spark 4.2

        class SupportsTriggerAvailableNow:
            """A placeholder: this Spark has no such trigger for data sources in Python."""


# Spark 4.0 and 4.1 do not pass limits to sources in Python, and would read everything at once.
HAS_LIMITS: Final = hasattr(DataSourceStreamReader, "getDefaultReadLimit")


Limit: TypeAlias = "ReadLimit | None"


class SegmentStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """`spark.readStream.format("kafka-segments")`."""

    def __init__(self, options: Options, schema: StructType) -> None:
        check_wanted(schema.fields, options)
        if not HAS_LIMITS and (options.max_offsets_per_trigger or options.max_bytes_per_trigger):
            raise ValueError(
                f"Spark {pyspark.__version__} ignores the limits of sources in Python: leave "
                "maxOffsetsPerTrigger and maxBytesPerTrigger out, or use Spark 4.2"
            )
        self._options = options
        self._schema = schema
        self._following: LogFollower | None = None  # in the driver only
        self._target: Offsets | None = None  # where an availableNow query ends
        self._latest: Json | None = None  # for Spark before 4.2, which does not pass its position

    def initialOffset(self) -> Json:  # noqa: N802 - Spark's names
        self._latest = to_json(self._follow().initial())
        return self._latest

    def latestOffset(self, start: Json | None = None, limit: Limit = None) -> Json:  # noqa: N802
        """The offsets up to which the next micro-batch reads."""
        following = self._follow()
        ends = following.refresh()
        if self._target is not None:
            ends = {n: min(end, self._target[n]) for n, end in ends.items() if n in self._target}
        start = start if start is not None else self._latest
        if start is None:  # after a restart
            places = following.placed(ends)
        else:
            places = following.latest(
                from_json(start),
                ends,
                offsets_max=getattr(limit, "max_rows", None),
                bytes_max=getattr(limit, "max_bytes", None),
                is_final=self._target is not None,
            )
        self._latest = to_json(places)
        return self._latest

    def getDefaultReadLimit(self) -> "ReadLimit":  # noqa: N802
        from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxBytes, ReadMaxRows

        if self._options.max_offsets_per_trigger is not None:
            return ReadMaxRows(self._options.max_offsets_per_trigger)
        if self._options.max_bytes_per_trigger is not None:
            return ReadMaxBytes(self._options.max_bytes_per_trigger)
        return ReadAllAvailable()

    def reportLatestOffset(self) -> Json:  # noqa: N802
        ends = self._follow().known()
        return to_json({name: Place(end) for name, end in ends.items()})

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._target = self._follow().refresh()

    def partitions(self, start: Json, end: Json) -> list[InputPartition]:
        wholes = list(self._follow().splits(from_json(start), from_json(end)))
        return [Task(group) for group in tasks_of(wholes, self._options)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        if not isinstance(partition, Task):
            return iter(())
        return read_splits(partition.splits, self._options, EVERYTHING, self._schema)

    def _follow(self) -> LogFollower:
        if self._following is None:
            self._following = LogFollower(self._options, FollowedLogs(self._options))
        return self._following
