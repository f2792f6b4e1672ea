"""Old segments go by Kafka's rules."""

import os
from pathlib import Path

import pytest

from downconvert.storage import Log, LogConfig
from downconvert.storage.names import Kind
from downconvert.storage.retention import SegmentAge, age_of, apply_retention, segments_to_remove
from records.formats import V0

from .logs import UNSYNCED, batch, indexed_segment, offsets, segment


def ages(*pairs: tuple[int, int]) -> list[SegmentAge]:
    return [SegmentAge(size, timestamp) for size, timestamp in pairs]


@pytest.mark.parametrize(
    ("segments", "count"),
    [
        ([], 0),
        ([(10, 900)], 0),
        ([(10, 899)], 1),  # the active one, too
        ([(10, 100), (10, 899), (10, 900)], 2),
        ([(10, 900), (10, 100), (10, 100)], 0),  # one that is young keeps those behind it
        ([(10, 100), (0, 100)], 1),  # but not where it is empty
    ],
)
def test_by_time(segments: list[tuple[int, int]], count: int) -> None:
    config = LogConfig(retention_ms=100)
    assert segments_to_remove(ages(*segments), config, now=1000) == count


@pytest.mark.parametrize(("limit", "count"), [(0, 2), (9, 2), (10, 2), (11, 1), (20, 1), (30, 0)])
def test_by_size(limit: int, count: int) -> None:
    config = LogConfig(retention_ms=-1, retention_bytes=limit)
    assert segments_to_remove(ages((10, 0), (10, 0), (10, 0)), config, now=10**12) == count


def test_without_limits_nothing_goes() -> None:
    config = LogConfig(retention_ms=-1, retention_bytes=-1)
    assert segments_to_remove(ages((10, 0), (10, 0)), config, now=10**15) == 0


def test_a_segment_is_as_old_as_its_youngest_record(tmp_path: Path) -> None:
    made = indexed_segment(tmp_path, 0, batch(0, timestamp=5), batch(1, timestamp=3))
    assert age_of(made, made.size) == SegmentAge(made.size, 5)
    made.release()
    made.path(Kind.TIME_INDEX).unlink()
    assert age_of(made, made.size).timestamp == 5


def test_a_segment_without_timestamps_is_as_old_as_its_file(tmp_path: Path) -> None:
    made = segment(tmp_path, 0, batch(0, magic=V0))
    os.utime(made.path(), (1000, 1234.5))
    assert age_of(made, made.size).timestamp == 1_234_500


def test_what_is_old_is_removed(tmp_path: Path) -> None:
    config = LogConfig(segment_bytes=2 * len(batch(0)), retention_ms=25)
    path = tmp_path / "topic-0"
    path.mkdir()
    with Log.open(path, writable=True, config=config, files=UNSYNCED) as log:
        for offset in range(7):
            log.writer.append(batch(offset))
        assert apply_retention(log, config, now=60) == 2
        assert (log.start_offset, offsets(log.records())) == (4, [4, 5, 6])
        assert apply_retention(log, config, now=60) == 0
        assert apply_retention(log, config, now=1000) == 2
        assert (log.start_offset, log.end_offset) == (7, 7)
