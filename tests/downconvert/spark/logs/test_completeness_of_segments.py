"""Offsets that one segment has, and that its indexes say it had."""

import gzip
import struct
from dataclasses import replace
from pathlib import Path

import pytest

from downconvert.spark.errors import MissingOffsetsError
from downconvert.spark.logs.compacted import cleaned_until, is_indexed_beyond
from downconvert.spark.logs.completeness import (
    State,
    is_damaged_after,
    scan,
    stretches_of_copies,
)
from downconvert.spark.logs.segment_files import SegmentFile
from downconvert.spark.logs.splits import whole_file
from downconvert.spark.logs.trees import find_partitions
from downconvert.storage.names import OFFSET_MAX, Kind, file_name
from downconvert.storage.names import State as FileState
from records import MemoryRecords
from tests.damage import damaged, with_offset
from tests.downconvert.spark.reading import rows
from tests.downconvert.storage.logs import batch, indexed_segment, segment

BATCHES = [batch(at, at + 1, leader_epoch=epoch) for at, epoch in ((0, 0), (2, 0), (4, 1), (6, 3))]
SIZES = [sum(map(len, BATCHES[:count])) for count in range(5)]


def made(directory: Path, data: bytes | None = None, next_offset: int = 20) -> SegmentFile:
    """A segment with indexes for all batches. `data`: what is left of its log."""
    indexed_segment(directory, 0, *BATCHES)
    log = directory / file_name(0, Kind.LOG)
    log.write_bytes(b"".join(BATCHES) if data is None else data)
    return SegmentFile(str(directory), 0, FileState.LIVE, log.stat().st_size, next_offset)


def states(
    file: SegmentFile, *, cleaned: int = 0, end: int = OFFSET_MAX
) -> list[tuple[object, ...]]:
    return [one[:4] for one in scan(replace(file, cleaned=cleaned), 0, end)]


def test_stretches_are_of_one_epoch(tmp_path: Path) -> None:
    found = states(made(tmp_path))
    assert found == [(0, 4, State.WHOLE, 0), (4, 6, State.WHOLE, 1), (6, 8, State.WHOLE, 3)]


def test_damage_in_the_midst_is_a_stretch_and_nothing_is_claimed_of_its_end(tmp_path: Path) -> None:
    data = bytearray(b"".join(BATCHES))
    data[SIZES[2] - 1] ^= 1
    data[SIZES[3] + 8] ^= 1  # the size of the last batch
    file = made(tmp_path, bytes(data))
    expected = [(0, 2, State.WHOLE, 0), (2, 4, State.DAMAGED, 0), (4, 6, State.WHOLE, 1)]
    assert states(file, cleaned=20) == expected
    assert states(file, cleaned=20, end=3) == expected[:1]


@pytest.mark.parametrize("start", [0, 2, 3])
@pytest.mark.parametrize("is_indexed", [False, True])
def test_offsets_that_a_header_leaves_out_are_damaged_wherever_reading_begins(
    tmp_path: Path, is_indexed: bool, start: int
) -> None:
    """A header says that its batch has one offset. It has two."""
    few = damaged(BATCHES[1], field="last_offset_delta", to=0, crc="stale")
    file = made(tmp_path, BATCHES[0] + few + BATCHES[2])
    if not is_indexed:
        (tmp_path / file_name(0, Kind.OFFSET_INDEX)).unlink()
    found = [one[:3] for one in scan(file, start, 6)]
    first = [] if start else [(0, 2, State.WHOLE)]
    assert found == [*first, (max(start, 2), 4, State.DAMAGED), (4, 6, State.WHOLE)]


def test_a_batch_with_a_lower_offset_at_the_end_is_damage_also_for_a_reader_that_begins_near_it(
    tmp_path: Path,
) -> None:
    batches = [bytearray(batch(at, at + 1)) for at in range(10, 20, 2)]
    indexed_segment(tmp_path, 10, *map(bytes, batches))
    log = tmp_path / file_name(10, Kind.LOG)
    batches[-1][:8] = (14).to_bytes(8, "big")
    log.write_bytes(b"".join(batches))
    file = SegmentFile(str(tmp_path), 10, FileState.LIVE, log.stat().st_size, OFFSET_MAX)
    assert is_damaged_after(file, 18)


def test_a_cleaner_removed_what_a_sound_segment_lacks_at_its_end(tmp_path: Path) -> None:
    file = made(tmp_path)
    for kind in (Kind.OFFSET_INDEX, Kind.TIME_INDEX):
        assert not is_indexed_beyond(file, 8), kind
    whole = states(file)
    assert states(file, cleaned=15) == [*whole, (8, 15, State.COMPACTED, -1)]
    assert states(file, cleaned=30) == [*whole, (8, 20, State.COMPACTED, -1)]
    assert states(replace(file, is_clipped=True), cleaned=15) == whole
    assert states(replace(file, next_offset=OFFSET_MAX), cleaned=15) == whole


