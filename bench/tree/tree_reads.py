"""Reads a generated tree in further ways, and compares each result with a plain query: counts,
batches, some columns, without damaged batches, by timestamps, and with filters.

Not here: the trees (tree_model.py), plain queries, streams and jobs (trees.py), several options in
one query (tree_combined.py)."""

import random
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from pyspark.sql import datasource as ds

from downconvert.spark.logs.places import Json
from downconvert.spark.plan.gather import DATETIME_MAX, DATETIME_MIN, TIMESTAMP_MAX
from records import Codec
from records.formats import V2
from tests.downconvert.spark.reading import reader, rows
from tests.downconvert.spark.stream.test_follow import Limit, read, stream

from .tree_log import DAY
from .tree_model import Tree

Ranges = list[tuple[int, int]]
START = datetime(1970, 1, 1, tzinfo=UTC)
TIME_MAX: Final = 10**18 - 1  # of an option, in milliseconds


def other_reads(tree: Tree, place: str, found: list[int], absent: Ranges) -> str | None:
    """Returns the first difference; None: there is none. `found`: the offsets that a query reads.
    `absent`: the ranges that it reports."""
    checks: list[Callable[[], str | None]] = [
        lambda: _partial_reads(place, found),
        lambda: _batches(tree, place, found, absent),
        lambda: _times(tree, place, found, absent),
        lambda: _filters(tree, place, found),
    ]
    return next((wrong for wrong in (check() for check in checks) if wrong is not None), None)


def followed(chance: random.Random, path: str, options: dict[str, Any]) -> tuple[list[int], Json]:
    """The offsets that a stream reads with random limits and restarts, and the place where it
    ends. RecordsError: it fails."""
    streamed: list[int] = []
    source = stream(path, **options)
    place: Json = source.initialOffset()
    source.prepareForTriggerAvailableNow()
    while True:
        limit: Any = chance.choice([Limit(), Limit(max_rows=7), Limit(max_bytes=300)])
        end = source.latestOffset(place, limit)
        if end == place:
            return streamed, place
        streamed += [int(row.rpartition(":")[2]) for row in read(source, place, end)]
        place = end
        if chance.random() < 0.3:
            source = stream(path, **options)
            source.prepareForTriggerAvailableNow()


def _partial_reads(place: str, found: list[int]) -> str | None:
    """Checks counts, some columns, and a query that leaves out damaged batches."""
    left = [row["offset"] for row in rows(place, mode="DROPMALFORMED")]
    if left != found:
        return f"DROPMALFORMED reads {left}, and PERMISSIVE {found}"
    for mode in ("DROPMALFORMED", "PERMISSIVE"):
        counted = sum(row["records"] for row in rows(place, level="count", mode=mode))
        if counted != len(found):
            return f"{counted} are counted of {len(found)} with {mode}"
    some = rows(place, columns="offset,_corrupt", mode="PERMISSIVE", minPartitions=3)
    narrow = [row["offset"] for row in some if row["_corrupt"] is None]
    return None if narrow == found else f"a query of offsets alone reads {narrow}"


def _batches(tree: Tree, place: str, found: list[int], absent: Ranges) -> str | None:
    """Checks that batches hold all records, and that the same offsets are reported as absent as by
    a query of records. Headers of old compressed messages do not have their first offset."""
    if any(one.magic != V2 and one.codec is not Codec.NONE for one in tree.log):
        return None
    batches = rows(place, level="batch", mode="PERMISSIVE")
    spans = [(row["baseOffset"], row["lastOffset"]) for row in batches if not row["_corrupt"]]
    start, end = tree.seen()[0], tree.seen()[1]
    left = [at for at in found if not any(first <= at <= last for first, last in spans)]
    if left:
        return f"no batch has {left}"
    named = joined([range_of(row) for row in batches if row["_corrupt"]])
    if named != joined(absent) and start < end:
        return f"batches report {named}, and records {absent}"
    return None


