"""The options of the data source. Names and forms are those of Spark's own Kafka source if it has
the option.

Not here: options that only Spark's Kafka source has (kafka_options.py), applying them
(planner.py)."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Any, Final, Literal, TypeAlias, TypeVar, get_args

from downconvert.internal_topics.names import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from downconvert.spark.stores.data_keys import DataKeys, parse_keys
from downconvert.spark.stores.stores import is_stored, pinned
from records.units import MiB

from .java_patterns import compiled
from .kafka_options import renamed, unknown
from .offsets import (
    EARLIEST,
    LATEST,
    StartingPoint,
    TopicTimestamps,
    check_order,
    check_orders,
    parse_assigned,
    parse_timestamps,
)
from .paths import json_list, plain

UNITS: Final = {"": 1, "b": 1, "k": 1024, "m": MiB, "g": 1024 * MiB}
BYTES: Final = re.compile(r"([0-9]{1,18})\s*([bkmg]?)(?:i?b)?", re.IGNORECASE)
INTEGERS: Final = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9}))?")

# Sixteen times a broker's default limit. A worker then stays below 256 MB: it holds about four
# copies of a record on its way to Spark.
RECORD_BYTES_MAX: Final = 16 * MiB

# A larger record would not fit into one Arrow array of type binary together with others.
RECORD_BYTES_LIMIT: Final = 1024 * MiB

# Before a task reads anything, it takes some 0.1 s of a core, and its plan takes memory of the
# driver. With smaller tasks, a query of a few gigabytes does not finish.
PARTITION_BYTES_MIN: Final = MiB

# Enough to copy a segment of a gigabyte at 2 MB/s.
GAP_TIMEOUT: Final = 10 * 60 * 1000  # milliseconds

Level: TypeAlias = Literal["record", "batch", "offset", "group", "transaction", "count", "split"]
LEVELS: Final[tuple[Level, ...]] = get_args(Level)

# The brokers' internal topic from which the rows of a level are built.
STATE_TOPICS: Final[Mapping[Level, str]] = {
    "offset": OFFSETS_TOPIC,
    "group": OFFSETS_TOPIC,
    "transaction": TRANSACTIONS_TOPIC,
}
Parsed = TypeVar("Parsed")


class Mode(StrEnum):
    """How damaged batches are handled."""

    PERMISSIVE = "PERMISSIVE"  # a row per damaged batch, with position and reason
    DROPMALFORMED = "DROPMALFORMED"  # they are left out
    FAILFAST = "FAILFAST"  # the first one fails the query


@dataclass(frozen=True, slots=True)
class Options:
    """Which directories and records to read, and how.

    Offsets and timestamps limit what is read; None: no limit. Timestamps are in milliseconds."""

    paths: tuple[str, ...]
    level: Level = "record"
    include_headers: bool = False
    topics: tuple[str, ...] = ()  # names, also with * and ?; none: all
    topics_pattern: str | None = None
    assigned: frozenset[tuple[str, int]] | None = None  # topics and partitions; None: all
    partitions: frozenset[int] | None = None
    starting: StartingPoint = EARLIEST
    ending: StartingPoint = LATEST
    starting_timestamp: int | None = None
    ending_timestamp: int | None = None
    starting_offsets_by_timestamp: TopicTimestamps = field(default_factory=dict)
    ending_offsets_by_timestamp: TopicTimestamps = field(default_factory=dict)
    must_find_timestamp: bool = False  # fail if all records are older than the start
    committed: bool = False
    max_partition_bytes: int = 128 * MiB
    min_partitions: int | None = None
    max_record_bytes: int = RECORD_BYTES_MAX
    verify_crc: bool = True
    mode: Mode = Mode.FAILFAST
    corrupt_column: str = "_corrupt"
    fail_on_data_loss: bool = True
    compacted: tuple[str, ...] = ()  # compacted topics: names, also with * and ?
    cluster_id: str | None = None  # the cluster to read; None: there is only one
    stop_at_high_watermark: bool = False
    max_offsets_per_trigger: int | None = None
    max_bytes_per_trigger: int | None = None
    gap_timeout_ms: int = GAP_TIMEOUT  # milliseconds
    columns: tuple[str, ...] = ()  # the wanted columns; none: all
    store_settings: tuple[tuple[str, str], ...] = ()  # added to the URIs of paths
    encryption_keys: str | None = None  # of tiered storage; None: those of the environment

    @property
    def state_topic(self) -> str | None:
        """The brokers' internal topic that is read; None: rows are the records of any topic."""
        return STATE_TOPICS.get(self.level)

    @property
    def stored_paths(self) -> tuple[str, ...]:
        """The paths, with the settings of their stores."""
        settings = dict(self.store_settings)
        return tuple(pinned(path, settings) if is_stored(path) else path for path in self.paths)

    @property
    def data_keys(self) -> DataKeys:
        """The keys of encrypted tiered storage."""
        given = self.encryption_keys
        return DataKeys(None if given is None else parse_keys(given))

    @classmethod
    def parse(cls, given: Mapping[str, str], *, streaming: bool | None = None) -> "Options":
        """Parses Spark's options. Names are case-insensitive. ValueError names the wrong one.

        `streaming`: whether a stream is read; None: not known yet."""
        reader = _Reader(renamed(given))
        options = cls(
            paths=reader.paths(),
            level=reader.choice("level", *LEVELS),
            include_headers=reader.boolean("includeHeaders", default=False),
            topics=reader.given_names("topics"),
            topics_pattern=reader.pattern("topicsPattern"),
            assigned=reader.json("assign", parse_assigned),
            partitions=reader.integers("partitions"),
            starting=reader.json("startingOffsets", StartingPoint.parse)
            or (LATEST if streaming else EARLIEST),
            ending=reader.json("endingOffsets", StartingPoint.parse) or LATEST,
            starting_timestamp=reader.integer("startingTimestamp"),
            ending_timestamp=reader.integer("endingTimestamp"),
            starting_offsets_by_timestamp=reader.json(
                "startingOffsetsByTimestamp", parse_timestamps
            )
            or {},
            ending_offsets_by_timestamp=reader.json("endingOffsetsByTimestamp", parse_timestamps)
            or {},
            must_find_timestamp=reader.choice(
                "startingOffsetsByTimestampStrategy", "latest", "error"
            )
            == "error",
            committed=reader.choice("isolation", "read_uncommitted", "read_committed")
            == "read_committed",
            max_partition_bytes=reader.size(
                "maxPartitionBytes", 128 * MiB, minimum=PARTITION_BYTES_MIN
            ),
            min_partitions=reader.integer("minPartitions", minimum=1),
            max_record_bytes=reader.size(
                "maxRecordBytes", RECORD_BYTES_MAX, maximum=RECORD_BYTES_LIMIT
            ),
            verify_crc=reader.boolean("verifyCrc", default=True),
            mode=Mode(reader.choice("mode", *reversed([m.value for m in Mode])).upper()),
            corrupt_column=reader.take("columnNameOfCorruptRecord") or "_corrupt",
            fail_on_data_loss=reader.boolean("failOnDataLoss", default=True),
            compacted=reader.names("compacted"),
            cluster_id=reader.take("clusterId") or None,
            stop_at_high_watermark=reader.boolean("stopAtHighWatermark", default=bool(streaming)),
            max_offsets_per_trigger=reader.integer("maxOffsetsPerTrigger", minimum=1),
            max_bytes_per_trigger=reader.size("maxBytesPerTrigger", None),
            gap_timeout_ms=reader.integer("gapTimeoutMs", default=GAP_TIMEOUT),
            columns=reader.columns("columns"),
            store_settings=reader.settings(endpoint="endpoint_override", region="region"),
            encryption_keys=reader.take("encryptionKeys"),
        )
        reader.finish()
        options = options._of_level()
        if streaming is not None:
            options._check(streaming=streaming)
        return options

    def _of_level(self) -> "Options":
        """The same options, with the topic of the level."""
        topic = self.state_topic
        if topic is None:
            return self
        if self.topics or self.topics_pattern is not None or self.assigned is not None:
            raise ValueError(
                f"level={self.level} is read from {topic}: leave assign, topics (subscribe) and "
                "topicsPattern (subscribePattern) out"
            )
        if self.include_headers or self.committed:
            raise ValueError(
                f"level={self.level} has no headers, and counts what is committed: leave "
                "includeHeaders and isolation out"
            )
        return replace(self, topics=(topic,))

    def _check(self, *, streaming: bool) -> None:
        if streaming and self.level in ("count", "split"):
            raise ValueError(f"level={self.level} works in a query, not in a stream")
        if streaming and self.state_topic is not None:
            raise ValueError(
                f"level={self.level} is the result of all records: a query reads it, not a stream"
            )
        if self.encryption_keys is not None:
            parse_keys(self.encryption_keys)
        has_end = self.ending_timestamp is not None or self.ending_offsets_by_timestamp
        if streaming and (self.ending != LATEST or has_end):
            raise ValueError(
                "a stream has no end: leave endingOffsets, endingTimestamp and "
                "endingOffsetsByTimestamp out"
            )
        if (self.assigned is not None) + bool(self.topics) + (self.topics_pattern is not None) > 1:
            raise ValueError(
                "give one of assign, topics (subscribe) and topicsPattern (subscribePattern)"
            )
        if self.max_offsets_per_trigger is not None and self.max_bytes_per_trigger is not None:
            raise ValueError("give maxOffsetsPerTrigger or maxBytesPerTrigger, not both")
        if not streaming and self.starting.names(LATEST):
            raise ValueError("startingOffsets cannot be 'latest' (-1) in a query, only in a stream")
        if self.ending.names(EARLIEST):
            raise ValueError("endingOffsets cannot be 'earliest' (-2)")
        check_order("Timestamp", "", self.starting_timestamp, self.ending_timestamp)
        check_orders("Offsets", self.starting.named, self.ending.named)
        check_orders(
            "OffsetsByTimestamp",
            self.starting_offsets_by_timestamp,
            self.ending_offsets_by_timestamp,
        )

    @property
    def bounded(self) -> Mapping[str, frozenset[tuple[str, int]]]:
        """The partitions with a given offset or timestamp, by option."""
        given = {
            "startingOffsets": self.starting.named,
            "endingOffsets": self.ending.named,
            "startingOffsetsByTimestamp": self.starting_offsets_by_timestamp,
            "endingOffsetsByTimestamp": self.ending_offsets_by_timestamp,
        }
        return {
            option: frozenset((topic, int(number)) for topic in named for number in named[topic])
            for option, named in given.items()
        }

    def takes(self, topic: str, partition: int) -> bool:
        """Whether a partition is to be read."""
        if self.assigned is not None and (topic, partition) not in self.assigned:
            return False
        if self.partitions is not None and partition not in self.partitions:
            return False
        if self.topics_pattern is not None and not compiled(self.topics_pattern)(topic):
            return False
        return not self.topics or any(fnmatchcase(topic, name) for name in self.topics)

    def is_compacted(self, topic: str) -> bool:
        """Whether the options declare a topic compacted."""
        return any(fnmatchcase(topic, name) for name in self.compacted)

    def starting_time(self, topic: str, partition: int) -> int | None:
        """The timestamp to begin at, in milliseconds; None: the starting offset applies."""
        if self.starting_timestamp is not None:
            return self.starting_timestamp
        return self.starting_offsets_by_timestamp.get(topic, {}).get(str(partition))

    def ending_time(self, topic: str, partition: int) -> int | None:
        """The timestamp to end before, in milliseconds; None: the ending offset applies."""
        if self.ending_timestamp is not None:
            return self.ending_timestamp
        return self.ending_offsets_by_timestamp.get(topic, {}).get(str(partition))


