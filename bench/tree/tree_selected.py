"""Gives generated trees high watermarks, cluster ids, encrypted tiered storage, and segments that
several leaders have copied there, in any arrangement, with damage. Reads them up to the high
watermark, with FAILFAST and failOnDataLoss=false, beside another partition, and beside another
cluster. Exports a part of them.

Not here: other options (tree_reads.py, tree_combined.py)."""

import json
import random
import shutil
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from downconvert.spark.errors import MixedClustersError
from downconvert.spark.jobs.jobs import JobError
from downconvert.storage.names import (
    HIGH_WATERMARKS,
    META_PROPERTIES,
    OFFSET_MAX,
    Kind,
    file_name,
)
from records import RecordsError
from tests.downconvert.spark.exporting import archived, exported
from tests.downconvert.spark.reading import rows
from tests.downconvert.spark.stream.test_follow import Limit, read, stream

from .tree_combined import END, Bounds, Plain, bounds_of, plain_of
from .tree_log import Batch, appended, transactions
from .tree_model import BROKEN, NAME, Copy, Piece, Tree
from .tree_places import SECOND_TIER, THIRD_TIER, TIER, TIERS, is_written
from .tree_reads import followed, within

# Readers of seeds from here on select a part. Earlier ones stay as they are: tests name them.
SELECTED: Final = 10_200_000
MINE: Final = "cluster-of-the-tree"
OTHERS: Final = "another-cluster"
BESIDE: Final = "a-1"  # another partition


def select(tree: Tree) -> None:
    """Gives a tree the files by which reads select: high watermarks, a cluster id, and others."""
    chance = random.Random(f"select {tree.seed}")
    tree.cluster = MINE if chance.random() < 0.6 else ""
    tiers = [copy for copy in tree.copies if copy.broker == TIER]
    tree.is_encrypted = bool(tiers) and chance.random() < 0.5
    for copy in tiers:
        for broker in (SECOND_TIER, THIRD_TIER):
            is_new = all(one.broker != broker for one in tree.copies)
            if is_new and chance.random() < 0.6:
                _copy_to_tier(chance, tree, copy, broker)
    if chance.random() < 0.7:
        _note_watermarks(chance, tree)


def _copy_to_tier(chance: random.Random, tree: Tree, copy: Copy, broker: str) -> None:
    """Lets another leader copy some of the offsets in tiered storage again, in its own segments."""
    log = copy.log
    if not log:
        return
    first = chance.randrange(len(log))
    if chance.random() < 0.4:  # where another segment begins
        base = chance.choice(copy.pieces).base
        first = next((at for at, one in enumerate(log) if one.base >= base), first)
    log = log[: chance.randrange(first, len(log)) + 1]
    pieces: list[Piece] = []
    for one in log[first:]:
        if not pieces or chance.random() < 0.2:
            pieces.append(Piece(one.base, [], is_indexed=True))
        pieces[-1].batches.append(one)
    for piece in pieces if tree.is_hurt else []:
        if chance.random() < 0.3:
            piece.broken[chance.randrange(len(piece.batches))] = chance.choice(BROKEN)
    epochs = [one for one in copy.epochs if one[1] <= log[-1].last]
    tree.copies.append(Copy(broker, pieces, epochs, True, log, packing=copy.packing))


