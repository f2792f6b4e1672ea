"""What the data source can be told, by the names and in the forms of Spark's own Kafka source where
that has them.

Not here: where the options lead (planner.py), Spark's reader (source.py)."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Any, Final, Literal, TypeAlias

from records.units import MiB

from .offsets import EARLIEST, LATEST, StartingPoint

KINDS_OF_BYTES: Final = {"": 1, "b": 1, "k": 1024, "m": MiB, "g": 1024 * MiB}
BYTES: Final = re.compile(r"([0-9]{1,18})\s*([bkmg]?)(?:i?b)?", re.IGNORECASE)
INTEGERS: Final = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9}))?")

# Sixteen times what a broker takes unless told otherwise, and a worker stays below 256 MB: it holds
# a record some four times on its way to Spark.
RECORD_BYTES_MAX: Final = 16 * MiB

# Above this a record would not fit into one array of Arrow's type binary together with others.
RECORD_BYTES_LIMIT: Final = 1024 * MiB

Level: TypeAlias = Literal["record", "batch"]


class Mode(StrEnum):
    """What becomes of damaged batches."""

    PERMISSIVE = "PERMISSIVE"  # each is a row that says where and why
    DROPMALFORMED = "DROPMALFORMED"  # they are left out
    FAILFAST = "FAILFAST"  # the first one fails the query


# Options of Spark's Kafka source that are about brokers: a query keeps them, and they do nothing.
OF_BROKERS: Final = re.compile(
    r"kafka\..*|kafkaconsumer\..*|fetchoffset\..*|groupidprefix|minpartitions|maxrecordsperpartition"
)
SYNONYMS: Final = {
    "subscribe": "topics",
    "subscribepattern": "topicspattern",
    "kafka.isolation.level": "isolation",
}


@dataclass(frozen=True, slots=True)
class Options:
    """What to read of which directories, and how.

    Offsets and timestamps bound what is read; None: no bound. Timestamps are in milliseconds."""

    paths: tuple[str, ...]
    level: Level = "record"
    include_headers: bool = False
    topics: tuple[str, ...] = ()  # names, also with * and ?; none: all
    topics_pattern: str | None = None
    partitions: frozenset[int] | None = None
    starting: StartingPoint = EARLIEST
    ending: StartingPoint = LATEST
    starting_timestamp: int | None = None
    ending_timestamp: int | None = None
    committed: bool = False
    max_partition_bytes: int = 128 * MiB
    max_record_bytes: int = RECORD_BYTES_MAX
    verify_crc: bool = True
    mode: Mode = Mode.FAILFAST
    corrupt_column: str = "_corrupt"
    fail_on_data_loss: bool = True
    cluster_id: str | None = None  # of those whose directories are there; None: there is but one
    stop_at_high_watermark: bool = False
    max_offsets_per_trigger: int | None = None
    max_bytes_per_trigger: int | None = None

    @classmethod
    def parse(cls, given: Mapping[str, str], *, streaming: bool | None = None) -> "Options":
        """Reads Spark's options, whose names may be of any case. ValueError says which is wrong.

        `streaming`: whether a stream is read; None: that is not known yet."""
        values = {SYNONYMS.get(name.lower(), name.lower()): text for name, text in given.items()}
        reader = _Reader(values)
        options = cls(
            paths=reader.paths(),
            level=reader.choice("level", "record", "batch"),
            include_headers=reader.boolean("includeHeaders", default=False),
            topics=reader.names("topics"),
            topics_pattern=reader.pattern("topicsPattern"),
            partitions=reader.integers("partitions"),
            starting=reader.offsets("startingOffsets", LATEST if streaming else EARLIEST),
            ending=reader.offsets("endingOffsets", LATEST),
            starting_timestamp=reader.integer("startingTimestamp"),
            ending_timestamp=reader.integer("endingTimestamp"),
            committed=reader.choice("isolation", "read_uncommitted", "read_committed")
            == "read_committed",
            max_partition_bytes=reader.size("maxPartitionBytes", 128 * MiB),
            max_record_bytes=reader.size("maxRecordBytes", RECORD_BYTES_MAX, RECORD_BYTES_LIMIT),
            verify_crc=reader.boolean("verifyCrc", default=True),
            mode=Mode(reader.choice("mode", *reversed([m.value for m in Mode])).upper()),
            corrupt_column=reader.take("columnNameOfCorruptRecord") or "_corrupt",
            fail_on_data_loss=reader.boolean("failOnDataLoss", default=True),
            cluster_id=reader.take("clusterId") or None,
            stop_at_high_watermark=reader.boolean("stopAtHighWatermark", default=bool(streaming)),
            max_offsets_per_trigger=reader.integer("maxOffsetsPerTrigger", minimum=1),
            max_bytes_per_trigger=reader.size("maxBytesPerTrigger", None),
        )
        reader.finish()
        if streaming is not None:
            options._check(streaming=streaming)
        return options

    def _check(self, *, streaming: bool) -> None:
        if streaming and (self.ending != LATEST or self.ending_timestamp is not None):
            raise ValueError("a stream has no end: leave endingOffsets and endingTimestamp out")
        if self.max_offsets_per_trigger is not None and self.max_bytes_per_trigger is not None:
            raise ValueError("maxOffsetsPerTrigger or maxBytesPerTrigger, not both")
        if not streaming and self.starting == LATEST:
            raise ValueError("startingOffsets cannot be 'latest' where nothing is streamed")
        if self.ending == EARLIEST:
            raise ValueError("endingOffsets cannot be 'earliest'")

    def takes(self, topic: str, partition: int) -> bool:
        """Whether a partition is to be read."""
        if self.partitions is not None and partition not in self.partitions:
            return False
        if self.topics_pattern is not None and re.fullmatch(self.topics_pattern, topic) is None:
            return False
        return not self.topics or any(fnmatchcase(topic, name) for name in self.topics)


class _Reader:
    """Takes options one by one; what is left at the end nobody knows."""

    def __init__(self, values: Mapping[str, str]) -> None:
        self._left = dict(values)

    def take(self, name: str) -> str | None:
        text = self._left.pop(name.lower(), None)
        return text.strip() if text is not None else None

    def finish(self) -> None:
        unknown = sorted(name for name in self._left if not OF_BROKERS.fullmatch(name))
        if unknown:
            raise ValueError(f"unknown option {', '.join(unknown)}")

    def paths(self) -> tuple[str, ...]:
        """`path`: one, or a JSON list; `paths`, which `load([...])` sets: a JSON list."""
        found: list[str] = []
        for name in ("path", "paths"):
            text = self.take(name)
            if text:
                found += _json_list(text) if text.startswith("[") else [text]
        if not found:
            raise ValueError("no path: load(directory), or load([directory, ...])")
        return tuple(_plain(path) for path in found)

    def choice(self, name: str, *choices: Any) -> Any:
        """One of the choices, in any case; the first one where nothing is said."""
        text = self.take(name)
        if text is None:
            return choices[0]
        for choice in choices:
            if text.lower() == choice.lower():
                return choice
        raise ValueError(f"{name} is {' or '.join(choices)}, not {text!r}")

    def boolean(self, name: str, *, default: bool) -> bool:
        return bool(
            self.choice(name, *(("true", "false") if default else ("false", "true"))) == "true"
        )

    def integer(self, name: str, minimum: int = 0) -> int | None:
        text = self.take(name)
        if text is None:
            return None
        if not re.fullmatch("[0-9]{1,18}", text) or int(text) < minimum:
            raise ValueError(f"{name} is a number from {minimum} on, not {text!r}")
        return int(text)

    def size(self, name: str, default: Any, maximum: int = 2**62) -> Any:
        """Bytes: a number, or one with k, m or g behind it."""
        text = self.take(name)
        if text is None:
            return default
        found = BYTES.fullmatch(text)
        size = int(found[1]) * KINDS_OF_BYTES[found[2].lower()] if found else 0
        if not 0 < size <= maximum:
            raise ValueError(
                f"{name} is a number of bytes up to {maximum} (64m, say), not {text!r}"
            )
        return size

    def names(self, name: str) -> tuple[str, ...]:
        names = tuple(part.strip() for part in (self.take(name) or "").split(","))
        return tuple(name for name in names if name)

    def pattern(self, name: str) -> str | None:
        text = self.take(name)
        if text is not None:
            try:
                re.compile(text)
            except re.error as error:
                raise ValueError(f"{name} is no regular expression: {error}") from error
        return text

    def integers(self, name: str) -> frozenset[int] | None:
        """`0,3-5`."""
        names = self.names(name)
        if not names:
            return None
        found: set[int] = set()
        for text in names:
            match = INTEGERS.fullmatch(text)
            if match is None:
                raise ValueError(f"{name} are numbers and ranges as in 0,3-5, not {text!r}")
            first, last = int(match[1]), int(match[2] or match[1])
            if last - first > 100_000:
                raise ValueError(f"{name}: {text} are too many")
            found.update(range(first, last + 1))
        return frozenset(found)

    def offsets(self, name: str, default: StartingPoint) -> StartingPoint:
        text = self.take(name)
        return default if text is None else StartingPoint.parse(text, name)


def _json_list(text: str) -> list[str]:
    try:
        found = json.loads(text)
    except ValueError as error:
        raise ValueError(f"path: {text!r} is no JSON list") from error
    if not isinstance(found, list) or not all(isinstance(path, str) and path for path in found):
        raise ValueError(f"path: {text!r} is no JSON list of directories")
    return found


def _plain(path: str) -> str:
    """A local path; Spark may give it as `file:/...`."""
    if path.startswith("file:"):
        return "/" + path.removeprefix("file:").lstrip("/")
    if re.match(r"[a-z][a-z0-9+.-]+://", path):
        raise ValueError(f"path: {path} is not mounted here; only local directories are read")
    return path
