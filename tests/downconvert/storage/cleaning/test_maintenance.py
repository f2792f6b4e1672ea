"""The maintenance of a log is done in small steps, while the log is read and written."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from downconvert.storage import DiskFullError, Log, LogConfig, LogDir, TopicPartition
from downconvert.storage.cleaning.maintenance import REMOVED_MAX, Done, Kind, Maintenance
from downconvert.storage.cleaning.offset_map import SLOT_SIZE
from downconvert.storage.disk.faulty_disk import FaultyDisk
from downconvert.storage.disk.files import Files
from records import CorruptRecordsError
from records.batches.builder import build
from records.formats import V2, TimestampType
from records.record import Record
from tests.downconvert.storage.logs import UNSYNCED, batch, offsets

COMPACT = LogConfig(segment_bytes=2000, segment_ms=10**14, cleanup_policy=frozenset({"compact"}))
DELETE = LogConfig(segment_bytes=2000, segment_ms=10**14, retention_ms=1000)
PARTITION = TopicPartition("table", 0)


def opened(path: Path, config: LogConfig, files: Files = UNSYNCED) -> LogDir:
    return LogDir.open(path, writable=True, config=config, files=files)


def fill(log: Log, random: Random, count: int = 150, keys: int = 20) -> None:
    for _ in range(count):
        offset = log.end_offset
        key = b"key %d" % random.randrange(keys)
        records = [Record(offset, offset, TimestampType.CREATE, key, random.randbytes(20))]
        log.writer.append(build(records, magic=V2), now=offset)


def table(log: Log) -> dict[bytes | None, int]:
    return {r.key: r.offset for r in log.records()}


def run(
    maintenance: Maintenance,
    config: LogConfig,
    now: int = 1000,
    between: Callable[[int], None] = lambda _: None,
) -> list[Done]:
    """Takes steps of the smallest size until nothing is due."""
    done = []
    for number in range(10_000):
        step = maintenance.step(config, now, 1)
        if step.done is not None:
            done.append(step.done)
        if not step.has_more:
            return done
        between(number)
    raise AssertionError("it does not come to an end")


def test_a_log_is_readable_and_writable_between_all_steps_of_its_compaction(
    tmp_path: Path,
) -> None:
    with opened(tmp_path, COMPACT) as log_dir:
        log, random = log_dir.logs.create(PARTITION), Random(1)
        fill(log, random)

        def check(number: int) -> None:
            if number % 7:
                return
            expected = table(log)
            reader = Log.open(log.path)
            assert table(reader) == expected
            reader.close()
            if number % 35 == 0:
                fill(log, random, 1)

        done = run(Maintenance(log), COMPACT, between=check)
        assert [one.kind for one in done] == [Kind.CLEANED]
        assert "table-0: cleaned up to offset" in str(done[0])
        assert len(offsets(log.records())) < 60
        assert log.writer.cleaner_point == done[0].end_offset
        assert not run(Maintenance(log), COMPACT)


@pytest.mark.parametrize("keys_max", [1, 7, 15])
def test_a_small_map_of_offsets_means_more_passes_and_the_same_result(
    tmp_path: Path, keys_max: int
) -> None:
    left = []
    config = replace(COMPACT, min_cleanable_dirty_ratio=0.0)
    for name, size in (("small", (10 * keys_max // 9 + 1) * SLOT_SIZE), ("large", 10**6)):
        (tmp_path / name).mkdir()
        with opened(tmp_path / name, config) as log_dir:
            log = log_dir.logs.create(PARTITION)
            fill(log, Random(1))
            done = run(Maintenance(log, buffer_size=size), config)
            assert (len(done) > 1) is (name == "small")
            left.append([(r.offset, r.key, r.value) for r in log.records()])
    assert left[0] == left[1]


def test_a_segment_that_is_old_by_the_clock_is_rolled_without_an_append(tmp_path: Path) -> None:
    config = LogConfig(segment_ms=100)
    with opened(tmp_path, config) as log_dir:
        log = log_dir.logs.create(PARTITION)
        maintenance = Maintenance(log)
        assert not run(maintenance, config, now=10**6)  # it is empty
        log.writer.append(batch(0), now=1000)
        assert not run(maintenance, config, now=1100)
        assert [str(done) for done in run(maintenance, config, now=1101)] == [
            "table-0: a new segment begins at offset 1 (segment.ms=100)"
        ]
        assert [segment.base_offset for segment in log.segments] == [0, 1]


def test_old_segments_are_removed_by_time_and_by_size_and_logged_with_the_reason(
    tmp_path: Path,
) -> None:
    with opened(tmp_path, DELETE) as log_dir:
        log = log_dir.logs.create(PARTITION)
        fill(log, Random(1))
        maintenance, first = Maintenance(log), log.segments[1].base_offset
        (done,) = run(maintenance, DELETE, now=1000 + first)
        assert (done.kind, done.segments, log.start_offset) == (Kind.REMOVED, 1, first)
        assert str(done).endswith(f"removed, up to offset {first} (retention.ms=1000)")
        by_size = replace(DELETE, retention_ms=-1, retention_bytes=0)
        (done,) = run(maintenance, by_size)
        assert "(retention.bytes=0)" in str(done)
        assert len(log.segments) == 1


def test_a_compacted_topic_is_not_deleted_from_unless_its_policy_has_both(tmp_path: Path) -> None:
    both = replace(COMPACT, retention_ms=0, cleanup_policy=frozenset({"compact", "delete"}))
    with opened(tmp_path, COMPACT) as log_dir:
        log = log_dir.logs.create(PARTITION)
        fill(log, Random(1))
        only = replace(both, cleanup_policy=frozenset({"compact"}))
        assert {done.kind for done in run(Maintenance(log), only, now=10**9)} == {Kind.CLEANED}
        assert Kind.REMOVED in {done.kind for done in run(Maintenance(log), both, now=10**13)}


def test_nothing_at_or_above_the_bound_is_changed(tmp_path: Path) -> None:
    with opened(tmp_path, DELETE) as log_dir:
        log = log_dir.logs.create(PARTITION)
        fill(log, Random(1))
        assert not run(Maintenance(log, bound=lambda: 0), DELETE, now=10**9)
        assert not run(Maintenance(log, bound=lambda: 0), COMPACT, now=10**9)


def test_one_step_removes_a_limited_number_of_segments(tmp_path: Path) -> None:
    with opened(tmp_path, DELETE) as log_dir:
        log = log_dir.logs.create(PARTITION)
        for _ in range(REMOVED_MAX + 3):
            fill(log, Random(1), 1)
            log.writer.roll()
        sizes = [segment.size for segment in log.segments][:-1]
        done = run(Maintenance(log), DELETE, now=10**6)
        assert [one.segments for one in done] == [REMOVED_MAX, 3]
        assert [one.size for one in done] == [sum(sizes[:REMOVED_MAX]), sum(sizes[REMOVED_MAX:])]


@pytest.mark.parametrize("change", ["truncate", "delete", "close"])
@pytest.mark.parametrize("after", [1, 100, 250])
def test_a_pass_ends_when_its_segments_are_removed(tmp_path: Path, change: str, after: int) -> None:
    log_dir = opened(tmp_path, COMPACT)
    log = log_dir.logs.create(PARTITION)
    fill(log, Random(1))
    maintenance = Maintenance(log)
    for _ in range(after):
        maintenance.step(COMPACT, 1000, 1)
    match change:
        case "truncate":
            log.writer.truncate_to(70)
            fill(log, Random(2))
        case "delete":
            log.writer.delete_records(100)
        case "close":
            log_dir.logs.delete(PARTITION)
            log_dir.logs.create(PARTITION)
            fill(log_dir.logs[PARTITION], Random(3))
    log = log_dir.logs[PARTITION]
    expected = table(log)
    if change == "close":
        assert maintenance.step(COMPACT, 1000, 10**9).done is None
    else:
        run(maintenance, COMPACT)
    assert table(log) == expected
    maintenance.close()
    assert not list(log.path.glob("*.cleaned"))
    log_dir.close()
    with opened(tmp_path, COMPACT) as again:
        assert table(again.logs[PARTITION]) == expected


def test_a_full_disk_ends_a_pass_without_leftovers_and_the_next_one_starts_over(
    tmp_path: Path,
) -> None:
    with opened(tmp_path, COMPACT) as log_dir:
        fill(log_dir.logs.create(PARTITION), Random(1))
    disk = FaultyDisk(tmp_path)
    with opened(tmp_path, COMPACT, disk) as log_dir:
        log = log_dir.logs[PARTITION]
        expected, maintenance = table(log), Maintenance(log)
        disk.fill_in(20)
        with pytest.raises(DiskFullError):
            run(maintenance, COMPACT)
        assert not list(log.path.glob("*.cleaned"))
        assert table(log) == expected
        disk.fill(is_full=False)
        assert run(maintenance, COMPACT)
        assert table(log) == expected


def test_damage_is_an_error_and_leaves_the_log_unchanged(tmp_path: Path) -> None:
    with opened(tmp_path, COMPACT) as log_dir:
        log = log_dir.logs.create(PARTITION)
        fill(log, Random(1))
        with log.segments[2].path().open("r+b") as file:
            file.seek(16)
            file.write(b"\x09")
        before = log.segments[2].path().read_bytes()
        maintenance = Maintenance(log)
        with pytest.raises(CorruptRecordsError):
            run(maintenance, COMPACT)
        assert not maintenance.is_cleaning
        assert log.segments[2].path().read_bytes() == before


def test_settings_are_read_by_kafkas_names() -> None:
    config = LogConfig.of(
        {
            "cleanup.policy": "compact, delete",
            "retention.ms": "-1",
            "segment.index.bytes": "4",
            "min.cleanable.dirty.ratio": ".2",
            "max.compaction.lag.ms": "5",
            "min.insync.replicas": "2",
        }
    )
    assert (config.is_compacted, config.is_deleted, config.retention_ms) == (True, True, -1)
    assert (config.segment_index_bytes, config.min_cleanable_dirty_ratio) == (12, 0.2)
    assert (config.roll_ms, replace(config, cleanup_policy=frozenset()).roll_ms) == (5, 604_800_000)


class HeldLock:
    """A lock that knows whether it is held."""

    is_held = False

    def __enter__(self) -> None:
        self.is_held = True

    def __exit__(self, *_: object) -> None:
        self.is_held = False


@pytest.mark.parametrize("config", [COMPACT, DELETE, replace(COMPACT, segment_ms=1)])
def test_due_work_is_decided_and_done_under_one_lock(tmp_path: Path, config: LogConfig) -> None:
    """Another thread may move the high watermark back, or cut the log, before it is taken."""
    lock, asked = HeldLock(), list[bool]()

    def bound() -> int | None:
        asked.append(lock.is_held)
        return None

    with opened(tmp_path, config) as log_dir:
        log = log_dir.logs.create(PARTITION)
        fill(log, Random(1))
        maintenance = Maintenance(log, buffer_size=24_000, lock=lock, bound=bound)
        assert run(maintenance, config, now=10_000)
    assert asked
    assert all(asked)


def test_an_interrupted_pass_is_abandoned_and_not_reported_as_done(tmp_path: Path) -> None:
    (tmp_path / str(PARTITION)).mkdir()
    with opened(tmp_path, COMPACT) as log_dir:
        log = log_dir.logs[PARTITION]
        fill(log, Random(1))
        maintenance = Maintenance(log)
        maintenance.step(COMPACT, 1000, 1)
        maintenance.step(COMPACT, 1000, 1)
        assert maintenance.is_cleaning
        log.writer.truncate_to(20)
        interrupted = maintenance.step(COMPACT, 1000, 10**6)
        assert (interrupted.has_more, interrupted.done) == (True, None)
        assert not maintenance.is_cleaning
        assert offsets(log.records())[-1] == 19
