"""Reads a generated tree with several options at once: isolation, bounds, modes, task sizes,
columns and counts. Also without checksums, and with streams of committed records. Each result must
be the part of a plain query's result that the bounds select.

Not here: single options (tree_reads.py), the right result of a plain query (trees.py)."""

import random
from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from records import RecordsError
from tests.downconvert.spark.reading import rows

from .tree_model import Tree
from .tree_reads import TIME_MAX, Ranges, are_times_clear, followed, range_of, times_of, within

QUERIES: Final = 3
END: Final = 2**63


class Plain(NamedTuple):
    """A plain query's result: the offsets of records, and the ranges that it reports as missing."""

    found: list[int]
    absent: Ranges


class Bounds(NamedTuple):
    """The offsets from `low` up to `high`, and the options that select them. Absent offsets may be
    reported from `since` on."""

    low: int
    high: int
    since: int
    options: dict[str, Any]


def combined_reads(tree: Tree, place: str, plain: Plain, committed: Plain) -> str | None:
    """Returns the first difference; None: there is none. `plain`, `committed`: the results of
    queries without bounds."""
    chance = random.Random(f"combined {tree.seed}")
    for _ in range(QUERIES):
        bounds = bounds_of(chance, tree, plain)
        is_committed = chance.random() < 0.6
        base = committed if is_committed else plain
        wrong = _query(chance, tree, place, base, bounds, is_committed=is_committed)
        if wrong is not None:
            return wrong
    return _stream(chance, tree, place, committed)


def plain_of(read: Iterable[dict[str, Any]]) -> Plain:
    """The records and the absent ranges in rows of PERMISSIVE."""
    found, absent = [], []
    for row in read:
        if row["_corrupt"] is None:
            found.append(row["offset"])
        else:
            absent.append(range_of(row))
    return Plain(found, absent)


def bounds_of(chance: random.Random, tree: Tree, plain: Plain) -> Bounds:
    """Bounds by offset, by timestamp, or by both."""
    low, high, since = 0, END, 0
    options: dict[str, Any] = {}
    end = max(tree.seen()[1], 2)
    start = min(tree.seen()[0], end - 1)
    kinds = ["none", "offsets", *(["times", "times"] if are_times_clear(tree) else [])]
    kind = chance.choice(kinds)
    if kind == "offsets":
        low = since = chance.randrange(start, end)
        high = chance.randrange(low + 1, end + 1)
        options["startingOffsets"] = f'{{"a": {{"0": {low}}}}}'
        options["endingOffsets"] = f'{{"a": {{"0": {high}}}}}'
    elif kind == "times" and plain.found:
        times = times_of(tree)
        first, last = sorted(times[chance.choice(plain.found)] for _ in range(2))
        last = min(max(last, 0) + 1, TIME_MAX)
        first = min(max(first, 0), last - 1)
        is_first, is_last = chance.choice([(True, False), (False, True), (True, True)])
        if is_first:
            options["startingTimestamp"] = first
            low = next((one for one in plain.found if times[one] >= first), END)
            before = max((one for one in plain.found if one < low), default=-1)
            since = min([low, *(at for at, _ in plain.absent if before < at < low)])
        if is_last:
            options["endingTimestamp"] = last
            high = next((one for one in plain.found if times[one] >= last), END)
    return Bounds(low, high, since, options)


