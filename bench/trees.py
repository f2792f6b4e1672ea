"""Does the Spark reader read every record of whatever is left of a log, or name what is missing?

Makes directories of brokers from seeds (tree_model.py), and compares what a query, a stream and
exports have of them with what the model says. No JVM: what tasks do is done in this process."""

import random
import shutil
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import click
import pytest

from downconvert.spark.errors import MixedClustersError
from downconvert.spark.jobs.jobs import JobError
from downconvert.spark.logs.places import Json
from downconvert.storage.names import TopicPartition
from records import RecordsError
from tests.downconvert.spark.exporting import archived, exported
from tests.downconvert.spark.reading import rows
from tests.downconvert.spark.stream.test_follow import Limit, read, stream

from .tree_model import Tree, generated, written

PARTITION = TopicPartition("a", 0)


class WrongError(AssertionError):
    """What was read is neither the truth nor said to be less."""


def check(seed: int, path: Path) -> bool:
    """Checks one tree, made below an empty directory. Returns whether something was missing.
    WrongError."""
    tree = generated(seed)
    logs = path / "logs"
    written(tree, logs)
    if tree.is_refused:
        try:
            rows(logs)
        except MixedClustersError:
            return False
        raise WrongError(f"seed {seed}: two topics of one name were read as one")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found, absent = _query(tree, logs)
            _stream(tree, logs, found, is_whole=not absent)
            _export(tree, logs, path / "lake", found, is_whole=not absent)
    except WrongError:
        raise
    except Exception as error:
        raise WrongError(f"seed {seed}: {type(error).__name__}: {error}") from error
    return bool(absent)


def _query(tree: Tree, logs: Path) -> tuple[list[int], list[tuple[int, int]]]:
    """The offsets that a query reads, and those that it reports."""
    found: list[int] = []
    absent: list[tuple[int, int]] = []
    for row in rows(logs, mode="PERMISSIVE"):
        if row["_corrupt"] is None:
            _expect(tree, row["value"] == tree.truth.get(row["offset"]), f"{row} is not the record")
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
    if not tree.is_hurt:  # though retention may have left something out between two copies
        had = {at for at in tree.had() if any(start <= at < end for start, end in absent)}
        _expect(tree, not had, f"nothing is damaged, and {absent} are reported")
    try:
        strict = [row["offset"] for row in rows(logs)]
    except RecordsError:
        _expect(tree, bool(absent), "FAILFAST fails, and PERMISSIVE reports nothing")
    else:
        _expect(tree, not absent and strict == found, "FAILFAST reads less without an error")
    return found, absent


def _stream(tree: Tree, logs: Path, found: list[int], *, is_whole: bool) -> None:
    """In any steps, with restarts."""
    chance = random.Random(tree.seed)
    place: Json = {"a": {"0": 0}}
    streamed: list[int] = []
    try:
        source = stream(logs, failOnDataLoss=True)
        place = source.initialOffset()
        source.prepareForTriggerAvailableNow()
        while True:
            limit: Any = chance.choice([Limit(), Limit(max_rows=7), Limit(max_bytes=300)])
            end = source.latestOffset(place, limit)
            if end == place:
                break
            streamed += [int(row.rpartition(":")[2]) for row in read(source, place, end)]
            place = end
            if chance.random() < 0.3:
                source = stream(logs)
                source.prepareForTriggerAvailableNow()
    except RecordsError:
        # The driver cannot tell damage from what is still copied in a segment that was cleaned.
        is_unclear = tree.is_hurt and any(copy.cleaned for copy in tree.copies)
        _expect(tree, not is_whole or is_unclear, "a stream fails, and a query reports nothing")
        return
    _expect(tree, is_whole, f"a stream reads {streamed} and ends well, though some is missing")
    _expect(tree, streamed == found, f"a stream reads {streamed}, and a query {found}")


def _export(tree: Tree, logs: Path, lake: Path, found: list[int], *, is_whole: bool) -> None:
    """Strictly, without what is damaged, and once more when it is not damaged any more."""
    with pytest.MonkeyPatch.context() as patch:
        try:
            exported(patch, logs, lake)
        except (RecordsError, JobError):
            _expect(tree, not is_whole, "an export fails, and a query reports nothing")
            _expect(tree, not archived(lake), "a run that failed has left records")
        else:
            _expect(tree, _offsets(lake) == found, "an export has other records than a query")
        there = exported(patch, logs, lake, skip_damaged=True)
        _expect(tree, _offsets(lake) == found, "without what is damaged it is not what is read")
        noted = there.ranges.get(PARTITION, [])
        lies = {
            at for at in tree.had() - set(found) if any(start <= at < end for start, end in noted)
        }
        _expect(tree, not lies, f"a note names {sorted(lies)}, which were not written")
        shutil.rmtree(logs)
        written(tree, logs, is_healed=True)
        healed = rows(logs, mode="PERMISSIVE")  # retention may still have left something out
        whole = [row["offset"] for row in healed if row["_corrupt"] is None]
        start = whole[0] if whole else 0
        exported(patch, logs, lake, skip_damaged=len(whole) < len(healed))
        late = [at for at in _offsets(lake) if at >= start]
        is_right = set(late) >= (tree.had() & set(whole)) and len(set(late)) == len(late)
        if not any(copy.cleaned for copy in tree.copies):
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
def main(cases: int, seed: int) -> None:
    """Check CASES trees."""
    began, wrong, missing = time.monotonic(), 0, 0
    for one in range(seed, seed + cases):
        with tempfile.TemporaryDirectory(prefix="trees-") as scratch:
            try:
                missing += check(one, Path(scratch))
            except WrongError as error:
                wrong += 1
                click.echo(error)
    seconds = time.monotonic() - began
    click.echo(
        f"{cases:,} trees from seed {seed}: {wrong} wrong, {missing:,} with something missing, "
        f"{seconds:.0f} s"
    )
    raise SystemExit(1 if wrong else 0)


if __name__ == "__main__":
    main()
