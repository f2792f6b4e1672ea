"""Random tests: the Spark reader must read every remaining record of a log, or report that it is
missing.

Brokers' directories are made from seeds (tree_model.py). The records that a query, a stream, jobs
and exports read there are compared with the model. There is no JVM: tasks run in this process."""

import os
import random
import shutil
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any, Final

import click
import pytest

from downconvert.spark.errors import MixedClustersError
from downconvert.spark.jobs import find, gap_report
from downconvert.spark.jobs.audit import audit
from downconvert.spark.jobs.audit.audit_segment import audit_segments
from downconvert.spark.jobs.jobs import JobError
from downconvert.spark.logs.completeness import State
from downconvert.storage.errors import CorruptFileError
from downconvert.storage.names import (
    LEADER_EPOCHS,
    OFFSET_MAX,
    PARTITION_METADATA,
    TopicPartition,
)
from records import Codec, RecordsError
from records.formats import NO_TIMESTAMP, V2
from tests import object_store
from tests.downconvert.spark.exporting import archived, exported
from tests.downconvert.spark.reading import rows

from .tree.tree_changes import changed_reads
from .tree.tree_combined import Plain, combined_reads, plain_of
from .tree.tree_damage import varied, write_varied
from .tree.tree_history import check_history
from .tree.tree_log import KEYS
from .tree.tree_mixed import MIXED
from .tree.tree_model import Tree
from .tree.tree_offsets import FLIPPED
from .tree.tree_places import is_written
from .tree.tree_reads import followed, joined, other_reads, range_of, within
from .tree.tree_rows import all_columns
from .tree.tree_selected import SELECTED, beside_refused, selected_reads
from .tree.tree_shapes import SHAPED

PARTITION: Final = TopicPartition("a", 0)
STREAMED: Final = {"failOnDataLoss": True, "stopAtHighWatermark": False}
ALL: Final[dict[str, Any]] = {"topics": (), "skip_damaged": False}
SHOWN: Final = 50  # trees for each line of progress
MEMORY: Final = Path("/dev/shm")  # here trees are written and removed faster than on a disk


class WrongError(AssertionError):
    """Records are missing or wrong, and no gap was reported."""


def check(seed: int, path: Path, uri: str | None = None) -> bool:
    """Checks one tree, made below an empty directory. `uri`: that directory in a store, if it is
    read from there. Returns whether something was missing. WrongError: a result is wrong."""
    tree = varied(seed)
    logs = path / "logs"
    write_varied(tree, logs)
    place = str(logs) if uri is None else f"{uri}/logs"
    refusals = _refusals(tree, logs, is_stored=uri is not None)
    if refusals:
        if seed >= SELECTED:
            wrong = beside_refused(tree, path, place)
            _expect(tree, wrong is None, wrong or "")
        try:
            rows(place)
        except refusals:
            return False
        raise WrongError(f"seed {seed}: not refused, though {refusals} is expected")
    try:
        with warnings.catch_warnings(record=True) as notices:
            warnings.simplefilter("always")
            found, absent = _query(tree, place)
        _warned(tree, found, absent, [str(one.message) for one in notices])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if seed >= SHAPED:
                wrong = other_reads(tree, place, found, absent)
                _expect(tree, wrong is None, wrong or "")
            plain, committed = Plain(found, absent), _committed(tree, place, found)
            if seed >= MIXED:
                wrong = combined_reads(tree, place, plain, committed)
                _expect(tree, wrong is None, wrong or "")
            if seed >= SELECTED:
                wrong = selected_reads(tree, path, place, plain, committed)
                _expect(tree, wrong is None, wrong or "")
            if seed >= FLIPPED:
                wrong = all_columns(tree, place, found) or (
                    changed_reads(tree, path, place, found) if uri is None else None
                )
                _expect(tree, wrong is None, wrong or "")
            _jobs(tree, place, found, absent)
            _audit(tree, place, found)
            _stream(tree, place, found, is_whole=not absent)
            _export(tree, logs, place, path / "lake", found, is_whole=not absent)
    except WrongError:
        raise
    except Exception as error:
        raise WrongError(f"seed {seed}: {type(error).__name__}: {error}") from error
    return bool(absent)


def _refusals(tree: Tree, logs: Path, *, is_stored: bool) -> tuple[type[Exception], ...]:
    """The errors of a query that must fail, because two topics have one name, no file is left, or a
    copy was made during a cleaning."""
    if is_stored and any(logs.rglob("*.log.swap")):
        return MixedClustersError, CorruptFileError
    if tree.is_refused:
        return (MixedClustersError,)
    return () if any(map(is_written, tree.copies)) else (ValueError,)


