"""A sample is small, and has something of everything."""

from pathlib import Path

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
