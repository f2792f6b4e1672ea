"""A sample is small, and has something of everything."""

from pathlib import Path

import pytest

from downconvert.spark.jobs.audit import sample as sample_of
from downconvert.spark.jobs.audit.sample import STRETCH_SIZE, Sample
from records import Codec, ControlRecordType, FileRecords, MemoryRecords
from records.batches.builder import build_marker
from tests.downconvert.storage.logs import batch, segment


def test_a_sample_is_spread_over_a_segment_and_takes_all_kinds(tmp_path: Path) -> None:
    large = batch(0, size=200_000)
    path = segment(tmp_path / "topic-0", 0, *[large] * 60, batch(1, magic=1), *[large] * 60).path()
    with FileRecords.open(path) as records:
        sample = Sample(records.size, 4)
        for header in records.batches():
            sample.add(header)
        size = records.size
    found = sample.stretches
    assert [stretch.key[0] for stretch in found].count(1) == 1
    of_v2 = [stretch for stretch in found if stretch.key[0] == 2]
    assert len(of_v2) in (4, 5)
    assert all(stretch.end - stretch.start <= STRETCH_SIZE for stretch in of_v2)
    assert of_v2[-1].start > size // 2


def test_a_sample_without_a_limit_is_everything() -> None:
    records = MemoryRecords(batch(0) + batch(1, codec=Codec.GZIP) + batch(2))
    sample = Sample(records.size, 0)
    for header in records.batches():
        sample.add(header)
    assert sum(stretch.end - stretch.start for stretch in sample.stretches) == records.size


def test_markers_come_along_and_are_counted() -> None:
    marker = build_marker(ControlRecordType.COMMIT, offset=1, timestamp=1, producer_id=7)
    sample = Sample(1000, 4)
    for header in MemoryRecords(marker + batch(0) + marker + batch(2) + marker).batches():
        sample.add(header)
    (stretch,) = sample.stretches
    assert stretch.start == len(marker)
    assert stretch.marker_bytes == 2 * len(marker)


def stretches(monkeypatch: pytest.MonkeyPatch, count: int, *, size: int) -> list[int]:
    """How many batches each stretch of a segment has, which has two unless it is small. All batches
    have one size. `size`: of a stretch, in bytes."""
    monkeypatch.setattr(sample_of, "STRETCH_SIZE", size)
    one = batch(0)
    sample = Sample(count * len(one), 2)
    for header in MemoryRecords(one * count).batches():
        sample.add(header)
    return [(stretch.end - stretch.start) // len(one) for stretch in sample.stretches]


def test_a_stretch_may_be_full_to_the_byte(monkeypatch: pytest.MonkeyPatch) -> None:
    size = len(batch(0))
    assert stretches(monkeypatch, 8, size=2 * size) == [2, 2]
    assert stretches(monkeypatch, 8, size=2 * size - 1) == [1, 1]


def test_a_segment_as_large_as_its_stretches_is_read_as_a_whole(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A batch that no longer fits in a stretch begins the next one."""
    size = len(batch(0))
    assert stretches(monkeypatch, 3, size=2 * size - size // 2) == [1, 1, 1]
    assert stretches(monkeypatch, 4, size=2 * size - 1) == [1, 1]