def _note_watermarks(chance: random.Random, tree: Tree) -> None:
    """Notes high watermarks: followers learn of them late."""
    ends = [0, *(one.last + 1 for one in tree.log)]
    high = chance.choice(ends[len(ends) // 2 :])
    for copy in (*tree.copies, *tree.lost):
        if copy.broker in TIERS or chance.random() < 0.2:
            continue
        noted = min(high, _valid_until(tree, copy))
        earlier = [end for end in ends if end < noted]
        is_late = bool(earlier) and chance.random() < 0.4
        copy.high_watermark = chance.choice(earlier) if is_late else noted


def _valid_until(tree: Tree, copy: Copy) -> int:
    """The offset up to which a copy is the leader's log."""
    pairs = zip(copy.log, tree.log, strict=False)
    return next((one.base for one, its in pairs if one != its), copy.end)


def limit_of(tree: Tree) -> int:
    """The highest of the high watermarks in the brokers' checkpoints; END if there is none. Empty
    copies do not count."""
    noted = [copy.high_watermark for copy in tree.copies if copy.log and is_written(copy)]
    return max((one for one in noted if one is not None), default=END)


def selected_reads(
    tree: Tree, path: Path, place: str, plain: Plain, committed: Plain
) -> str | None:
    """Returns the first difference; None: there is none. `path`: a scratch directory with the tree
    in `logs`, which is `place` for readers. `plain`, `committed`: the results of queries without
    bounds."""
    chance = random.Random(f"selected {tree.seed}")
    bases = {"read_uncommitted": plain, "read_committed": committed}
    given = _Given(chance, tree, path, place, bases)
    checks: list[Callable[[_Given], str | None]] = [
        _watermark,
        _leniently,
        _export,
        _several,
        _clusters,
    ]
    return next((wrong for wrong in (check(given) for check in checks) if wrong is not None), None)


class _Given(NamedTuple):
    """The input of the checks. `bases`: the results of queries without bounds, by isolation."""

    chance: random.Random
    tree: Tree
    path: Path
    place: str
    bases: dict[str, Plain]

    def limited(self, isolation: str) -> tuple[Plain, int]:
        """The plain result up to the high watermark, and its end.

        A transaction is open there if its marker is not below the high watermark."""
        limit = limit_of(self.tree)
        if isolation == "read_committed" and limit != END:
            limit = min(limit, self.tree.transactions(limit).stable(limit))
        found, absent = self.bases[isolation]
        return Plain([at for at in found if at < limit], within(absent, 0, limit)), limit

    @property
    def is_clear(self) -> bool:
        """Whether queries of parts report the same as the query of the whole."""
        return not any(
            piece.is_hurt or piece.index_damage is not None
            for copy in self.tree.copies
            for piece in copy.pieces
        )


def _watermark(given: _Given) -> str | None:
    """Checks queries and streams up to the high watermark."""
    for isolation in given.bases:
        expected, limit = given.limited(isolation)
        # A gap may hide the markers of transactions.
        hides = isolation == "read_committed" and bool(given.bases[isolation].absent)
        is_clear = given.is_clear and not hides
        options = {"isolation": isolation, "stopAtHighWatermark": "true"}
        got, named = plain_of(rows(given.place, mode="PERMISSIVE", **options))
        wrong = _compared(given, isolation, got, expected.found, f"{options} up to {limit}")
        if wrong is not None:
            return wrong
        if is_clear and within(named, 0, limit) != expected.absent:
            return f"{options} reports {named} of {expected.absent}"
        try:
            streamed, _ = followed(given.chance, given.place, options)
        except RecordsError as error:
            if is_clear and not expected.absent:
                return f"a stream with {options} up to {limit} fails: {error}"
            continue
        if expected.absent and is_clear:
            return f"a stream with {options} ends well, though {expected.absent} are absent"
        wrong = _compared(given, isolation, streamed, expected.found, f"a stream with {options}")
        if wrong is not None:
            return wrong
    return None


def _compared(
    given: _Given, isolation: str, got: list[int], expected: list[int], what: str
) -> str | None:
    """The difference between the offsets read and the expected ones. If damage or a gap may hide
    markers, only a part of the records may be known to be committed."""
    found, absent = given.bases[isolation]
    if isolation == "read_committed" and (absent or not given.is_clear):
        known = transactions(given.tree.log)
        unfinished = (own for _, last, own in known.spans if last == OFFSET_MAX)
        more = sorted(known.records.union(*unfinished) & set(got) - set(found))
        return f"{what} reads {more} as committed" if more else None
    if any(copy.is_misindexed for copy in given.tree.copies):  # readers use other entries
        had = given.tree.had()
        got, expected = [at for at in got if at in had], [at for at in expected if at in had]
    return None if got == expected else f"{what} reads {got}, and not {expected}"


def _leniently(given: _Given) -> str | None:
    """Checks FAILFAST with failOnDataLoss=false: a gap is a warning, and damage an error."""
    reports = [row["_corrupt"] for row in rows(given.place, mode="PERMISSIVE") if row["_corrupt"]]
    is_gap = all("are missing:" in one["reason"] for one in reports)
    try:
        with warnings.catch_warnings(record=True) as notices:
            warnings.simplefilter("always")
            read = [row["offset"] for row in rows(given.place, failOnDataLoss="false")]
    except RecordsError as error:
        return None if not is_gap else f"failOnDataLoss=false fails at {reports}: {error}"
    if not is_gap:
        return f"failOnDataLoss=false ends well at {reports}"
    if read != given.bases["read_uncommitted"].found:
        return f"failOnDataLoss=false reads {read}"
    texts = [str(one.message) for one in notices]
    for one in reports:
        what = f"offsets {one['startOffset']} up to {one['endOffset']} are missing"
        if not any(what in text for text in texts):
            return f"{what}, and no warning of failOnDataLoss=false says so"
    return None


def _export(given: _Given) -> str | None:
    """Checks two exports: one may end at damage, and the other one continues."""
    chance = given.chance
    isolation = chance.choice(list(given.bases))
    is_past = chance.random() < 0.4
    expected, limit = given.bases[isolation], END
    if not is_past:
        expected, limit = given.limited(isolation)
    bounds = bounds_of(chance, given.tree, given.bases["read_uncommitted"])
    wanted = [at for at in expected.found if bounds.low <= at < bounds.high]
    absent = within(expected.absent, bounds.since, min(bounds.high, limit))
    settings: dict[str, Any] = {
        "committed": isolation == "read_committed",
        "past_high_watermark": is_past,
        "between": tuple((name, str(value)) for name, value in bounds.options.items()),
    }
    lake = given.path / "lake of a part"
    with pytest.MonkeyPatch.context() as patch:
        try:
            exported(patch, given.place, lake, **settings)
        except (RecordsError, JobError) as error:
            if given.is_clear and not absent:
                return f"an export with {settings} fails: {error}"
        else:
            if absent and given.is_clear:
                return f"an export with {settings} ends well, though {absent} are absent"
            wrong = _compared(given, isolation, _offsets(lake), wanted, f"an export ({settings})")
            if wrong is not None:
                return wrong
        exported(patch, given.place, lake, skip_damaged=True, **settings)
    return _compared(given, isolation, _offsets(lake), wanted, f"a second export ({settings})")


def _offsets(lake: Path, partition: int = 0) -> list[int]:
    return [row[2] for row in archived(lake) if row[1] == partition]


# --- another partition, and another cluster


def _several(given: _Given) -> str | None:
    """Checks queries, streams and an export of two partitions. The result for each must be the same
    as alone."""
    chance, place = given.chance, given.place
    end = _write_beside(chance, given.path / "logs" / "b1 beside")
    wrong = _of_two(given, list(range(end)))
    shutil.rmtree(given.path / "logs" / "b1 beside")
    return None if wrong is None else f"{wrong} ({place} and {BESIDE})"


def _write_beside(chance: random.Random, broker: Path) -> int:
    """Writes another partition of the topic, of one broker. Returns its end offset."""
    log: list[Batch] = []
    while not log or not any(one.records for one in log):
        log = [one for one in appended(chance, [], 0, 0, chance.randrange(2, 9)) if one.records]
    records = [record for one in log for record in one.records]
    log = [Batch(at, at, 0, ((at, key, value),)) for at, (_, key, value) in enumerate(records)]
    directory = broker / BESIDE
    directory.mkdir(parents=True)
    data = b"".join(one.data for one in log)
    (directory / file_name(0, Kind.LOG)).write_bytes(data)
    (broker / HIGH_WATERMARKS).write_text(f"0\n1\na 1 {len(log)}\n")
    return len(log)


def _of_two(given: _Given, beside: list[int]) -> str | None:
    chance, place = given.chance, given.place
    isolation = chance.choice(list(given.bases))
    plain = given.bases[isolation]
    first, last = sorted((chance.randrange(len(beside) + 1), len(beside)))
    bounds = bounds_of(chance, given.tree, plain)
    if "startingOffsets" not in bounds.options:
        bounds = Bounds(0, END, 0, {})
    options: dict[str, Any] = {"isolation": isolation, "mode": "PERMISSIVE"}
    options |= chance.choice([{}, {"minPartitions": 4}, {"maxPartitionBytes": 200}])
    for name, mine, its in [
        ("startingOffsets", bounds.low, first),
        ("endingOffsets", bounds.high, last),
    ]:
        if name in bounds.options:
            options[name] = json.dumps({"a": {"0": mine, "1": its}})
    if "startingOffsets" not in options:
        first = 0
    read = rows(place, **options)
    got, absent = plain_of(row for row in read if row["partition"] == 0)
    wanted = [at for at in plain.found if bounds.low <= at < bounds.high]
    wrong = _compared(given, isolation, got, wanted, f"{options}")
    if wrong is not None:
        return wrong
    if given.is_clear and within(absent, bounds.since, bounds.high) != within(
        plain.absent, bounds.since, bounds.high
    ):
        return f"{options} reports {absent}"
    if [row["offset"] for row in read if row["partition"] == 1] != beside[first:last]:
        return f"{options} reads of {BESIDE} not {beside[first:last]}"
    return _followed_and_exported(given, beside)


def _followed_and_exported(given: _Given, beside: list[int]) -> str | None:
    options = {"stopAtHighWatermark": "false", "failOnDataLoss": "false", "mode": "DROPMALFORMED"}
    source = stream(given.place, **options)
    at = source.initialOffset()
    source.prepareForTriggerAvailableNow()
    streamed: list[str] = []
    while True:
        limits: Any = [Limit(), Limit(max_rows=5), Limit(max_bytes=400)]
        end = source.latestOffset(at, given.chance.choice(limits))
        if end == at:
            break
        streamed += read(source, at, end)
        at = end
    of_beside = [row for row in streamed if row.startswith(BESIDE)]
    if of_beside != [f"{BESIDE}:{one}" for one in beside]:
        return f"a stream of two partitions reads {of_beside}"
    mine = [int(row.rpartition(":")[2]) for row in streamed if row.startswith(f"{NAME}:")]
    found = given.bases["read_uncommitted"].found
    wrong = _compared(given, "read_uncommitted", mine, found, "a stream of two partitions")
    if wrong is not None:
        return wrong
    lake = given.path / "lake of two"
    with pytest.MonkeyPatch.context() as patch:
        exported(patch, given.place, lake, skip_damaged=True, past_high_watermark=True)
    if _offsets(lake, 1) != beside:
        return f"an export of two partitions has {_offsets(lake, 1)} of {BESIDE}"
    what = "an export of two partitions"
    return _compared(given, "read_uncommitted", _offsets(lake), found, what)


def _clusters(given: _Given) -> str | None:
    """Checks a query beside another cluster's directory. The query names one of the two
    clusters."""
    if not given.tree.cluster:
        return None
    broker = given.path / "logs" / "b1 of others"
    end = _write_beside(given.chance, broker)
    (broker / META_PROPERTIES).write_text(f"version=1\ncluster.id={OTHERS}\n")
    try:
        return _of_clusters(given, list(range(end)))
    finally:
        shutil.rmtree(broker)


def _of_clusters(given: _Given, others: list[int]) -> str | None:
    has_broker = any(one.broker not in TIERS and is_written(one) for one in given.tree.copies)
    if has_broker:
        try:
            rows(given.place)
        except MixedClustersError:
            pass
        else:
            return "two clusters are read as one"
        read = rows(given.place, clusterId=MINE, mode="PERMISSIVE")
        got, absent = plain_of(read)
        plain = given.bases["read_uncommitted"]
        if got != plain.found or absent != plain.absent:
            return f"clusterId={MINE} reads {got} and reports {absent}"
    read = rows(given.place, clusterId=OTHERS, partitions="1")
    if [(row["partition"], row["offset"]) for row in read] != [(1, at) for at in others]:
        return f"clusterId={OTHERS} does not read {others}"
    return None


def beside_refused(tree: Tree, path: Path, place: str) -> str | None:
    """Checks that a query can read another partition beside a tree that it has to refuse."""
    chance = random.Random(f"refused {tree.seed}")
    end = _write_beside(chance, path / "logs" / "b1 beside")
    found = [row["offset"] for row in rows(place, partitions="1")]
    shutil.rmtree(path / "logs" / "b1 beside")
    return None if found == list(range(end)) else f"{found} are read of {BESIDE} up to {end}"
