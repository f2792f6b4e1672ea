"""The wanted rows, from the filters that Spark pushes down.

Bounds only leave out rows that the filters would drop. Spark applies all filters again, so an
unknown filter may be ignored here.

Not here: bounds from options (options.py)."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final

from pyspark.sql import datasource

INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1
MICROSECONDS: Final = {"days": 86_400_000_000, "seconds": 1_000_000, "microseconds": 1}


@dataclass(frozen=True, slots=True)
class Bounds:
    """The wanted topics, partitions, offsets and timestamps (microseconds).

    Ranges include both ends. None: all."""

    topics: frozenset[str] | None = None
    partitions: frozenset[int] | None = None
    offset_min: int = INT64_MIN
    offset_max: int = INT64_MAX
    partition_min: int = INT64_MIN
    partition_max: int = INT64_MAX
    time_min: int = INT64_MIN
    time_max: int = INT64_MAX

    def takes(self, topic: str, partition: int) -> bool:
        """Whether a partition may have wanted rows."""
        return (
            (self.topics is None or topic in self.topics)
            and (self.partitions is None or partition in self.partitions)
            and self.partition_min <= partition <= self.partition_max
        )

    @property
    def bound_times(self) -> bool:
        return self.time_min != INT64_MIN or self.time_max != INT64_MAX

    def narrowed(self, filters: Iterable[Any]) -> "Bounds":
        """These bounds and those of the filters, all of which must be met."""
        bounds = self
        for found in filters:
            bounds = bounds._narrowed(found)
        return bounds

    def _narrowed(self, found: Any) -> "Bounds":
        column = found.attribute[0] if len(getattr(found, "attribute", ())) == 1 else None
        kind = {"offset": "offset", "partition": "partition", "timestamp": "time"}.get(column or "")
        if column == "topic":
            return self._of_topics(found)
        if kind is None:
            return self
        values = _values(found, kind)
        if not values:
            return self
        low, high = min(values), max(values)
        match type(found).__name__:
            case "EqualTo" | "EqualNullSafe" | "In":
                bounds = self._from(kind, low)._to(kind, high)
                return bounds._of_partitions(frozenset(values)) if kind == "partition" else bounds
            case "GreaterThan":
                return self._from(kind, low + 1)
            case "GreaterThanOrEqual":
                return self._from(kind, low)
            case "LessThan":
                return self._to(kind, high - 1)
            case "LessThanOrEqual":
                return self._to(kind, high)
        return self

    def _of_topics(self, found: Any) -> "Bounds":
        if isinstance(found, datasource.In):
            topics = frozenset(found.value)
        elif isinstance(found, datasource.EqualTo | datasource.EqualNullSafe):
            topics = frozenset([found.value])
        else:
            return self
        return replace(self, topics=topics if self.topics is None else topics & self.topics)

    def _of_partitions(self, partitions: frozenset[int]) -> "Bounds":
        both = partitions if self.partitions is None else partitions & self.partitions
        return replace(self, partitions=both)

    def _from(self, kind: str, value: int) -> "Bounds":
        name = f"{kind}_min"
        return replace(self, **{name: max(value, getattr(self, name))})

    def _to(self, kind: str, value: int) -> "Bounds":
        name = f"{kind}_max"
        return replace(self, **{name: min(value, getattr(self, name))})


EVERYTHING: Final = Bounds()


def _values(found: Any, kind: str) -> list[int]:
    """The values in a filter, as integers; empty if they are unknown."""
    given = getattr(found, "value", None)
    values = list(given) if isinstance(given, tuple | list) else [given]
    if kind == "time":
        times = [_microseconds(value) for value in values if isinstance(value, datetime)]
        return times if len(times) == len(values) else []
    numbers = [value for value in values if type(value) is int]
    return numbers if len(numbers) == len(values) else []


def _microseconds(time: datetime) -> int:
    """Microseconds since 1970; timestamps from Spark have a zone, or are in UTC."""
    since = (time if time.tzinfo else time.replace(tzinfo=UTC)) - datetime(1970, 1, 1, tzinfo=UTC)
    return sum(getattr(since, name) * size for name, size in MICROSECONDS.items())