def _query(tree: Tree, place: str) -> tuple[list[int], list[tuple[int, int]]]:
    """The offsets that a query reads, and the ranges that it reports as missing."""
    found: list[int] = []
    absent: list[tuple[int, int]] = []
    for row in rows(place, mode="PERMISSIVE"):
        if row["_corrupt"] is None:
            is_record = row["value"] == tree.truth.get(row["offset"])
            _expect(tree, is_record, f"what is read at {row['offset']} is not the record")
            found.append(row["offset"])
            continue
        start, end = row["_corrupt"]["startOffset"], row["_corrupt"]["endOffset"]
        _expect(tree, start is not None, f"{row} does not say what is absent")
        absent.append((start, 2**63 if end is None else end))
    _expect(tree, len(found) == len(set(found)), "records come twice")
    left = tree.had() - set(found)
    silent = {at for at in left if not any(start <= at < end for start, end in absent)}
    _expect(tree, not silent, f"offsets {sorted(silent)} are absent, and nothing says so")
    lost = tree.readable() - set(found)
    _expect(tree, not lost, f"offsets {sorted(lost)} are in a copy, and were not read")
    if not tree.is_hurt:  # retention may still have made a gap between two copies
        had = {at for at in tree.had() if any(start <= at < end for start, end in absent)}
        _expect(tree, not had, f"nothing is damaged, and {absent} are reported")
    try:
        strict = [row["offset"] for row in rows(place)]
    except RecordsError:
        _expect(tree, bool(absent), "FAILFAST fails, and PERMISSIVE reports nothing")
    else:
        _expect(tree, not absent and strict == found, "FAILFAST reads less without an error")
    _parts(tree, place, found, absent)
    return found, absent


def _warned(
    tree: Tree, found: list[int], absent: list[tuple[int, int]], notices: list[str]
) -> None:
    """Checks that a query warns of records that damage at the end of a copy may hide. If that copy
    has lost its leader epochs, it looks like a copy that a later leader has truncated."""
    end = max(tree.seen())  # a DeleteRecords request may have moved the start beyond the end
    hidden = {at for copy in tree.copies if copy.is_valid for at in copy.hidden() if at >= end}
    hidden -= {at for at in hidden if at in found or _is_within(at, absent)}
    named = ["it is not known whether it went beyond"]
    if any(LEADER_EPOCHS in copy.lost_notes for copy in tree.copies):
        named.append("copies of a-0 differ")
    is_named = any(warning in what for warning in named for what in notices)
    _expect(tree, not hidden or is_named, f"{hidden} may be lost without a word")
    noted = any("topic id" in what for what in notices)
    lost = [copy.lost_notes.get(PARTITION_METADATA) for copy in tree.copies if copy.present()]
    is_expected = {"empty", "noise"} & set(lost) and len(lost) > 1
    _expect(tree, noted or not is_expected, "a damaged topic id is ignored without a word")


def _parts(tree: Tree, place: str, found: list[int], absent: list[tuple[int, int]]) -> None:
    """Checks a query with small tasks, and a query of a range of offsets."""
    chance = random.Random(f"parts {tree.seed}")
    end = max(tree.seen()[1], 2)
    low = min(tree.seen()[0], end - 1) if tree.seed >= SHAPED else 0
    first = chance.randrange(low, end)
    last = chance.randrange(first + 1, end + 1)
    bounds = {
        "startingOffsets": f'{{"a": {{"0": {first}}}}}',
        "endingOffsets": f'{{"a": {{"0": {last}}}}}',
    }
    for low, high, options in [(0, 2**63, {}), (first, last, bounds)]:
        size = chance.choice([100, 300, 1000])
        read = rows(place, mode="PERMISSIVE", maxPartitionBytes=size, **options)
        got = [row["offset"] for row in read if row["_corrupt"] is None]
        expected = [at for at in found if low <= at < high]
        named = within(map(range_of, (row for row in read if row["_corrupt"])), low, high)
        wanted = within(absent, low, high)
        if any(copy.is_misindexed for copy in tree.copies):  # the index entries used are others
            expected = sorted(at for at in tree.had() if low <= at < high)
            expected = [at for at in expected if at in got or not _is_within(at, named)]
            got, wanted = [at for at in got if at in tree.had()], named
        _expect(tree, got == expected, f"{got} are read of {expected}, in tasks of {size} bytes")
        _expect(tree, named == wanted, f"{named} are reported of {wanted}, in small tasks")


