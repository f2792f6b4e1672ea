"""The dirty part of a log, and the time when it is cleaned: Kafka's rules."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from downconvert.storage import Log, LogConfig
from downconvert.storage.cleaning.cleanable import cleanable
from tests.downconvert.storage.logs import UNSYNCED, batch, indexed_segment, segment

CONFIG = LogConfig(segment_bytes=len(batch(0)), cleanup_policy=frozenset({"compact"}))


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    """Ten segments of one batch each, whose timestamps are ten times their offsets."""
    (tmp_path / "topic-0").mkdir()
    with Log.open(tmp_path / "topic-0", writable=True, config=CONFIG, files=UNSYNCED) as log:
        for offset in range(10):
            log.writer.append(batch(offset))
        yield log


def test_all_but_the_active_segment_is_dirty_at_first(log: Log) -> None:
    part = cleanable(log, CONFIG, now=1000)
    assert (part.first_dirty, part.end, part.clean_bytes) == (0, 9, 0)
    assert part.dirty_ratio == 1
    assert part.is_due(CONFIG)


def test_the_share_of_dirty_bytes_decides(log: Log) -> None:
    log.writer.note_cleaner_point(6)
    part = cleanable(log, CONFIG, now=1000)
    assert (part.first_dirty, part.end) == (6, 9)
    assert part.dirty_ratio == 1 / 3
    assert not part.is_due(CONFIG)
    assert part.is_due(replace(CONFIG, min_cleanable_dirty_ratio=0.3))


def test_a_young_record_keeps_its_segment_and_all_later_ones(log: Log) -> None:
    config = replace(CONFIG, min_compaction_lag_ms=50)
    assert [cleanable(log, config, now).end for now in (49, 50, 89, 90, 130, 1000)] == [
        0, 1, 4, 5, 9, 9,
    ]  # fmt: skip
    assert not cleanable(log, config, 49).is_due(config)


def test_records_that_are_dirty_for_too_long_are_cleaned_however_few(log: Log) -> None:
    log.writer.note_cleaner_point(8)
    config = replace(CONFIG, max_compaction_lag_ms=500)
    assert not cleanable(log, config, now=580).is_due(config)
    assert cleanable(log, config, now=581).is_due(config)


def test_nothing_at_or_above_a_bound_is_dirty(log: Log) -> None:
    assert [cleanable(log, CONFIG, 1000, up_to=n).end for n in (0, 3, 20)] == [0, 3, 9]


def test_a_cleaner_point_outside_of_the_log_is_ignored(log: Log) -> None:
    log.writer.note_cleaner_point(11)
    assert cleanable(log, CONFIG, now=1000).first_dirty == 0
    log.writer.note_cleaner_point(2)
    log.writer.delete_records(4)
    assert cleanable(log, CONFIG, now=1000).first_dirty == 4


def test_the_dirty_part_begins_at_the_start_of_the_log_within_a_segment(tmp_path: Path) -> None:
    (tmp_path / "topic-0").mkdir()
    with Log.open(tmp_path / "topic-0", writable=True, files=UNSYNCED) as log:
        for offset in range(0, 9, 3):
            log.writer.append(batch(offset) + batch(offset + 1, offset + 2))
            log.writer.roll()
        log.writer.delete_records(5)
        assert (log.start_offset, log.segments[0].base_offset) == (5, 3)
        for point, first_dirty in ((0, 5), (4, 5), (5, 5), (6, 6)):
            log.writer.note_cleaner_point(point)
            assert cleanable(log, CONFIG, now=1000).first_dirty == first_dirty


def test_truncation_lowers_the_cleaner_point(log: Log) -> None:
    log.writer.note_cleaner_point(8)
    log.writer.truncate_to(5)
    assert log.writer.cleaner_point == 5


def test_nothing_at_or_above_the_last_stable_offset_is_dirty(log: Log) -> None:
    options = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0, "transactional": True}
    log.writer.append(batch(10, **options))
    for offset in range(11, 15):
        log.writer.append(batch(offset))
    assert log.last_stable_offset == 10 < log.segments[-1].base_offset
    for up_to in (None, 12, 15, 10**6):
        assert cleanable(log, CONFIG, 10**6, up_to=up_to).end == 10
    assert cleanable(log, CONFIG, 10**6, up_to=4).end == 4


def test_a_cleaner_point_beyond_a_bound_begins_nothing_after_the_end(log: Log) -> None:
    log.writer.note_cleaner_point(8)
    part = cleanable(log, CONFIG, now=1000, up_to=4)
    assert (part.first_dirty, part.end, part.dirty_bytes) == (4, 4, 0)
    assert not part.is_due(CONFIG)


def test_records_without_a_time_are_never_dirty_for_too_long(tmp_path: Path) -> None:
    config = replace(CONFIG, max_compaction_lag_ms=500, min_cleanable_dirty_ratio=1.0)
    (tmp_path / "topic-0").mkdir()
    with Log.open(tmp_path / "topic-0", writable=True, config=config, files=UNSYNCED) as log:
        for offset in range(3):
            log.writer.append(batch(offset, timestamp=-1))
        part = cleanable(log, config, now=10**12)
        assert (part.end, part.is_late, part.is_due(config)) == (2, False, False)


def test_segments_without_records_do_not_hide_how_long_others_are_dirty(tmp_path: Path) -> None:
    """A cleaner leaves some without any."""
    path = tmp_path / "topic-0"
    segment(path, 0)
    indexed_segment(path, 10, batch(10))
    indexed_segment(path, 20, batch(20))
    config = replace(CONFIG, max_compaction_lag_ms=500)
    with Log.open(path, writable=True, config=CONFIG, files=UNSYNCED) as log:
        assert [cleanable(log, config, now).is_late for now in (600, 601)] == [False, True]


def test_a_record_of_the_year_1970_is_dirty_for_too_long(log: Log) -> None:
    """The timestamp 0 is a time, and -1 is none."""
    config = replace(CONFIG, max_compaction_lag_ms=500)
    assert [cleanable(log, config, now).is_late for now in (500, 501)] == [False, True]
