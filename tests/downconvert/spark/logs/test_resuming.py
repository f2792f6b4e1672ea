"""After damage, the next batch is read if its offset fits. Otherwise it is lost with the damage."""

from pathlib import Path
from typing import Any

import pytest

from downconvert.storage.names import Kind, file_name
from records.formats import BATCH_HEADER_SIZE
from tests.damage import damaged, flipped, with_offset
from tests.downconvert.spark.reading import rows
from tests.downconvert.spark.stream.test_follow import read as follow
from tests.downconvert.spark.stream.test_follow import stream
from tests.downconvert.storage.logs import batch, indexed_segment, segment

GOOD = [batch(at, at + 1) for at in range(0, 10, 2)]
LAST_BYTE = 8 * (len(GOOD[0]) - 1)
MAKERS = pytest.mark.parametrize("make", [segment, indexed_segment])
LEVELS = pytest.mark.parametrize("level", ["record", "batch"])


def written(directory: Path, make: Any, entries: list[bytes], following: int | None = None) -> None:
    """A log whose indexes are those of sound batches, followed by another segment."""
    directory.parent.mkdir(parents=True, exist_ok=True)
    make(directory, 0, *GOOD)
    if following is not None:
        make(directory, following, batch(following))
    (directory / file_name(0, Kind.LOG)).write_bytes(b"".join(entries))


def read_and_lost(
    path: Path, level: str, **options: Any
) -> tuple[list[int], list[tuple[int, int]]]:
    found = rows(path, level=level, mode="PERMISSIVE", **options)
    gaps = [row["_corrupt"] for row in found if row["_corrupt"] is not None]
    column = "offset" if level == "record" else "baseOffset"
    read = [row[column] for row in found if row["_corrupt"] is None]
    return read, [(one["startOffset"], one["endOffset"]) for one in gaps]


@MAKERS
@LEVELS
@pytest.mark.parametrize("number", [1, 3])
def test_a_damaged_number_of_offsets_does_not_cost_the_next_batch(
    tmp_path: Path, make: Any, level: str, number: int
) -> None:
    """Another batch or segment begins right after that one."""
    entries = list(GOOD)
    entries[number] = damaged(GOOD[number], field="last_offset_delta", to=100, crc="stale")
    written(tmp_path / "logs" / "a-0", make, entries, following=10)
    read, lost = read_and_lost(tmp_path / "logs", level)
    assert lost == [(2 * number, 2 * number + 2)]
    step = 1 if level == "record" else 2
    assert read == [at for at in (*range(0, 10, step), 10) if at // 2 != number]
    options = {"mode": "DROPMALFORMED", "failOnDataLoss": False}
    source = stream(tmp_path / "logs", startingOffsets="earliest", **options)
    streamed = follow(source, source.initialOffset(), source.latestOffset())
    assert streamed == [f"a-0:{at}" for at in range(11) if at // 2 != number]


@MAKERS
@LEVELS
@pytest.mark.parametrize("low", [2, 3])
def test_a_batch_that_does_not_begin_after_damage_gives_no_record_anothers_offset(
    tmp_path: Path, make: Any, level: str, low: int
) -> None:
    """In another copy of the log. Its indexes do not lead to that batch."""
    broken = [flipped(one, LAST_BYTE) for one in GOOD]
    written(tmp_path / "b1" / "a-0", make, [GOOD[0], broken[1], broken[2], *GOOD[3:]])
    copy = [GOOD[0], broken[1], with_offset(GOOD[2], low), *GOOD[3:]]
    written(tmp_path / "b2" / "a-0", segment, copy)
    for index in (tmp_path / "b2" / "a-0").glob("*index"):
        index.unlink()
    read, lost = read_and_lost(tmp_path, level)
    assert set(read) == {0, 6, 8} | ({1, 7, 9} if level == "record" else set())
    assert {at for start, end in lost for at in range(start, end)} == {2, 3, 4, 5}


@LEVELS
def test_the_next_batch_is_lost_if_nothing_shows_that_its_offset_is_right(
    tmp_path: Path, level: str
) -> None:
    """Offsets are missing after it, and the damaged batch says that it has all offsets up to
    101."""
    bad = damaged(GOOD[1], field="last_offset_delta", to=99, crc="stale")
    written(tmp_path / "a-0", segment, [GOOD[0], bad, GOOD[2], GOOD[4]])
    read, lost = read_and_lost(tmp_path, level)
    assert set(read) <= {0, 1, 8, 9}
    assert {2, 3, 4, 5} <= {at for start, end in lost for at in range(start, end)}


@LEVELS
def test_a_damaged_number_of_offsets_does_not_look_like_the_work_of_a_cleaner(
    tmp_path: Path, level: str
) -> None:
    """A batch with fewer records than offsets shows one. Here the rest of the segment is missing,
    and nothing else says so."""
    bad = damaged(GOOD[1], field="last_offset_delta", to=99, crc="stale")
    written(tmp_path / "a-0", segment, [GOOD[0], bad, *GOOD[2:4]], following=10)
    _, lost = read_and_lost(tmp_path, level)
    assert lost == [(2, 4), (8, 10)]


@LEVELS
def test_a_damaged_batch_before_one_with_too_high_an_offset_is_lost_with_it(
    tmp_path: Path, level: str
) -> None:
    entries = [GOOD[0], flipped(GOOD[1], LAST_BYTE), with_offset(GOOD[2], 1 << 40), *GOOD[3:]]
    written(tmp_path / "a-0", segment, entries)
    read, lost = read_and_lost(tmp_path, level)
    assert set(read) == {0, 6, 8} | ({1, 7, 9} if level == "record" else set())
    assert lost == [(2, 6)]


@MAKERS
@LEVELS
@pytest.mark.parametrize("size", [100, 200, 1000])
def test_a_damaged_number_of_offsets_hides_nothing_from_the_next_task(
    tmp_path: Path, make: Any, level: str, size: int
) -> None:
    """Another task begins right after that batch, with a batch that is damaged too."""
    bad = damaged(GOOD[1], field="last_offset_delta", to=99, crc="stale")
    entries = [GOOD[0], bad, flipped(GOOD[2], LAST_BYTE), *GOOD[3:]]
    written(tmp_path / "a-0", make, entries, following=10)
    read, lost = read_and_lost(tmp_path, level, maxPartitionBytes=size)
    assert set(read) == {0, 6, 8, 10} | ({1, 7, 9} if level == "record" else set())
    assert lost == [(2, 4), (4, 6)]


@LEVELS
@pytest.mark.parametrize("size", [100, 1000])
def test_no_offset_of_the_next_segment_is_reported_with_damage(
    tmp_path: Path, level: str, size: int
) -> None:
    """A damaged header states them, and the next header cannot be read."""
    bad = damaged(GOOD[1], field="last_offset_delta", to=99, crc="stale")
    unreadable = bytes(BATCH_HEADER_SIZE) + GOOD[2][BATCH_HEADER_SIZE:]
    entries = [GOOD[0], bad, unreadable, *GOOD[3:]]
    written(tmp_path / "a-0", segment, entries, following=10)
    read, lost = read_and_lost(tmp_path, level, maxPartitionBytes=size)
    assert set(read) == {0, 10} | ({1} if level == "record" else set())
    assert lost == [(2, 10)]
