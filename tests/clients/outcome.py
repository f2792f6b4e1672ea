"""Compares the records that a client read with the expected ones: all of them, once, in order.

A client is held to what it says: what it left out it cannot tell. Messages of v0 have no
timestamps, and those of v0 and v1 no headers, so it cannot know them."""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .combinations import Combination, all_combinations
from .topics import Line

MISSING = "are missing"
_NOT_GIVEN = object()

# Clients that never show a timestamp; all others do where the format has one.
_TIMELESS = (
    *("kafka-python 0.9.5", "kafka-python 1.0.2", "pykafka 2.8.0", "kafka 0.8.2.2"),
    *("kafka-clients 0.9.0.1", "no-kafka 3.4.3", "kafka-rust 0.8.0", "kafka-rust 0.10.0"),
    *("kafka-node 2.0.1", "kafka-node 2.6.1", "kafka-node 5.0.0"),
)


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a combination fared with a topic. `wrong` is empty where all was right."""

    combination: Combination
    topic: str
    wrong: str
    seconds: float = 0.0
    again: bool = False  # whether it was asked a second time, and given longer

    def as_json(self) -> dict[str, Any]:
        one = self.combination
        return {
            "client": one.client.name,
            "version": one.client.version,
            "pin": one.pin,
            "mode": one.mode,
            "fetch": one.fetch,
            "topic": self.topic,
            "wrong": self.wrong,
            "seconds": round(self.seconds, 2),
            "again": self.again,
        }


def kept(path: Path) -> Iterator[Outcome]:
    """The noted outcomes of a run, one a line, in their order. Combinations that no longer exist
    are left out."""
    by_name = {str(one): one for one in all_combinations()}
    for line in path.read_text().splitlines():
        row = json.loads(line)
        one = by_name.get(" ".join(row[part] for part in ("client", "version", "pin", "mode")))
        if one is not None:
            yield Outcome(one, row["topic"], row["wrong"], row["seconds"], row["again"])


def difference(expected: Iterable[Line], found: Iterable[Line], magic: int) -> str:
    """The first, in words; empty if there is none. Partitions may come side by side."""
    wanted, got = _by_partition(expected), _by_partition(found)
    for partition in sorted({*wanted, *got}):
        wrong = _in_partition(wanted.get(partition, []), got.get(partition, []), magic)
        if wrong:
            return f"partition {partition}: {wrong}"
    return ""


def without_time(combination: Combination, found: Iterable[Line]) -> str:
    """The finding for a client that shows no timestamps but should: it got an older format."""
    client = f"{combination.client.name} {combination.client.version}"
    if combination.magic < 1 or client in _TIMELESS or all("t" in line for line in found):
        return ""
    return "records have no timestamps"


def _by_partition(lines: Iterable[Line]) -> dict[int, list[Line]]:
    found: dict[int, list[Line]] = {}
    for line in lines:
        found.setdefault(line["p"], []).append(line)
    return found


def _in_partition(wanted: list[Line], got: list[Line], magic: int) -> str:
    offsets, found = [line["o"] for line in wanted], [line["o"] for line in got]
    for number, (offset, line) in enumerate(zip(offsets, got, strict=False)):
        if line["o"] != offset:
            behind = f" behind {found[number - 1]}" if number else ""
            return f"offset {line['o']}{behind} instead of {offset}"
        wrong = _in_record(as_shown(wanted[number], magic), line)
        if wrong:
            return f"offset {offset}: {wrong}"
    if len(found) < len(offsets):
        last = f"ends at offset {found[-1]}" if found else "nothing is read"
        return f"{last}, {len(offsets) - len(found)} of {len(offsets)} {MISSING}"
    if len(found) > len(offsets):
        return f"offset {found[len(offsets)]} behind the last, {found[-1]}"
    return ""


def as_shown(line: Line, magic: int) -> Line:
    """A record as messages of a format have it."""
    shown = dict(line)
    if magic < 2 and "h" in shown:
        shown["h"] = []
    if magic < 1 and "t" in shown:
        shown["t"], shown["tt"] = -1, "NoTimestampType"
    return shown


def _in_record(wanted: Mapping[str, Any], got: Mapping[str, Any]) -> str:
    for name, value in wanted.items():
        given = got.get(name, _NOT_GIVEN)
        if given is not _NOT_GIVEN and given != value:
            return f"{name} is {str(given)[:60]} instead of {str(value)[:60]}"
    return ""
