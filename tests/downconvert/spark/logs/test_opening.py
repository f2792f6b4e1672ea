"""A task's stretch of a segment is as it was planned, unless a boundary of a store's index proves
wrong: then the tasks on both sides of it take the same other one."""

import gzip
from pathlib import Path
from typing import Any

import pytest

from downconvert.spark.errors import SegmentChangedError
from downconvert.spark.logs.boundaries import Boundaries
from downconvert.spark.logs.opening import OpenedSegment, opened
from downconvert.spark.logs.segment_files import SegmentFile
from downconvert.spark.logs.splits import Split
from downconvert.spark.stores.blobs import Blob
from downconvert.spark.stores.store_errors import StoreError
from downconvert.storage.names import OFFSET_MAX, Kind, State, file_name
from tests.downconvert.spark.descriptors import open_below
from tests.downconvert.storage.logs import batch, indexed_segment

BATCHES = [batch(*range(base, base + 4)) for base in range(0, 24, 4)]
SIZE = len(BATCHES[0])
END = 6 * SIZE
LOG = file_name(0, Kind.LOG)


@pytest.fixture
def mounted(tmp_path: Path) -> SegmentFile:
    """Six batches of four records, with an index entry for each but the first."""
    indexed_segment(tmp_path / "a-0", 0, *BATCHES)
    return SegmentFile(str(tmp_path / "a-0"), 0, State.LIVE, END, OFFSET_MAX)


def stored(file: SegmentFile) -> SegmentFile:
    paths = {kind: Path(file.directory) / file_name(0, kind) for kind in Kind}
    blobs = tuple(
        (kind, Blob(str(paths[kind]), paths[kind].stat().st_size))
        for kind in (Kind.LOG, Kind.OFFSET_INDEX)
    )
    return SegmentFile("elsewhere", 0, State.LIVE, END, OFFSET_MAX, blobs)


def opened_at(file: SegmentFile, start: int = 0, end: int = END, **more: Any) -> OpenedSegment:
    offsets = {"first_offset": 0, "end_offset": OFFSET_MAX} | more
    return opened(Split("a", 0, file, start, end, **offsets))


def stretch(file: SegmentFile, start: int = 0, end: int = END, **more: Any) -> tuple[int, int]:
    found = opened_at(file, start, end, **more)
    found.close()
    return found.start, found.end


CUT: dict[str, Any] = {"is_cut": True}
FOLLOWED: dict[str, Any] = {"is_followed": True}


@pytest.mark.parametrize(
    ("start", "more", "expected"),
    [
        (0, {}, 0),
        (2 * SIZE, CUT, 2 * SIZE),
        (2 * SIZE + 3, CUT, 3 * SIZE),
        (2 * SIZE - 1, CUT, 2 * SIZE),
        (5 * SIZE + 3, CUT, END),
        (2 * SIZE, {"first_offset": 8}, 2 * SIZE),
        (2 * SIZE, {"first_offset": 11}, 2 * SIZE),
        (3 * SIZE, {"first_offset": 11}, 2 * SIZE),
        (3 * SIZE, {"first_offset": 2}, 0),
        (2 * SIZE + 3, {"first_offset": 13}, 2 * SIZE),  # the index notes last offsets
        (2 * SIZE + 3, {"first_offset": 13, "is_verified": True}, 2 * SIZE + 3),
        (2 * SIZE + 3, CUT | {"is_verified": True}, 2 * SIZE + 3),
        (3 * SIZE, CUT | {"first_offset": 2}, 3 * SIZE),
    ],
)
def test_a_stretch_of_a_store_begins_at_a_batch(
    mounted: SegmentFile, start: int, more: dict[str, Any], expected: int
) -> None:
    assert stretch(stored(mounted), start, **more) == (expected, END)


