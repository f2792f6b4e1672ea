"""Starting and ending points, in the forms of Spark's Kafka source.

Offsets are `earliest`, `latest`, or JSON like `{"topic":{"0":23,"1":-2}}`, with -2 for earliest and
-1 for latest. Timestamps are `{"topic":{"0":1700000000000}}`. Partitions are `{"topic":[0,1]}`."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

EARLIEST_OFFSET: Final = -2
LATEST_OFFSET: Final = -1
OFFSET_MAX: Final = 2**63 - 1
PARTITION: Final = re.compile("0|[1-9][0-9]{0,9}")

TopicOffsets = Mapping[str, Mapping[str, int]]
TopicTimestamps = Mapping[str, Mapping[str, int]]  # milliseconds


@dataclass(frozen=True, slots=True)
class StartingPoint:
    """An offset in each partition. `default` is for partitions that are not named."""

    default: int
    named: TopicOffsets = field(default_factory=dict)

    @classmethod
    def parse(cls, text: str, name: str) -> "StartingPoint":
        """Parses offsets. ValueError names the option, `name`."""
        words = {"earliest": EARLIEST, "latest": LATEST}
        if text.lower() in words:
            return words[text.lower()]
        named = _json(text)
        if not isinstance(named, dict) or not all(map(_is_offsets, named.values())):
            raise ValueError(
                f"{name} must be 'earliest', 'latest' or JSON such as "
                f'{{"topic":{{"0":23,"1":-2}}}}, not {text[:200]!r}'
            )
        return cls(EARLIEST_OFFSET if name.startswith("starting") else LATEST_OFFSET, named)

    def of(self, topic: str, partition: int) -> int:
        """The offset: not negative, or -2 or -1 as above."""
        return self.named.get(topic, {}).get(str(partition), self.default)

    def names(self, point: "StartingPoint") -> bool:
        """Whether any partition has the offset of `point`."""
        named = (offset for offsets in self.named.values() for offset in offsets.values())
        return self == point or point.default in named

    def bound(self, topic: str, partition: int, first: int, last: int) -> int:
        """The offset, with `first` and `last` for earliest and latest."""
        offset = self.of(topic, partition)
        return {EARLIEST_OFFSET: first, LATEST_OFFSET: last}.get(offset, offset)


EARLIEST: Final = StartingPoint(EARLIEST_OFFSET)
LATEST: Final = StartingPoint(LATEST_OFFSET)


def _is_offsets(value: object) -> bool:
    return isinstance(value, dict) and all(
        PARTITION.fullmatch(partition)
        and type(offset) is int
        and EARLIEST_OFFSET <= offset <= OFFSET_MAX
        for partition, offset in value.items()
    )


def parse_timestamps(text: str, name: str) -> TopicTimestamps:
    """Parses timestamps. ValueError names the option, `name`."""
    found = _json(text)
    if not isinstance(found, dict) or not all(map(_is_timestamps, found.values())):
        raise ValueError(
            f'{name} must be JSON such as {{"topic":{{"0":1700000000000}}}}, not {text[:200]!r}'
        )
    return found


def parse_assigned(text: str, name: str) -> frozenset[tuple[str, int]]:
    """Parses topics and partitions. ValueError names the option, `name`."""
    found = _json(text)
    if not isinstance(found, dict) or not all(map(_is_partitions, found.values())):
        raise ValueError(f'{name} must be JSON such as {{"topic":[0,1]}}, not {text[:200]!r}')
    return frozenset((topic, number) for topic, numbers in found.items() for number in numbers)


def check_order(kind: str, where: str, start: int | None, end: int | None) -> None:
    """ValueError: the end is before the start. `kind`: the rest of the options' names."""
    if start is not None and end is not None and start > end:
        raise ValueError(f"starting{kind}{where} is {start}, and ending{kind} is {end}, before it")


def check_orders(kind: str, starts: TopicOffsets, ends: TopicOffsets) -> None:
    """As `check_order`, for each partition that both name."""
    for topic, numbers in starts.items():
        for number, start in numbers.items():
            end = ends.get(topic, {}).get(number, LATEST_OFFSET)
            if end >= 0:
                check_order(kind, f" of {topic}-{number}", start, end)


def _json(text: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _is_timestamps(value: object) -> bool:
    return isinstance(value, dict) and all(
        PARTITION.fullmatch(partition) and type(timestamp) is int and 0 <= timestamp <= OFFSET_MAX
        for partition, timestamp in value.items()
    )


def _is_partitions(value: object) -> bool:
    return isinstance(value, list) and all(type(n) is int and 0 <= n < 2**31 for n in value)