def _times(tree: Tree, place: str, found: list[int], absent: Ranges) -> str | None:
    """Checks bounds by timestamp. Records that only an uncleaned copy has may be read or not. A
    damaged batch may stay unreported if its header or a time index says that it is older, or if a
    damaged index hides it."""
    if not are_times_clear(tree):
        return None
    pieces = [piece for copy in tree.copies for piece in copy.pieces]
    is_unclear = any(copy.is_misindexed for copy in tree.copies) or any(
        piece.broken and (piece.is_indexed or {"body", "offset"} & {*piece.broken.values()})
        for piece in pieces
    )
    chance = random.Random(f"times {tree.seed}")
    times = times_of(tree)
    ordered = sorted(set(times.values())) or [DAY]
    for at in [chance.choice(ordered) + chance.choice([-1, 0, 1]), ordered[-1]]:
        at = min(max(at, 0), TIME_MAX)
        first = next((one for one in found if times[one] >= at), 2**63)
        before = max((one for one in found if one < first), default=-1)
        since = min([first, *(start for start, _ in absent if before < start < first)])
        late = [one for one in found if one >= first]
        early = [one for one in found if one < first]
        for option, expected, low, high in [
            ("startingTimestamp", late, since, 2**63),
            ("endingTimestamp", early, -1, first),
        ]:
            read = rows(place, mode="PERMISSIVE", **{option: at})
            got = [row["offset"] for row in read if not row["_corrupt"]]
            if got != expected:
                return f"{option}={at} reads {got}, and not {expected}"
            named = joined([range_of(row) for row in read if row["_corrupt"]])
            wanted = within(absent, low, high)
            if within(named, low, high) != wanted and not is_unclear:
                return f"{option}={at} reports {named}, and not {wanted}"
    return None


def _filters(tree: Tree, place: str, found: list[int]) -> str | None:
    """Checks filters that are pushed down. Spark applies them once more."""
    chance = random.Random(f"filters {tree.seed}")
    times = times_of(tree)
    # Python has no datetime for other timestamps.
    dated = {o: time for o, time in times.items() if DATETIME_MIN < time < DATETIME_MAX}
    at = chance.choice(sorted(dated.values()) or [DAY])
    offset = chance.choice(found or [0])
    after = {o for o in found if at <= times[o] <= TIMESTAMP_MAX}
    before = {o for o in found if at > times[o] >= -TIMESTAMP_MAX}
    cases: list[tuple[list[ds.Filter], set[int]]] = [
        ([ds.GreaterThanOrEqual(("timestamp",), _time(at))], after),
        ([ds.LessThan(("timestamp",), _time(at))], before),
        ([ds.GreaterThan(("offset",), offset)], {one for one in found if one > offset}),
        ([ds.LessThanOrEqual(("offset",), offset)], {one for one in found if one <= offset}),
    ]
    for filters, expected in cases:
        source = reader(place, mode="DROPMALFORMED")
        source.pushFilters(filters)
        read = [
            one
            for task in source.partitions()
            for batch in source.read(task)
            for one in batch.column("offset").to_pylist()
        ]
        # Records that a cleaner has removed from another copy, also those with a null timestamp,
        # may be read or not.
        had = {o for o in tree.had() if abs(times[o]) <= TIMESTAMP_MAX}
        if [one for one in read if one in had] != sorted(expected & had):
            return f"a filter {filters} reads {read}, and not {sorted(expected)}"
    return None


def are_times_clear(tree: Tree) -> bool:
    """Whether all copies have the same records, because no cleaner has cleaned only one of them."""
    return len(tree.copies) == 1 or not any(copy.cleaned for copy in tree.copies)


def times_of(tree: Tree) -> dict[int, int]:
    """The timestamps of the records, by offset."""
    return {at: one.time(at) for one in tree.log for at, _, _ in one.records}


def _time(milliseconds: int) -> datetime:
    return START + timedelta(milliseconds=milliseconds)


def range_of(row: Any) -> tuple[int, int]:
    """The offsets that a row reports as absent."""
    start, end = row["_corrupt"]["startOffset"], row["_corrupt"]["endOffset"]
    return start, 2**63 if end is None else end


def within(ranges: Iterable[tuple[int, int]], low: int, high: int) -> Ranges:
    """The parts of ranges between two offsets, joined."""
    cut = ((max(start, low), min(end, high)) for start, end in ranges)
    return joined([(start, end) for start, end in cut if start < end])


def joined(ranges: Iterable[tuple[int, int]]) -> Ranges:
    """Joins ranges that overlap or are adjacent."""
    found: Ranges = []
    for start, end in sorted(ranges):
        if found and start <= found[-1][1]:
            found[-1] = found[-1][0], max(end, found[-1][1])
        else:
            found.append((start, end))
    return found