@pytest.mark.parametrize(
    ("end", "more", "expected"),
    [
        (END, {}, END),
        (END, FOLLOWED, END),
        (3 * SIZE, FOLLOWED, 3 * SIZE),
        (3 * SIZE + 2, FOLLOWED, 4 * SIZE),
        (3 * SIZE - 2, FOLLOWED, 3 * SIZE),
        (5 * SIZE + 2, FOLLOWED, END),
        (3 * SIZE, FOLLOWED | {"end_offset": 14}, 3 * SIZE),
        (3 * SIZE, {"end_offset": 12}, 3 * SIZE),
        (3 * SIZE, {"end_offset": 13}, END),
        (3 * SIZE + 2, {"end_offset": 12}, 4 * SIZE),
        (3 * SIZE + 2, {"end_offset": 12, "is_verified": True}, 3 * SIZE + 2),
    ],
)
def test_a_stretch_of_a_store_ends_before_a_batch(
    mounted: SegmentFile, end: int, more: dict[str, Any], expected: int
) -> None:
    assert stretch(stored(mounted), 0, end, **more) == (0, expected)


@pytest.mark.parametrize("position", range(SIZE, END, 7))
def test_tasks_on_both_sides_of_a_boundary_agree(mounted: SegmentFile, position: int) -> None:
    file = stored(mounted)
    before, after = stretch(file, 0, position, **FOLLOWED), stretch(file, position, **CUT)
    assert before[1] == after[0]
    assert before[1] % SIZE == 0
    assert before[1] >= position


def test_the_stretch_of_a_mounted_segment_is_the_planned_one(mounted: SegmentFile) -> None:
    assert stretch(mounted, 2 * SIZE + 3, 3 * SIZE, is_cut=True) == (2 * SIZE + 3, 3 * SIZE)


def test_batches_appended_after_the_plan_are_not_read(mounted: SegmentFile) -> None:
    with (Path(mounted.directory) / LOG).open("ab") as log:
        log.write(batch(24))
    for file in (mounted, stored(mounted)):
        found = opened_at(file)
        assert found.records.size == END
        assert sum(1 for _ in found.records.batches()) == 6
        found.close()


def test_a_segment_that_was_cut_since_is_an_error(mounted: SegmentFile) -> None:
    (Path(mounted.directory) / LOG).write_bytes(b"".join(BATCHES)[:-1])
    with pytest.raises(SegmentChangedError, match=f"{LOG} was cleaned or truncated"):
        opened_at(mounted)
    (Path(mounted.directory) / LOG).unlink()
    with pytest.raises(FileNotFoundError):
        opened_at(mounted)


@pytest.mark.parametrize("is_verified", [False, True])
def test_a_gzipped_segment_is_one_stretch_unless_it_was_looked_at(
    tmp_path: Path, is_verified: bool
) -> None:
    path = tmp_path / f"{LOG}.gz"
    path.write_bytes(gzip.compress(b"".join(BATCHES)))
    size = path.stat().st_size
    blob = Blob(str(path), size, is_gzipped=True)
    file = SegmentFile("elsewhere", 0, State.LIVE, size, OFFSET_MAX, ((Kind.LOG, blob),))
    found = opened_at(file, SIZE, 2 * SIZE, is_verified=is_verified)
    assert (found.start, found.end) == ((SIZE, 2 * SIZE) if is_verified else (0, END))
    assert found.records.size == END
    assert found.records.name == str(path)
    found.close()


@pytest.mark.parametrize("is_stored", [False, True])
@pytest.mark.parametrize("is_asked", [False, True])
def test_a_segment_that_is_closed_has_no_file_open(
    mounted: SegmentFile, is_stored: bool, is_asked: bool
) -> None:
    found = opened_at(stored(mounted) if is_stored else mounted, SIZE, 2 * SIZE)
    if is_asked:
        assert found.boundaries() is found.boundaries()
        assert found.boundaries().from_position(SIZE + 1) == 2 * SIZE
    next(found.records.batches())
    assert open_below(mounted.directory)
    found.close()
    assert [name for name in open_below(mounted.directory) if name.endswith(".index")] == []
    del found  # a slice of a mounted log keeps its file
    assert open_below(mounted.directory) == []


def test_a_segment_that_cannot_be_looked_at_has_no_file_open(
    mounted: SegmentFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unreachable(*_: Any) -> int:
        assert open_below(mounted.directory)
        raise StoreError("the store does not answer")

    monkeypatch.setattr(Boundaries, "from_position", unreachable)
    with pytest.raises(StoreError):
        opened_at(stored(mounted), SIZE, 2 * SIZE, is_cut=True)
    assert open_below(mounted.directory) == []
