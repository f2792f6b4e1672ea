"""Damaged logs are read wholly, or the missing offsets are named: some of the seeds of
`python -m bench.trees`."""

from collections.abc import Callable, Iterable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from bench import trees
from bench.tree import tree_combined, tree_selected
from bench.tree.tree_history import check_history
from bench.tree.tree_mixed import MIXED
from bench.tree.tree_model import generated
from bench.tree.tree_offsets import AMID, BESIDE, FEWER, FLIPPED, MISDATED
from bench.tree.tree_places import PLACED
from bench.tree.tree_selected import SELECTED
from bench.tree.tree_shapes import SHAPED
from tests.object_store import ObjectStore

from .reading import Row, rows


def check_four(first: int, path: Path, check: Callable[[int, Path], object]) -> None:
    for seed in range(first, first + 4):
        (path / str(seed)).mkdir()
        check(seed, path / str(seed))


def fours(seeds: Iterable[int], *, always: int) -> list[Any]:
    """The first of four seeds each. So many are in each run, and the others in `make test-all`."""
    firsts = list(seeds)
    later = [pytest.param(one, marks=pytest.mark.more) for one in firsts[always:]]
    return [*firsts[:always], *later]


@pytest.mark.parametrize(
    "first",
    [
        *fours(range(0, 24, 4), always=3),
        # In tars, gzipped, in tiered storage, on two disks; and with whole copies missing or empty.
        *fours(range(PLACED, PLACED + 24, 4), always=0),
        # With timestamps, filters and counts: also of large offsets, of segments that a cleaner has
        # merged, and by way of batches.
        *fours(range(SHAPED, SHAPED + 12, 4), always=1),
        # With options together: also of mixed formats, large records, preallocated files and two
        # leaders' tiered storage.
        *fours(range(MIXED, MIXED + 8, 4), always=1),
        # Selected parts: up to high watermarks, beside another partition or cluster, in exports of
        # a part; also of encrypted tiered storage, and of overlapping segments there.
        *fours(range(SELECTED, SELECTED + 8, 4), always=0),
        # With wrong offsets, and all columns: also of headers, nulls, log append time and
        # timestamps of any size, and of files that change between planning and reading.
        *fours(range(FLIPPED, FLIPPED + 8, 4), always=1),
        # With wrong offsets beside damage, and wrong numbers of offsets or records.
        *fours((BESIDE, FEWER), always=1),
        # With wrong leader epochs, also before other batches.
        *fours((MISDATED, AMID, MISDATED + 47), always=2),
    ],
)
def test_rows_are_right_or_absent_offsets_are_reported(tmp_path: Path, first: int) -> None:
    check_four(first, tmp_path, trees.check)


# The reader was wrong with each of these seeds once, or the model was. The commit that added a seed
# says why.
@pytest.mark.slow
@pytest.mark.parametrize(
    "seed",
    [
        *(1003, 1184, 2231, 3202, 300004, 300100, 305078, 325058, 901109, 1000765),
        *(3001020, 3000094, 3001081, 3020054, 3001193, 3010066, 3100145, 3300301, 6002001),
        *(7100007, 7100587, 6000418, 7101963, 9000143, 9100256, 9441080, 9600124, 9710078),
        *(9810116, 9900578, 10050385, 10300012, 10300028, 10300273, 10300229, 10300254),
        *(10300303, 10300307, 10300389, 10300580, 10400132, 10300525),
        *(10400062, 10300493, 10300497, 10400082, 10400123, 10410326, 10500043),
        *(24000003, 24000025, 24000044, 24000085, 24000046, 25000021, 25000147, 24000213),
        *(25100017, 26000195, 26000294, 26000424, 26000493, 26000664, 26000513, 26000804),
        *(31005059, 32000196, 31001077, 31000570, 31006050, 31010067, 31000969, 31000989),
        *(32000503, 31001830, 31010890, 31010950, 31006518, 31001826, 31006580, 31010593, 24000335),
    ],
)
def test_seeds_that_once_failed_pass(tmp_path: Path, seed: int) -> None:
    assert trees.check(seed, tmp_path) in (False, True)


@pytest.mark.parametrize(
    "first",
    [
        *fours((PLACED, *range(0, 24, 4), PLACED + 4), always=3),
        # With wrong leader epochs while an export runs.
        *fours((AMID + 20, AMID + 44), always=1),
    ],
)
def test_an_export_and_a_stream_follow_a_log_that_changes(tmp_path: Path, first: int) -> None:
    check_four(first, tmp_path, check_history)


@pytest.mark.others
@pytest.mark.parametrize("first", [0, pytest.param(8, marks=pytest.mark.more)])
def test_a_store_gives_the_same(store: tuple[ObjectStore, Path], first: int) -> None:
    for seed in range(first, first + 8):
        for name, check in (("tree", trees.check), ("history", check_history)):
            path = store[1] / f"{name}-{seed}"
            path.mkdir()
            check(seed, path, f"s3://bucket/{name}-{seed}")


# Each was read wrongly once: batches behind damage (twice), a range within an empty segment, a gap
# after what a later leader truncated, a torn end between two tasks, a note with the epoch of
# truncated records, a copy without epochs whose last segment is unreadable, batches behind damage
# that a stream took for a gap, an index of noise, a damaged snapshot of producers,
# damage at the beginning of the last segment.
@pytest.mark.others
@pytest.mark.parametrize(
    "seed",
    [
        *(600475, 600489, 730027, 1200200, 2000022, 3020040),
        *(3200003, 3400034, 3400067, 6000016, 6000520),
    ],
)
def test_seeds_that_once_failed_in_a_store_pass(store: tuple[ObjectStore, Path], seed: int) -> None:
    (store[1] / str(seed)).mkdir()
    assert trees.check(seed, store[1] / str(seed), f"s3://bucket/{seed}") in (False, True)


def test_the_model_notices_missing_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trees, "rows", lambda *path, **options: rows(*path, **options)[1:])
    seed = next(seed for seed in range(20) if not generated(seed).is_refused)
    with pytest.raises(trees.WrongError, match=r"nothing says so|were not read"):
        trees.check(seed, tmp_path)


@pytest.mark.parametrize(
    ("option", "seed", "family"),
    [
        ("isolation", 10_000_011, tree_combined),
        ("startingTimestamp", 10_000_006, tree_combined),
        ("endingTimestamp", 10_000_005, tree_combined),
        ("endingOffsets", 10_000_003, tree_combined),
        ("stopAtHighWatermark", 10_200_728, tree_selected),
        ("failOnDataLoss", 10_200_226, tree_selected),
        ("clusterId", 10_200_001, tree_selected),
        ("startingOffsets", 10_200_000, tree_selected),
    ],
)
def test_the_model_notices_an_option_that_has_no_effect(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    option: str,
    seed: int,
    family: ModuleType,
) -> None:
    def without(*path: Any, **options: Any) -> list[Row]:
        return rows(*path, **{name: value for name, value in options.items() if name != option})

    monkeypatch.setattr(family, "rows", without)
    with pytest.raises(trees.WrongError, match=r"reads|absent|fails at|Error: "):
        trees.check(seed, tmp_path)
