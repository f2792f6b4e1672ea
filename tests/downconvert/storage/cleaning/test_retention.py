"""Old segments are removed by Kafka's rules."""

import os
from pathlib import Path
from typing import Any

import pytest

from downconvert.storage import Log, LogConfig
from downconvert.storage.cleaning.retention import removable, segments_to_remove, youngest
from downconvert.storage.names import Kind
from records.formats import V0
from tests.downconvert.storage.logs import UNSYNCED, batch, offsets


def count(segments: list[tuple[int, int]], config: LogConfig, now: int) -> int:
    sizes, timestamps = [s[0] for s in segments], [s[1] for s in segments]
    return segments_to_remove(sizes, timestamps, config, now).count


@pytest.mark.parametrize(
    ("segments", "expected"),
    [
        ([], 0),
        ([(10, 900)], 0),
        ([(10, 899)], 1),  # the active one, too
        ([(10, 100), (10, 899), (10, 900)], 2),
        ([(10, 900), (10, 100), (10, 100)], 0),  # one that is young keeps those after it
        ([(10, 100), (0, 100)], 1),  # but not where it is empty
    ],
)
def test_segments_are_removed_by_time(segments: list[tuple[int, int]], expected: int) -> None:
    assert count(segments, LogConfig(retention_ms=100), now=1000) == expected
    compacted = LogConfig(retention_ms=100, cleanup_policy=frozenset({"compact"}))
    assert count(segments, compacted, now=1000) == 0


@pytest.mark.parametrize(
    ("limit", "expected"), [(0, 2), (9, 2), (10, 2), (11, 1), (20, 1), (30, 0)]
)
def test_segments_are_removed_by_size(limit: int, expected: int) -> None:
    config = LogConfig(retention_ms=-1, retention_bytes=limit)
    assert count([(10, 0), (10, 0), (10, 0)], config, now=10**12) == expected


def test_without_limits_nothing_is_removed() -> None:
    config = LogConfig(retention_ms=-1, retention_bytes=-1)
    assert count([(10, 0), (10, 0)], config, now=10**15) == 0


def opened(tmp_path: Path, **config: Any) -> Log:
    (tmp_path / "topic-0").mkdir()
    return Log.open(tmp_path / "topic-0", writable=True, config=LogConfig(**config), files=UNSYNCED)


def test_a_segment_is_as_old_as_its_youngest_record(tmp_path: Path) -> None:
    with opened(tmp_path) as log:
        log.writer.append(batch(0, timestamp=5) + batch(1, timestamp=3))
        log.writer.roll()
        made = log.segments[0]
        assert youngest(log, made) == 5
        made.release()
        made.path(Kind.TIME_INDEX).unlink()
        assert youngest(log, made) == 5


def test_a_young_record_keeps_the_active_segment_even_before_it_is_indexed(
    tmp_path: Path,
) -> None:
    with opened(tmp_path, index_interval_bytes=100) as log:
        for offset in range(5):
            log.writer.append(batch(offset, timestamp=10 + offset))
        log.writer.append(batch(5, timestamp=1000))
        assert youngest(log, log.segments[0]) == 1000
        config = LogConfig(retention_ms=100)
        assert removable(log, config, now=1100).count == 0
        assert removable(log, config, now=1101).count == 1


def test_a_segment_without_timestamps_is_as_old_as_its_file(tmp_path: Path) -> None:
    with opened(tmp_path) as log:
        log.writer.append(batch(0, magic=V0))
        log.writer.roll()
        os.utime(log.segments[0].path(), (1000, 1234.5))
        assert youngest(log, log.segments[0]) == 1_234_500


def test_segments_not_below_the_high_watermark_stay(tmp_path: Path) -> None:
    with opened(tmp_path, segment_bytes=len(batch(0))) as log:
        for offset in range(5):
            log.writer.append(batch(offset))
        config = LogConfig(retention_ms=1)
        assert removable(log, config, now=10**6).count == 5
        assert removable(log, config, now=10**6, up_to=3).count == 3
        assert removable(log, config, now=10**6, up_to=0) == removable(log, config, now=0)


@pytest.mark.parametrize("policy", ["delete", "compact"])
def test_segments_of_deleted_records_are_removed_whatever_the_limits_are(
    tmp_path: Path, policy: str
) -> None:
    """Another broker has deleted the records, and was stopped before it removed the files."""
    with opened(tmp_path, segment_bytes=len(batch(0))) as log:
        for offset in range(5):
            log.writer.append(batch(offset))
    kept = LogConfig(retention_ms=-1, retention_bytes=-1, cleanup_policy=frozenset({policy}))
    for start, expected in ((0, 0), (1, 1), (3, 3), (5, 4)):  # the active segment stays
        starts = tmp_path / "log-start-offset-checkpoint"
        starts.write_text(f"0\n1\ntopic 0 {start}\n")
        with Log.open(tmp_path / "topic-0", writable=True, config=kept, files=UNSYNCED) as log:
            found = removable(log, kept, now=10**15)
            assert found.count == expected
            assert found.reason == (f"the log starts at offset {start}" if start else "")
            assert removable(log, kept, now=10**15, up_to=2).count == min(expected, 2)


def test_old_segments_are_removed(tmp_path: Path) -> None:
    config = LogConfig(segment_bytes=2 * len(batch(0)), retention_ms=25)
    path = tmp_path / "topic-0"
    path.mkdir()
    with Log.open(path, writable=True, config=config, files=UNSYNCED) as log:
        for offset in range(7):
            log.writer.append(batch(offset))
        assert removable(log, config, now=60).count == 2
        log.writer.remove_oldest(2)
        assert (log.start_offset, offsets(log.records())) == (4, [4, 5, 6])
        assert removable(log, config, now=60).count == 0
        assert removable(log, config, now=1000).count == 2
        log.writer.remove_oldest(2)
        assert (log.start_offset, log.end_offset) == (7, 7)