class _Reader:
    """Takes options one by one. The remaining ones are unknown."""

    def __init__(self, values: Mapping[str, str]) -> None:
        self._left = dict(values)

    def take(self, name: str) -> str | None:
        text = self._left.pop(name.lower(), None)
        return text.strip() if text is not None else None

    def finish(self) -> None:
        names = unknown(self._left)
        if names:
            raise ValueError(f"unknown option {', '.join(names)}")

    def paths(self) -> tuple[str, ...]:
        """The paths to read. `path`: one, or a JSON list. `paths`, set by `load([...])`: a JSON
        list. For a table created with a path `location`: that path, unless Spark chose it."""
        found: list[str] = []
        for name in ("path", "paths"):
            text = self.take(name)
            if text is not None:
                found += json_list(text) if text.startswith("[") else [text]
        location = self.take("location")
        is_chosen = self.take("is_managed_location") == "true"
        if not found and location and not is_chosen:
            found.append(location)
        if not found:
            raise ValueError("no path: load(directory), or load([directory, ...])")
        if not all(found):
            raise ValueError("an empty path: is a variable not set?")
        return tuple(map(plain, found))

    def choice(self, name: str, *choices: Any) -> Any:
        """One of the choices, case-insensitive, or the first one if the option is not given."""
        text = self.take(name)
        if text is None:
            return choices[0]
        for choice in choices:
            if text.lower() == choice.lower():
                return choice
        raise ValueError(f"{name} must be {' or '.join(choices)}, not {text!r}")

    def boolean(self, name: str, *, default: bool) -> bool:
        choices = ("true", "false") if default else ("false", "true")
        return bool(self.choice(name, *choices) == "true")

    def integer(self, name: str, minimum: int = 0, default: Any = None) -> Any:
        text = self.take(name)
        if text is None:
            return default
        if not re.fullmatch("[0-9]{1,18}", text) or int(text) < minimum:
            raise ValueError(f"{name} must be a number from {minimum} on, not {text!r}")
        return int(text)

    def size(self, name: str, default: Any, *, minimum: int = 1, maximum: int = 2**62) -> Any:
        """A size in bytes: a number, or one followed by k, m or g."""
        text = self.take(name)
        if text is None:
            return default
        found = BYTES.fullmatch(text)
        size = int(found[1]) * UNITS[found[2].lower()] if found else 0
        if not minimum <= size <= maximum:
            raise ValueError(
                f"{name} must be a number of bytes from {minimum} to {maximum} (64m, say), "
                f"not {text!r}"
            )
        return size

    def settings(self, **names: str) -> tuple[tuple[str, str], ...]:
        """Some options, if given, by other names."""
        taken = {name: self.take(option) for option, name in names.items()}
        return tuple((name, text) for name, text in taken.items() if text)

    def names(self, name: str) -> tuple[str, ...]:
        names = tuple(part.strip() for part in (self.take(name) or "").split(","))
        return tuple(name for name in names if name)

    def given_names(self, name: str) -> tuple[str, ...]:
        """As `names`; ValueError: the option is given, and has no value."""
        is_given, found = name.lower() in self._left, self.names(name)
        if is_given and not found:
            raise ValueError(f"{name} has no value: is a variable not set?")
        return found

    def columns(self, name: str) -> tuple[str, ...]:
        found = self.names(name) if name in self._left else None
        if found == ():
            raise ValueError(
                f"{name} has no value: the option level=count, or downconvert.spark.count, counts "
                "records without reading them"
            )
        return found or ()

    def pattern(self, name: str) -> str | None:
        text = self.take(name)
        if text is not None:
            try:
                compiled(text)
            except ValueError as error:
                raise ValueError(f"{name} is not a regular expression: {error}") from error
        return text

    def integers(self, name: str) -> frozenset[int] | None:
        """Integers and ranges, such as `0,3-5`."""
        names = self.given_names(name)
        if not names:
            return None
        found: set[int] = set()
        for text in names:
            match = INTEGERS.fullmatch(text)
            if match is None:
                raise ValueError(f"{name} must be numbers and ranges as in 0,3-5, not {text!r}")
            first, last = int(match[1]), int(match[2] or match[1])
            if last < first:
                raise ValueError(f"{name}: {text} is empty; write {last}-{first}")
            if last - first > 100_000:
                raise ValueError(
                    f"{name}: {text} are too many: a range has at most 100,001 numbers"
                )
            found.update(range(first, last + 1))
        return frozenset(found)

    def json(self, name: str, parse: Callable[[str, str], Parsed]) -> Parsed | None:
        text = self.take(name)
        return None if text is None else parse(text, name)