@pytest.mark.parametrize("left", [(Kind.OFFSET_INDEX,), (Kind.TIME_INDEX,), tuple(Kind)])
@pytest.mark.parametrize("count", [1, 2, 3])
def test_indexes_say_that_a_cut_segment_went_on(
    tmp_path: Path, left: tuple[Kind, ...], count: int
) -> None:
    file = made(tmp_path, b"".join(BATCHES)[: SIZES[count] + 20])
    for kind in (Kind.OFFSET_INDEX, Kind.TIME_INDEX):
        if kind not in left:
            (tmp_path / file_name(0, kind)).unlink()
    assert is_indexed_beyond(file, 2 * count)
    if count == 3:
        assert not is_indexed_beyond(replace(file, size=SIZES[4]), 8)


@pytest.mark.parametrize("entries", [0, 1, 3])
def test_indexes_without_entries_say_nothing(tmp_path: Path, entries: int) -> None:
    """They were preallocated."""
    file = made(tmp_path, b"")
    (tmp_path / file_name(0, Kind.OFFSET_INDEX)).write_bytes(bytes(8 * entries))
    (tmp_path / file_name(0, Kind.TIME_INDEX)).write_bytes(bytes(12 * entries))
    assert not is_indexed_beyond(file, 0)


def test_an_index_of_a_gzipped_log_has_positions_of_the_plain_one(tmp_path: Path) -> None:
    directory = tmp_path / "a-0"
    made(directory)
    log = directory / file_name(0, Kind.LOG)
    log.with_suffix(".log.gz").write_bytes(gzip.compress(log.read_bytes()))
    log.unlink()
    (found,) = find_partitions([str(tmp_path)])
    (file,) = found.segments
    file = replace(file, size=SIZES[1])
    assert not is_indexed_beyond(file, 8)
    assert is_indexed_beyond(file, 6)


@pytest.mark.parametrize("removed", [1, 5])
def test_offsets_that_are_missing_inside_show_a_cleaner(tmp_path: Path, removed: int) -> None:
    file = replace(made(tmp_path, b""), next_offset=50)
    for kind in (Kind.OFFSET_INDEX, Kind.TIME_INDEX):
        (tmp_path / file_name(0, kind)).unlink()
    dense = MemoryRecords(batch(0, 1) + batch(2))
    gap = MemoryRecords(batch(0, 1) + batch(2 + removed))
    inside = MemoryRecords(batch(0, 1 + removed) + batch(2 + removed))
    assert cleaned_until(file, 3, dense) == 3
    assert cleaned_until(file, 9, gap) == 50
    assert cleaned_until(file, 9, inside) == 50
    assert cleaned_until(replace(file, cleaned=30), 9, dense) == 30
    assert cleaned_until(replace(file, cleaned=5), 9, gap) == 9
    wrong = MemoryRecords(batch(0, 1) + batch(2 + removed) + batch(2))
    beyond = MemoryRecords(batch(0, 1) + batch(49 + removed))
    assert cleaned_until(file, 9, wrong) == 9
    assert cleaned_until(file, 9, beyond) == 9


@pytest.mark.parametrize(
    ("base_offset", "batches"),
    [(10, [batch(8), batch(11), batch(12)]), (0, [batch(0, 1), batch(0), batch(3), batch(4)])],
)
def test_a_batch_with_a_lower_offset_than_the_one_before_leaves_no_gap(
    tmp_path: Path, base_offset: int, batches: list[bytes]
) -> None:
    file = SegmentFile(str(tmp_path), base_offset, FileState.LIVE, 999, 50)
    assert cleaned_until(file, 13, MemoryRecords(b"".join(batches))) == 13


def test_a_file_that_a_cleaner_has_merged_lends_what_the_next_one_lacks(tmp_path: Path) -> None:
    directory = tmp_path / "a-0"
    indexed_segment(directory, 0, *BATCHES)
    indexed_segment(directory, 4, BATCHES[2][:-1] + b"?", BATCHES[3])
    indexed_segment(directory, 8, batch(8, leader_epoch=3))
    assert [row["offset"] for row in rows(tmp_path)] == list(range(9))


@pytest.mark.parametrize("noted_by", ["b1", "b2", None])
def test_a_cleaners_checkpoint_counts_for_the_copy_beside_it(
    tmp_path: Path, noted_by: str | None
) -> None:
    """The copy of b2 has the beginning of the log."""
    for name, base, batches in (("b2", 0, [batch(0, 1)]), ("b2", 9, []), ("b1", 9, [batch(9)])):
        (tmp_path / name).mkdir(exist_ok=True)
        indexed_segment(tmp_path / name / "a-0", base, *batches)
    if noted_by is not None:
        (tmp_path / noted_by / "cleaner-offset-checkpoint").write_text("0\n1\na 0 9\n")
    if noted_by == "b2":
        assert [row["offset"] for row in rows(tmp_path)] == [0, 1, 9]
    else:
        with pytest.raises(MissingOffsetsError, match="offsets 2 up to 9 are missing"):
            rows(tmp_path)