def _committed(tree: Tree, place: str, found: list[int]) -> Plain:
    """Checks a query of committed records, and returns its result. `found`: the offsets that a
    query of all records reads."""
    got, named = plain_of(rows(place, isolation="read_committed", mode="PERMISSIVE"))
    end = max(tree.seen()[1], found[-1] + 1 if found else 0)
    known = tree.transactions(end)
    expected = [at for at in found if at not in known.records and at < known.stable(end)]
    if any(copy.has_snapshots and "snapshot" not in copy.lost_notes for copy in tree.copies):
        # Snapshots may have transactions whose first records no copy has.
        full = tree.transactions(end, with_snapshots=True)
        with_it = [at for at in found if at not in full.records and at < full.stable(end)]
        expected = min(expected, with_it, key=len)
        known = known._replace(records=known.records & full.records, spans=known.spans + full.spans)
    try:
        strict = [row["offset"] for row in rows(place, isolation="read_committed")]
    except RecordsError:
        _expect(tree, bool(named), "FAILFAST fails, and nothing is reported")
    else:
        _expect(tree, not named and strict == got, "FAILFAST reads less without an error")
        _expect(tree, strict == expected, f"{strict} are read as committed, and {expected} are")
    unclear = {  # a missing batch may have been the marker of their transaction
        at
        for first, last, records in known.spans
        if any(start <= last and first < end for start, end in named)
        for at in records
    }
    left = {at for at in expected if not _is_within(at, named)} - unclear - set(got)
    _expect(tree, not left, f"{sorted(left)} are committed, absent, and not reported")
    aborted = known.records | {
        at for _, last, own in known.spans if last == OFFSET_MAX for at in own
    }
    more = sorted((set(got) & aborted) - unclear)
    _expect(tree, not more, f"{more} are not committed, and were read")
    return Plain(got, named)


def _is_within(offset: int, ranges: list[tuple[int, int]]) -> bool:
    return any(start <= offset < end for start, end in ranges)


def _audit(tree: Tree, place: str, found: list[int]) -> None:
    """Checks an audit. In a sound log it must count all records. It reads only the chosen copy's
    files, not those of other copies that fill gaps."""
    shares = [share for task in audit.plan([place], (), False) for share in audit_segments(task)]
    damages = [damage for share in shares for damage in share["damages"]]
    if tree.is_hurt or any(copy.cleaned or copy.is_misindexed for copy in tree.copies):
        return
    if any(one.magic != V2 and one.codec is not Codec.NONE for one in tree.log):
        return  # headers of compressed old messages do not count records
    if any(one.time(at) < NO_TIMESTAMP for one in tree.log for at, _, _ in one.records):
        return  # v0 and v1 have no such timestamps
    if len(tree.copies) > 1 and any(piece.spare for copy in tree.copies for piece in copy.pieces):
        return  # zeros at the end are damage if a segment of another copy follows
    _expect(tree, not damages, f"nothing is damaged, and an audit has {damages}")
    counted = sum(share["records"] for share in shares)
    is_right = counted == len(found) if len(tree.copies) == 1 else counted <= len(found)
    _expect(tree, is_right, f"an audit counts {counted} of {len(found)} records")


def _stream(tree: Tree, path: str, found: list[int], *, is_whole: bool) -> None:
    """Checks a stream, with random limits and restarts."""
    try:
        streamed, _ = followed(random.Random(tree.seed), path, STREAMED)
    except RecordsError:
        # In a cleaned segment the driver cannot distinguish damage from an unfinished copy.
        is_unclear = tree.is_hurt and any(copy.cleaned for copy in tree.copies)
        _expect(tree, not is_whole or is_unclear, "a stream fails, and a query reports nothing")
        return
    _expect(tree, is_whole, f"a stream reads {streamed} and ends well, though some is missing")
    _expect(tree, streamed == found, f"a stream reads {streamed}, and a query {found}")


def _jobs(tree: Tree, place: str, found: list[int], absent: list[tuple[int, int]]) -> None:
    """Checks the jobs find and gaps. An audit counts the rows of gaps too."""
    bare = {at for one in tree.log for at, key, _ in one.records if key is None}
    found = [at for at in found if at not in bare]
    keys = [f"k{number}".encode() for number in range(KEYS)]
    try:
        strict = [row for task in find.plan_of([place], keys, **ALL) for row in find.search(task)]
    except RecordsError:
        _expect(tree, bool(absent), "find fails, and a query reports nothing")
    else:
        _expect(tree, not absent, "find leaves something out without an error")
        _expect(tree, [row["offset"] for row in strict] == found, "find has other records")
    tasks = find.plan_of([place], keys, **(ALL | {"skip_damaged": True}))
    left = [row["offset"] for task in tasks for row in find.search(task)]
    _expect(tree, left == found, f"find has {left} without what is damaged, a query {found}")
    reported = [row for task in gap_report.plan_of([place]) for row in gap_report.look(task)]
    gaps = [row for row in gap_report.joined(reported) if row["state"] != State.SUPERSEDED]
    named = [(row["from"], 2**63 if row["to"] is None else row["to"]) for row in gaps]
    _expect(tree, joined(named) == joined(absent), f"gaps are {named}, a query reports {absent}")