def _query(
    chance: random.Random,
    tree: Tree,
    place: str,
    base: Plain,
    bounds: Bounds,
    *,
    is_committed: bool,
) -> str | None:
    options: dict[str, Any] = dict(bounds.options)
    options["mode"] = chance.choice(["PERMISSIVE", "PERMISSIVE", "DROPMALFORMED", "FAILFAST"])
    options["isolation"] = "read_committed" if is_committed else "read_uncommitted"
    options |= chance.choice([{}, {"minPartitions": 3}, {"maxPartitionBytes": 100}])
    if chance.random() < 0.3:
        is_permissive = options["mode"] == "PERMISSIVE"
        options["columns"] = "offset,_corrupt" if is_permissive else "offset"
    if not tree.is_hurt and random.Random(f"checksums {tree.seed}").random() < 0.3:
        options["verifyCrc"] = "false"
    is_misindexed = any(copy.is_misindexed for copy in tree.copies)
    is_clear = _is_clear(tree, bounds)
    expected = [at for at in base.found if bounds.low <= at < bounds.high]
    wanted = within(base.absent, bounds.since, bounds.high)
    try:
        got, absent = plain_of({"_corrupt": None} | row for row in rows(place, **options))
    except RecordsError as error:
        is_right = options["mode"] == "FAILFAST" and (wanted or not is_clear)
        return None if is_right else f"{options} ends with {error}"
    named = within(absent, bounds.since, bounds.high)
    if options["mode"] == "PERMISSIVE" and named != wanted and is_clear:
        return f"{options} reports {named} of {wanted}"
    if options["mode"] == "FAILFAST" and wanted and is_clear:
        return f"{options} ends well, and {wanted} are absent"
    if is_misindexed:  # damaged indexes lead readers to other boundaries
        had = tree.had()
        got = [at for at in got if at in had]
        expected = [at for at in expected if at in had]
        if options["mode"] == "PERMISSIVE":
            is_named = [any(start <= at < end for start, end in named) for at in expected]
            pairs = zip(expected, is_named, strict=True)
            expected = [at for at, named_too in pairs if at in got or not named_too]
        elif base.absent:
            return None
    if got != expected:
        return f"{options} reads {got}, and not {expected}"
    if is_misindexed or options["mode"] == "FAILFAST":
        return None
    counted = sum(row["records"] for row in rows(place, level="count", **_without(options)))
    return None if counted == len(got) else f"{options} counts {counted}, and reads {got}"


def _without(options: dict[str, Any]) -> dict[str, Any]:
    """The options, without the ones that select columns."""
    return {name: value for name, value in options.items() if name != "columns"}


def _is_clear(tree: Tree, bounds: Bounds) -> bool:
    """Whether all parts of a query report the same as the whole. They may not if a body is damaged,
    because its header or an index may say that it is too old, or if an index is damaged."""
    named_old = {"body", "offset"} if "startingTimestamp" in bounds.options else set()
    return not any(
        piece.index_damage is not None
        or (piece.broken and (piece.is_indexed or named_old & {*piece.broken.values()}))
        for copy in tree.copies
        for piece in copy.pieces
    )


def _stream(chance: random.Random, tree: Tree, path: str, committed: Plain) -> str | None:
    """Checks a stream of committed records, with random limits and restarts. If it continues after
    damage, it must read as much as a query."""
    goes_on = random.Random(f"goes on {tree.seed}").random() < 0.5
    options: dict[str, Any] = {"isolation": "read_committed", "failOnDataLoss": not goes_on}
    options["stopAtHighWatermark"] = False
    if goes_on:
        options["mode"] = "DROPMALFORMED"
    try:
        streamed, place = followed(chance, path, options)
    except RecordsError as error:
        is_unclear = tree.is_hurt and any(copy.cleaned for copy in tree.copies)
        if not goes_on and (committed.absent or is_unclear):
            return None
        return f"a stream of committed records ({options}) fails: {error}"
    at = place["a"]["0"]
    end_offset = at["offset"] if isinstance(at, dict) else at
    left = [one for one in committed.found if one >= end_offset]
    if streamed != [one for one in committed.found if one < end_offset]:
        return f"a stream ({options}) reads {streamed}, and a query {committed.found}"
    if left and (goes_on or not committed.absent):
        return f"a stream ({options}) ends at {end_offset}, and {left} are left"
    if not goes_on and within(committed.absent, 0, end_offset):
        return f"a stream ({options}) ends well, and {committed.absent} are absent"
    return None
