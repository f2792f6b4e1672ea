"""A query that ends, over a compacted log that is still being copied: all of it, or an error."""

import shutil
from pathlib import Path
from typing import Any, Final

import pytest

from downconvert.spark.logs.places import Json
from downconvert.storage.names import Kind, file_name
from records import RecordsError
from tests.downconvert.spark.reading import packed
from tests.downconvert.storage.logs import batch, indexed_segment

from .test_follow import Limit, read, stream

# The offsets that a cleaner has left, by segment and batch. Offsets are missing between batches,
# and at the end of each segment. The last segment has not been cleaned.
LEFT: Final = {0: [(1, 2), (6,), (9, 11)], 20: [(22,), (25, 26), (30, 31)], 40: [(40, 41), (42,)]}
ALL: Final = [offset for batches in LEFT.values() for offsets in batches for offset in offsets]
AT_END: Final = {"offset": 43, "leaderEpoch": 0}
BEGINNING: Final[Json] = {"a": {"0": 0}}


def made(offsets: tuple[int, ...]) -> bytes:
    return batch(*offsets, leader_epoch=0, size=100)


def compacted(broker: Path, checkpoint: int | None) -> Path:
    broker.mkdir()
    for base, batches in LEFT.items():
        indexed_segment(broker / "a-0", base, *map(made, batches))
    if checkpoint is not None:
        (broker / "cleaner-offset-checkpoint").write_text(f"0\n1\na 0 {checkpoint}\n")
    return broker / "a-0"


def run(path: Path, place: Json, limit: Any, found: list[str]) -> tuple[Json, bool]:
    """Adds to `found` what a query gives until it ends, or fails. Returns where it ended, and
    whether it failed."""
    source = stream(path)
    source.prepareForTriggerAvailableNow()
    for _ in range(40):
        try:
            end = source.latestOffset(place, limit)
            rows = read(source, place, end)
        except RecordsError:
            return place, True
        if end == place:
            return place, False
        found += rows
        place = end
    raise AssertionError("does not end")


def names(offsets: list[int]) -> list[str]:
    return [f"a-0:{offset}" for offset in offsets]


@pytest.mark.parametrize("limit", [None, Limit(max_bytes=1), Limit(max_bytes=250)])
@pytest.mark.parametrize("checkpoint", [None, 40])
@pytest.mark.parametrize("is_packed", [False, True])
def test_a_whole_compacted_log_is_read_once_however_new_its_files_are(
    tmp_path: Path, is_packed: bool, checkpoint: int | None, limit: Any
) -> None:
    compacted(tmp_path / "b1", checkpoint)
    path = packed(tmp_path / "b1") if is_packed else tmp_path / "b1"
    found: list[str] = []
    place, is_failed = run(path, BEGINNING, limit, found)
    assert found == names(ALL)
    assert not is_failed
    assert run(path, place, limit, found) == (place, False)
    assert found == names(ALL)


@pytest.mark.parametrize("base", LEFT)
@pytest.mark.parametrize("are_later_there", [False, True])
@pytest.mark.parametrize(("checkpoint", "limit"), [(None, Limit(max_bytes=250)), (40, None)])
def test_a_copy_that_has_stopped_at_any_byte_is_not_read_as_if_it_were_whole(
    tmp_path: Path, checkpoint: int | None, limit: Any, are_later_there: bool, base: int
) -> None:
    """When the copy is finished, each record is read once."""
    log = compacted(tmp_path / "whole", checkpoint) / file_name(base, Kind.LOG)
    data, sizes = log.read_bytes(), [len(made(offsets)) for offsets in LEFT[base]]
    ends = [sum(sizes[: at + 1]) for at in range(3)][: len(sizes)]
    before = [offset for offset in ALL if offset < base]
    after = [offset for offset in ALL if offset > LEFT[base][-1][-1]] if are_later_there else []
    cuts = {0, 60, *(end + by for end in ends for by in (-1, 0)), *(end + 1 for end in ends[:-1])}
    for cut in sorted(cuts):
        target = tmp_path / str(cut)
        shutil.copytree(tmp_path / "whole", target)
        (target / "a-0" / log.name).write_bytes(data[:cut])
        for file in (target / "a-0").iterdir():
            if int(file.stem) > base and not are_later_there:
                file.unlink()
        copied = zip(LEFT[base], ends, strict=True)
        there = [*before, *(one for offsets, end in copied if end <= cut for one in offsets)]
        found: list[str] = []
        place, is_failed = run(target, BEGINNING, limit, found)
        assert is_failed == (cut < len(data) and bool(after))
        assert found == names([*there, *([] if is_failed else after)])[: len(found)]
        assert is_failed or len(found) == len(there) + len(after)
        shutil.copytree(tmp_path / "whole", target, dirs_exist_ok=True)
        assert run(target, place, limit, found) == ({"a": {"0": AT_END}}, False)
        assert found == names(ALL)