def _export(
    tree: Tree, logs: Path, place: str, lake: Path, found: list[int], *, is_whole: bool
) -> None:
    """Checks three exports: one that fails at damage, one that skips it, and one after it was
    repaired."""
    with pytest.MonkeyPatch.context() as patch:
        try:
            exported(patch, place, lake, past_high_watermark=True)
        except (RecordsError, JobError):
            _expect(tree, not is_whole, "an export fails, and a query reports nothing")
            _expect(tree, not archived(lake), "a run that failed has left records")
        else:
            _expect(tree, is_whole, "an export ends well, though some is missing")
            _expect(
                tree,
                _offsets(lake) == found,
                f"an export has {_offsets(lake)}, and a query {found}",
            )
        there = exported(patch, place, lake, skip_damaged=True, past_high_watermark=True)
        _expect(
            tree,
            _offsets(lake) == found,
            f"without what is damaged {_offsets(lake)}, and a query {found}",
        )
        noted = there.ranges.get(PARTITION, [])
        lies = {
            at for at in tree.had() - set(found) if any(start <= at < end for start, end in noted)
        }
        _expect(tree, not lies, f"a note names {sorted(lies)}, which were not written")
        shutil.rmtree(logs)
        write_varied(tree, logs, is_healed=True)
        healed = rows(place, mode="PERMISSIVE")  # retention may still have made a gap
        whole = [row["offset"] for row in healed if row["_corrupt"] is None]
        start = whole[0] if whole else OFFSET_MAX  # records removed before stay archived
        is_short = len(whole) < len(healed)
        exported(patch, place, lake, skip_damaged=is_short, past_high_watermark=True)
        late = [at for at in _offsets(lake) if at >= start]
        is_right = set(late) >= (tree.had() & set(whole)) and len(set(late)) == len(late)
        if not any(copy.cleaned for copy in (*tree.copies, *tree.lost)):
            is_right = late == whole
        _expect(tree, is_right, f"after it was repaired {late} are there, and not {whole}")


def _offsets(lake: Path) -> list[int]:
    return [row[2] for row in archived(lake)]


def _expect(tree: Tree, holds: bool, otherwise: str) -> None:
    if not holds:
        raise WrongError(f"seed {tree.seed}: {otherwise}")


@click.command()
@click.option("--cases", default=1000, show_default=True)
@click.option("--seed", default=0, show_default=True, help="Of the first one.")
@click.option("--histories", is_flag=True, help="Logs that change between two exports.")
@click.option("--store", "is_stored", is_flag=True, help="Read by way of an object store.")
def main(cases: int, seed: int, histories: bool, is_stored: bool) -> None:
    """Check CASES trees."""
    warnings.simplefilter("ignore")
    in_memory = MEMORY if MEMORY.is_dir() else None
    with tempfile.TemporaryDirectory(prefix="trees-", dir=in_memory) as scratch:
        bucket = Path(scratch) / "buckets" / "bucket"
        bucket.mkdir(parents=True)
        if not is_stored:
            _check_all(cases, seed, bucket, None, histories=histories)
        with object_store.running(bucket.parent, Path(scratch) / "requests.log") as store:
            os.environ |= store.environment
            _check_all(cases, seed, bucket, "s3://bucket", histories=histories)


def _check_all(cases: int, seed: int, place: Path, uri: str | None, *, histories: bool) -> None:
    began, wrong, missing = time.monotonic(), 0, 0
    for one in range(seed, seed + cases):
        with tempfile.TemporaryDirectory(prefix="tree-", dir=place) as scratch:
            at = None if uri is None else f"{uri}/{Path(scratch).name}"
            try:
                if histories:
                    check_history(one, Path(scratch), at)
                else:
                    missing += check(one, Path(scratch), at)
            except AssertionError as error:
                wrong += 1
                click.echo(error)
        if (done := one - seed + 1) % SHOWN == 0:
            used = time.process_time() / done
            click.echo(
                f"{done:,} of {cases:,} trees, {wrong} wrong, {used:.2f} s of CPU time each",
                err=True,
            )
    seconds = time.monotonic() - began
    click.echo(
        f"{cases:,} trees from seed {seed}: {wrong} wrong, {missing:,} with something missing, "
        f"{seconds:.0f} s"
    )
    raise SystemExit(1 if wrong else 0)


if __name__ == "__main__":
    main()
