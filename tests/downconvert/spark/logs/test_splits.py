"""Segments are cut where their index knows of a batch, and nobody reads them for that."""

import json
import random
from pathlib import Path
from struct import iter_unpack
from struct import pack as pack_entry

import pytest

from downconvert.spark.logs.segment_files import SegmentFile
from downconvert.spark.logs.splits import OPEN_COST, TASKS_MAX, Split, pack, task_size
from downconvert.spark.options.options import Options
from downconvert.storage.names import Kind, State, file_name
from records import FileRecords
from records.units import MiB
from tests.downconvert.spark.reading import packed, partition, rows, splits
from tests.downconvert.storage.logs import batch, indexed_segment

COUNT = 200
GiB = 1024 * MiB


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A segment of 200 batches of about 400 bytes, with an index entry for every fourth or so."""
    batches = [batch(5 * i, 5 * i + 3, size=150) for i in range(COUNT)]
    indexed_segment(tmp_path / "topic-0", 0, *batches, interval=1500)
    return tmp_path


def test_splits_begin_at_batches_and_cover_the_segment(directory: Path) -> None:
    log = directory / "topic-0" / file_name(0, Kind.LOG)
    starts = {header.position for header in FileRecords.open(log).batches()}
    found = splits(directory, maxPartitionBytes=5000)
    assert len(found) > 10
    assert all(split.start in starts for split in found)
    assert [split.end for split in found[:-1]] == [split.start for split in found[1:]]
    assert (found[0].start, found[-1].end) == (0, log.stat().st_size)
    assert max(split.size for split in found) < 5000 + 4000


def test_planning_reads_a_few_headers_and_not_the_file(directory: Path, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    read = 0
    before = FileRecords.read_into

    def counted(self: FileRecords, target: memoryview, position: int) -> int:
        nonlocal read
        read += len(target)
        return before(self, target, position)

    monkeypatch.setattr(FileRecords, "read_into", counted)
    assert len(splits(directory, maxPartitionBytes=30_000)) == 3
    assert read <= 3 * 2 * 4096
    read = 0
    assert len(splits(directory)) == 1
    assert read == 0


def test_offsets_are_looked_up_in_the_index(directory: Path) -> None:
    found = splits(
        directory,
        startingOffsets='{"topic":{"0":500}}',
        endingOffsets='{"topic":{"0":600}}',
    )
    size = (directory / "topic-0" / file_name(0, Kind.LOG)).stat().st_size
    assert sum(split.size for split in found) < size / 5


@pytest.mark.parametrize("index", [b"", b"\xff" * 800, bytes(800), b"\x00\x00\x00\x05" * 300])
def test_a_file_that_is_not_an_index_is_not_used(directory: Path, index: bytes) -> None:
    expected = rows(directory)
    (directory / "topic-0" / file_name(0, Kind.OFFSET_INDEX)).write_bytes(index)
    for size in (700, 5000, 10**9):
        assert rows(directory, maxPartitionBytes=size) == expected
    bounds = {"startingOffsets": '{"topic":{"0":500}}', "endingOffsets": '{"topic":{"0":600}}'}
    assert {row["offset"] for row in rows(directory, **bounds)} == {
        row["offset"] for row in expected if 500 <= row["offset"] < 600
    }


@pytest.mark.parametrize("is_stored", [False, True])
@pytest.mark.parametrize("moved", [-400, -90, 90, 400])
def test_an_index_with_other_offsets_loses_no_records(
    directory: Path, moved: int, is_stored: bool
) -> None:
    expected = [row["offset"] for row in rows(directory)]
    path = directory / "topic-0" / file_name(0, Kind.OFFSET_INDEX)
    entries = [(at + moved, position) for at, position in iter_unpack(">ii", path.read_bytes())]
    path.write_bytes(b"".join(pack_entry(">ii", *one) for one in entries if one[0] > 0))
    source = packed(directory) if is_stored else directory
    for size in (5000, 10**9):
        for start, end in ((0, 600), (500, 600), (500, 1000)):
            bounds = {"startingOffsets": start, "endingOffsets": end}
            given = {name: json.dumps({"topic": {"0": at}}) for name, at in bounds.items()}
            found = [row["offset"] for row in rows(source, maxPartitionBytes=size, **given)]
            assert found == [at for at in expected if start <= at < end]


def test_a_segment_without_an_index_is_read_by_one_task(directory: Path) -> None:
    """Every other task would read all headers before its own stretch, to find where that begins."""
    (directory / "topic-0" / file_name(0, Kind.OFFSET_INDEX)).unlink()
    (found,) = splits(directory, maxPartitionBytes=5000)
    assert (found.start, found.end) == (0, found.segment.size)


@pytest.mark.parametrize(
    ("sizes", "size_max", "tasks_min", "expected"),
    [
        ([10 * MiB] * 4, 128 * MiB, None, 128 * MiB),
        ([100 * MiB] * 4, 128 * MiB, 40, 10 * MiB),
        ([MiB], 128 * MiB, 1000, MiB),  # as far as tasks are worth it
        ([MiB], 128 * MiB, 1, MiB),
    ],
)
def test_the_size_of_tasks(
    sizes: list[int], size_max: int, tasks_min: int | None, expected: int
) -> None:
    assert task_size(sizes, size_max, tasks_min) == expected


@pytest.mark.parametrize("size", [GiB, 700 * MiB, 40 * MiB])
def test_a_hundred_terabytes_are_no_more_tasks_than_a_driver_can_plan(size: int) -> None:
    file = SegmentFile("", 0, State.LIVE, size, 10)
    count = 100 * 10**12 // size
    target = task_size([size] * count, 128 * MiB)
    assert target > 128 * MiB
    tasks = pack([Split("t", 0, file, 0, size, 0, 10)] * count, target)
    assert len(tasks) <= TASKS_MAX


def test_small_segments_share_a_task(tmp_path: Path) -> None:
    for base in range(40):
        partition(tmp_path, batch(base), base_offset=base)
    assert len(splits(tmp_path)) == 40
    groups = pack(splits(tmp_path), Options(paths=()).max_partition_bytes)
    assert [len(group) for group in groups] == [31, 9]


def test_a_task_reads_as_many_splits_as_fit() -> None:
    for seed in range(200):
        chance = random.Random(seed)
        size_max = chance.randrange(1, 6) * OPEN_COST
        sizes = [
            chance.choice([0, 1, OPEN_COST, 2 * OPEN_COST]) for _ in range(chance.randrange(9))
        ]
        file = SegmentFile("", 0, State.LIVE, 2 * OPEN_COST, 10)
        expected: list[list[int]] = []
        left = 0
        for size in sizes:
            if not expected or size + OPEN_COST > left:
                expected.append([])
                left = size_max
            expected[-1].append(size)
            left -= size + OPEN_COST
        groups = pack([Split("t", 0, file, 0, size, 0, 10) for size in sizes], size_max)
        assert [[split.size for split in group] for group in groups] == expected, seed


def test_a_split_that_is_larger_than_a_task_may_be_is_one_all_the_same() -> None:
    file = SegmentFile("", 0, State.LIVE, 100, 10)
    large = Split("t", 0, file, 0, 10**9, 0, 10)
    assert pack([large, large], 1000) == [(large,), (large,)]
