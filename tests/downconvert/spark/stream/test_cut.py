"""Where a limit in bytes ends a micro-batch within a segment."""

import gzip
import random
from dataclasses import replace
from pathlib import Path

import pytest

from downconvert.spark.logs.segment_files import SegmentFile
from downconvert.spark.logs.trees import find_partitions
from downconvert.spark.stream.followed_logs import cut
from downconvert.storage.names import Kind, file_name
from tests.downconvert.spark.reading import packed, partition
from tests.downconvert.storage.logs import batch, indexed_segment

from .test_follow import Limit, stream


def _stored(logs: Path) -> SegmentFile:
    (log,) = find_partitions([str(packed(logs))])
    return log.segments[0]


def test_a_cut_is_where_the_index_says(tmp_path: Path) -> None:
    batches = [batch(2 * i, 2 * i + 1, size=100) for i in range(20)]
    indexed_segment(tmp_path / "logs-0", 0, *batches)
    file = _stored(tmp_path / "logs-0")
    size = len(batches[0])
    for start in range(0, 40, 3):
        for limit in (1, size, 3 * size, 5 * size + 7):
            offset, taken = cut(file, start, limit)
            assert offset > start
            wanted = size * (min(offset, 40) // 2 - start // 2)
            assert 0 <= taken - wanted <= 2 * size  # an index says more or less where it is
            assert taken <= limit or min(offset, 40) <= start + 4
    assert cut(file, 0, 10**6) == (file.next_offset, file.size)


def test_a_cut_is_not_after_the_next_segment_begins(tmp_path: Path) -> None:
    """A cleaner has merged it into this one, and another copy still has it."""
    indexed_segment(tmp_path / "logs-0", 0, *(batch(at, at + 1, size=100) for at in (0, 2, 4, 6)))
    file = replace(_stored(tmp_path / "logs-0"), next_offset=5)
    assert [cut(file, at, 1)[0] for at in (0, 2, 4)] == [2, 4, 5]


def test_a_segment_whose_index_leads_to_damage_only_is_not_cut(tmp_path: Path) -> None:
    """Another copy may have its batches. The task that reads them finds out."""
    batches = [batch(i, size=100) for i in range(3)]
    indexed_segment(tmp_path / "logs-0", 0, *batches)
    log = tmp_path / "logs-0" / file_name(0, Kind.LOG)
    log.write_bytes(bytes(log.stat().st_size))  # entries of no size
    file = _stored(tmp_path / "logs-0")
    assert cut(file, 0, len(batches[0])) == (file.next_offset, file.size)


def test_a_gzipped_segment_is_cut_before_the_first_batch_that_is_too_much(tmp_path: Path) -> None:
    batches = [batch(2 * i, 2 * i + 1, size=100) for i in range(4)]
    log = tmp_path / "logs-0" / f"{file_name(0, Kind.LOG)}.gz"
    log.parent.mkdir()
    log.write_bytes(gzip.compress(b"".join(batches)))
    file = _stored(tmp_path / "logs-0")
    size = len(batches[0])
    assert [cut(file, at, 1) for at in (0, 1, 2, 5)] == [(2, size), (2, size), (4, size), (6, size)]
    assert cut(file, 1, 2 * size) == (4, 2 * size)
    assert cut(file, 1, 2 * size - 1) == (2, size)
    assert cut(file, 6, 1) == (file.next_offset, size)


@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize("spare", [-1, 0, 1])
def test_batches_that_fit_exactly_are_read(tmp_path: Path, count: int, spare: int) -> None:
    """In a mounted log. An index of a stored one says only about where its batches end."""
    data = [batch(offset, size=100) for offset in range(6)]
    partition(tmp_path, b"".join(data[:2]), "a-0")
    partition(tmp_path, b"".join(data[2:]), "a-0", 2)
    limit = Limit(max_bytes=count * len(data[0]) + spare)
    source = stream(tmp_path)
    at = source.initialOffset()
    for read in (1, 2):
        at = source.latestOffset(at, limit)
        assert at == {"a": {"0": read * max(1, count - (spare < 0))}}


@pytest.mark.parametrize("is_packed", [False, True])
def test_the_first_batch_comes_alone_if_it_is_larger_than_the_limit(
    tmp_path: Path, is_packed: bool
) -> None:
    for base in (0, 2, 4):
        partition(tmp_path / "logs", batch(base, base + 1, size=100), "a-0", base)
    source = stream(packed(tmp_path / "logs") if is_packed else tmp_path / "logs")
    place, reached = source.initialOffset(), []
    for _ in range(3):
        place = source.latestOffset(place, Limit(max_bytes=1))  # type: ignore[arg-type]
        reached.append(place["a"]["0"])
    assert reached == [2, 4, 6]


@pytest.mark.parametrize("is_packed", [False, True])
def test_no_more_than_the_limit_is_read_from_several_segments(
    tmp_path: Path, is_packed: bool
) -> None:
    """Unless the first batch is larger."""
    chance = random.Random(8)
    sizes: list[int] = []
    (tmp_path / "logs").mkdir()
    for base in (0, 3, 6, 9):
        batches = [batch(at, size=chance.choice((10, 100, 900))) for at in range(base, base + 3)]
        sizes += map(len, batches)
        indexed_segment(tmp_path / "logs" / "a-0", base, *batches)
    source = stream(packed(tmp_path / "logs") if is_packed else tmp_path / "logs")
    for limit in (1, 150, 300, 700, 1200, 2500, 9000):
        for start in range(len(sizes)):
            place = {"a": {"0": start}}
            found = source.latestOffset(place, Limit(max_bytes=limit))  # type: ignore[arg-type]
            end = found["a"]["0"]
            assert end == start + 1 or sum(sizes[start:end]) <= limit
            assert end == len(sizes) or end % 3 == 0 or sum(sizes[start : end + 1]) > limit