@pytest.mark.parametrize("gone", [Kind.OFFSET_INDEX, Kind.TIME_INDEX])
def test_one_record_is_enough_for_an_index_to_lead_beyond(tmp_path: Path, gone: Kind) -> None:
    """The entry has the offset at which the segment ends now."""
    batches = [batch(0), batch(1)]
    indexed_segment(tmp_path, 0, *batches)
    log = tmp_path / file_name(0, Kind.LOG)
    log.write_bytes(b"".join(batches)[:-1])
    (tmp_path / file_name(0, gone)).unlink()
    file = SegmentFile(str(tmp_path), 0, FileState.LIVE, log.stat().st_size, 20)
    assert is_indexed_beyond(file, 1)
    assert not is_indexed_beyond(file, 2)


@pytest.mark.parametrize(
    ("base", "behind"),
    [
        (2, []),
        (3, []),
        (4, [(3, 4, State.DAMAGED, 0), (4, 7, State.WHOLE, 0)]),
    ],
)
def test_a_batch_whose_offsets_go_back_is_not_what_follows_a_damaged_one(
    tmp_path: Path, base: int, behind: list[tuple[object, ...]]
) -> None:
    """Nothing shows which of its records are those of the damaged batch."""
    damaged = bytearray(batch(3, leader_epoch=0))
    damaged[-1] ^= 1
    following = batch(*range(base, 7), leader_epoch=0)
    file = made(tmp_path, batch(0, 1, 2, leader_epoch=0) + bytes(damaged) + following)
    for index in tmp_path.glob("*index"):
        index.unlink()
    assert states(file) == [(0, 3, State.WHOLE, 0), *behind]


def test_only_what_no_copy_has_and_no_cleaner_has_removed_is_missing(tmp_path: Path) -> None:
    """Cleaners have removed the same offsets in several copies; another copy has some of them."""
    copies = [
        (12, 20, 15, []),
        (5, 12, 7, []),
        (6, 12, 0, [batch(6, 7)]),
        (0, 12, 6, [batch(0, 1)]),
        (0, 12, 10, [batch(0, 1), batch(2, 3)]),
    ]
    files = []
    for number, (base, following, cleaned, batches) in enumerate(copies):
        segment(tmp_path / str(number), base, *batches)
        size = sum(map(len, batches))
        path = str(tmp_path / str(number))
        files.append(SegmentFile(path, base, FileState.LIVE, size, following, cleaned=cleaned))
    own = replace(files[0], directory=str(tmp_path / "own"))
    found = stretches_of_copies(replace(whole_file(own, 0), copies=tuple(files)), 0, 20)
    assert [one[:3] for one in found] == [
        (0, 2, State.WHOLE),
        (2, 4, State.WHOLE),
        (6, 8, State.WHOLE),
        (10, 12, State.MISSING),
        (15, 20, State.MISSING),
    ]


@pytest.mark.parametrize(("offset", "is_damaged"), [(4, True), (5, True), (6, False), (9, False)])
def test_a_wrong_offset_below_the_start_of_a_log_does_not_damage_its_end(
    tmp_path: Path, offset: int, is_damaged: bool
) -> None:
    """A DeleteRecords request may have removed all records. The last batch has two."""
    low = struct.pack(">q", -1) + BATCHES[2][8:]
    file = made(tmp_path, b"".join([*BATCHES[:2], low]), next_offset=OFFSET_MAX)
    assert is_damaged_after(file, offset) is is_damaged


def test_an_index_entry_does_not_show_which_of_two_overlapping_batches_is_right(
    tmp_path: Path,
) -> None:
    """The entry has the last offset of the second batch, which the wrong offset still has."""
    file = made(tmp_path, BATCHES[0] + with_offset(BATCHES[1], 3) + BATCHES[2] + BATCHES[3])
    for start in range(2, 8):
        read = [(one.start, one.end) for one in scan(file, start, 8) if one.state is State.WHOLE]
        assert read[0][0] == max(start, 4)
        assert read[-1][1] == 8


def test_a_batch_that_goes_on_in_the_next_segment_does_not_lend_it_records(tmp_path: Path) -> None:
    """A cleaner may merge segments, but it does not join their batches."""
    indexed_segment(tmp_path / "a-0", 0, *BATCHES[:2])
    (tmp_path / "a-0" / file_name(0, Kind.LOG)).write_bytes(BATCHES[0] + with_offset(BATCHES[1], 3))
    indexed_segment(tmp_path / "a-0", 4, BATCHES[2][:-1] + b"?", BATCHES[3])
    found = rows(tmp_path, mode="PERMISSIVE")
    assert [row["offset"] for row in found if row["_corrupt"] is None] == [0, 1, 6, 7]
    named = [row["_corrupt"] for row in found if row["_corrupt"]]
    assert [(one["startOffset"], one["endOffset"]) for one in named] == [(2, 4), (4, 6)]
