"""Batch boundaries that an index leads to."""

import struct
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from downconvert.spark.logs.boundaries import begins_batch, boundaries_of, index_bytes
from downconvert.spark.logs.segment_files import SegmentFile
from downconvert.spark.logs.trees import find_partitions
from downconvert.storage.names import OFFSET_MAX, Kind, State, file_name
from records import Codec, MemoryRecords
from tests.downconvert.spark.read.test_order import BASE, flip, written
from tests.downconvert.spark.read.test_order import BATCHES as COUNT
from tests.downconvert.spark.reading import packed, rows
from tests.downconvert.storage.logs import batch, indexed_segment

BATCHES = [batch(*range(base, base + 4)) for base in range(0, 24, 4)]
SIZE = len(BATCHES[0])


def made(directory: Path, data: bytes | None = None) -> SegmentFile:
    """Six batches of four records, with an index entry for each but the first."""
    indexed_segment(directory, 0, *BATCHES)
    log = directory / file_name(0, Kind.LOG)
    log.write_bytes(b"".join(BATCHES) if data is None else data)
    return SegmentFile(str(directory), 0, State.LIVE, log.stat().st_size, OFFSET_MAX)


def test_a_boundary_after_an_offset_is_after_its_whole_batch(tmp_path: Path) -> None:
    boundaries = boundaries_of(made(tmp_path))
    for offset in range(24):
        after = boundaries.after_offset(offset)
        assert after is None or after >= SIZE * -(-offset // 4)
        assert boundaries.before_offset(offset) <= SIZE * (offset // 4)
    assert boundaries.after_offset(5) is not None


@pytest.mark.parametrize("what", ["zeros", "cut"])
def test_a_sound_batch_before_damage_is_a_boundary(tmp_path: Path, what: str) -> None:
    data = bytearray(b"".join(BATCHES))
    data[2 * SIZE : 3 * SIZE] = bytes(SIZE)
    if what == "zeros":
        data[4 * SIZE :] = bytes(len(data) - 4 * SIZE)
    else:
        del data[4 * SIZE + 20 :]
    boundaries = boundaries_of(made(tmp_path, bytes(data)))
    assert boundaries.from_position(2 * SIZE + 1) == 3 * SIZE
    assert boundaries.before_offset(16) == 3 * SIZE


def test_a_damaged_batch_before_damage_does_not_count(tmp_path: Path) -> None:
    data = bytearray(b"".join(BATCHES))
    data[2 * SIZE : 3 * SIZE] = bytes(SIZE)
    data[4 * SIZE - 1] ^= 1
    del data[4 * SIZE + 20 :]
    boundaries = boundaries_of(made(tmp_path, bytes(data)))
    assert boundaries.from_position(2 * SIZE + 1) is None
    assert boundaries.before_offset(16) == SIZE  # the nearest one before the damage


def test_no_old_compressed_batch_with_lower_offsets_is_taken_for_one_after_an_offset(
    tmp_path: Path,
) -> None:
    """Its header has its last offset. The third of four index entries is damaged."""
    ends = [0, 4, 5, 7, 9]
    batches = [
        batch(*range(first + 1, last + 1), magic=1, codec=Codec.GZIP)
        for first, last in pairwise([-1, *ends])
    ]
    indexed_segment(tmp_path, 0, *batches)
    index = tmp_path / file_name(0, Kind.OFFSET_INDEX)
    entries = bytearray(index.read_bytes())
    entries[16:20] = (30).to_bytes(4)
    index.write_bytes(entries)
    size = (tmp_path / file_name(0, Kind.LOG)).stat().st_size
    boundaries = boundaries_of(SegmentFile(str(tmp_path), 0, State.LIVE, size, 10))
    after = boundaries.after_offset(9)
    assert after is None or after == size


@pytest.mark.parametrize(("codec", "count"), [(Codec.NONE, 1), (Codec.GZIP, 3)])
def test_an_entry_with_too_low_an_offset_skips_no_old_messages(
    tmp_path: Path, codec: Codec, count: int
) -> None:
    """A reader begins there behind damage in another copy, and at a bound in a store."""
    batches = [
        batch(*range(at, at + count), magic=1, codec=codec) for at in range(0, 4 * count, count)
    ]
    indexed_segment(tmp_path / "a-0", 0, *batches)
    (tmp_path / "a-0" / file_name(0, Kind.OFFSET_INDEX)).write_bytes(
        b"".join(
            slot.to_bytes(4) + sum(map(len, batches[: slot + 2])).to_bytes(4) for slot in (0, 1)
        )
    )
    size = sum(map(len, batches))
    boundaries = boundaries_of(SegmentFile(str(tmp_path / "a-0"), 0, State.LIVE, size, OFFSET_MAX))
    for at in range(4 * count):
        assert boundaries.before_offset(at) <= sum(map(len, batches[: at // count]))
        options = {"startingOffsets": f'{{"a":{{"0":{at}}}}}', "columns": "offset"}
        for path in (tmp_path / "a-0", packed(tmp_path / "a-0")):
            found = [row["offset"] for row in rows(path, **options)]
            assert found == list(range(at, 4 * count))


@pytest.mark.parametrize("listed", range(1, 6))
def test_no_boundary_is_at_or_after_the_end_of_a_log_that_has_grown(
    tmp_path: Path, listed: int
) -> None:
    """The index leads to batches that came after the log was listed."""
    boundaries = boundaries_of(replace(made(tmp_path), size=listed * SIZE))
    for position in range(0, 6 * SIZE, 7):
        number = max(1, -(-position // SIZE))
        expected = number * SIZE if number < listed else None
        assert boundaries.from_position(position) == expected


@pytest.mark.parametrize("is_sound", [True, False])
@pytest.mark.parametrize(
    ("following", "is_proof"),
    [(batch(9), True), (batch(4), False), (batch(8), False), (b"", True), (b"\0" * 61, False)],
)
def test_a_batch_begins_where_another_one_follows_or_its_checksum_is_right(
    following: bytes, is_proof: bool, is_sound: bool
) -> None:
    """Another one with higher offsets, or the end of the log."""
    first = bytearray(batch(7, 8))
    first[-1] ^= not is_sound
    records = MemoryRecords(batch(0) + bytes(first) + following)
    assert begins_batch(records, len(batch(0))) is (is_proof or is_sound)
    assert not begins_batch(records, len(batch(0)) + 1)


@pytest.mark.parametrize("left", [2, 3, 6])
def test_boundaries_of_a_stored_segment_are_those_of_a_mounted_one(
    tmp_path: Path, left: int
) -> None:
    """The index is of six batches, and the log may have been cut since."""
    mounted = boundaries_of(made(tmp_path / "a-0", b"".join(BATCHES[:left])))
    (log,) = find_partitions([str(packed(tmp_path / "a-0"))])
    stored = boundaries_of(log.segments[0])
    for offset in range(4 * left):
        after = stored.after_offset(offset)
        assert after is None or after >= SIZE * -(-offset // 4)
        assert after == mounted.after_offset(offset)
        assert stored.before_offset(offset) <= SIZE * (offset // 4)
    for position in range(0, left * SIZE, 7):
        assert stored.from_position(position) == mounted.from_position(position)


@pytest.mark.parametrize("is_packed", [False, True])
@pytest.mark.parametrize("kind", [Kind.OFFSET_INDEX, Kind.TIME_INDEX])
def test_a_file_that_is_too_large_for_an_index_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: Kind, is_packed: bool
) -> None:
    logs = tmp_path / "logs"
    logs.mkdir()
    made(logs / "a-0")
    data = (logs / "a-0" / file_name(0, kind)).read_bytes()
    (log,) = find_partitions([str(packed(logs) if is_packed else logs)])
    for size_max, expected in ((len(data), data), (len(data) - 1, b"")):
        monkeypatch.setattr("downconvert.spark.logs.boundaries.INDEX_SIZE_MAX", size_max)
        assert index_bytes(log.segments[0], kind) == expected


@pytest.mark.parametrize("appended", [1, 2])
@pytest.mark.parametrize("number", [5, 6, COUNT - 2, COUNT - 1])
def test_a_wrong_offset_where_a_task_or_a_range_begins_is_reported(
    tmp_path: Path, number: int, appended: int
) -> None:
    """In a store or not, with an index that has the last offset of so many batches."""
    found = written(directory := tmp_path / "logs" / "orders-0", "plain")
    size = len(found[0])
    firsts = range(appended, COUNT, appended)
    entries = [struct.pack(">ii", 10 * (at + appended) - 1, size * at) for at in firsts]
    (directory / file_name(BASE, Kind.OFFSET_INDEX)).write_bytes(b"".join(entries))
    first, end = BASE + 10 * number, BASE + 20 * COUNT
    for bit in range(6):
        flip(directory, found, number, bit)
        for path in (tmp_path / "logs", packed(tmp_path / "logs")):
            for start, task in [(BASE, size), (BASE, 3 * size), (first, 2**20), (first + 4, size)]:
                bounds = f'{{"orders":{{"0":{start}}}}}'
                options: Any = {"startingOffsets": bounds, "maxPartitionBytes": task}
                cut = rows(path, mode="PERMISSIVE", **options)
                lost = (row["_corrupt"] for row in cut)
                gaps = [(one["startOffset"], one["endOffset"]) for one in lost if one]
                assert gaps == [(max(first, start), first + 10)], (bit, path, start)
                read = [row["offset"] for row in cut if not row["_corrupt"]]
                assert read == [*range(start, first), *range(first + 10, end)], (bit, path, start)
                counts = rows(path, level="count", mode="DROPMALFORMED", **options)
                assert sum(row["records"] for row in counts) == len(read), (bit, path, start)
