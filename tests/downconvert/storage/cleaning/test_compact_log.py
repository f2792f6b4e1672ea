"""Compaction of an open log, with readers and crashes in between."""

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from itertools import count
from pathlib import Path
from random import Random

import pytest

from downconvert.storage import DiskFullError, Log, LogConfig, LogDir, TopicPartition
from downconvert.storage.cleaning.cleanable import cleanable
from downconvert.storage.cleaning.compact_log import Compaction, InterruptedPassError, compact
from downconvert.storage.disk.faulty_disk import FaultyDisk, Killed
from downconvert.storage.disk.files import Files
from downconvert.storage.log_writer import LogWriter
from records.batches.builder import build
from records.formats import V2, TimestampType
from records.record import Record
from tests.downconvert.storage.logs import UNSYNCED, offsets

CONFIG = LogConfig(segment_bytes=2000, index_interval_bytes=100, segment_index_bytes=4800)
PARTITION = TopicPartition("table", 0)
Table = dict[bytes, tuple[int, bytes]]


def fill(log: Log, random: Random, count: int = 150) -> None:
    for _ in range(count):
        offset = log.end_offset
        key = b"key %d" % random.randrange(20)
        records = [Record(offset, offset, TimestampType.CREATE, key, random.randbytes(20))]
        log.writer.append(build(records, magic=V2))


def table(log: Log) -> Table:
    return {r.key or b"": (r.offset, r.value or b"") for r in log.records()}


def opened(path: Path, files: Files = UNSYNCED) -> LogDir:
    return LogDir.open(path, writable=True, config=CONFIG, files=files)


def test_the_last_value_of_each_key_is_left(tmp_path: Path) -> None:
    with opened(tmp_path) as log_dir:
        log = log_dir.logs.create(PARTITION)
        fill(log, Random(1))
        before, segments = table(log), len(log.segments)
        assert segments > 5
        count = compact(log, CONFIG, now=1000, files=UNSYNCED)
        assert count.records_in > 100
        assert table(log) == before
        assert len(log.segments) == segments  # small ones now, that fit into one together
        again = compact(log, CONFIG, now=1000, files=UNSYNCED)
        assert (again.records_in, len(log.segments)) == (count.records_out, 2)
        assert table(log) == before
        cleaned = [o for o in offsets(log.records()) if o < log.segments[-1].base_offset]
        assert len(cleaned) == count.records_out <= 20
        assert log.end_offset == 150
        fill(log, Random(2), 30)
    with opened(tmp_path) as log_dir:
        assert log_dir.logs[PARTITION].end_offset == 180


def test_a_reader_continues_while_the_log_is_compacted(tmp_path: Path) -> None:
    with opened(tmp_path) as log_dir:
        log = log_dir.logs.create(PARTITION)
        fill(log, Random(1))
        reader = Log.open(tmp_path / str(PARTITION))
        found = reader.records()
        first = [next(found) for _ in range(20)]
        compact(log, CONFIG, now=1000, files=UNSYNCED)
        rest = list(found)
        assert {r.key: r.offset for r in (*first, *rest)} == {
            key: offset for key, (offset, _) in table(log).items()
        }
        assert table(reader) == table(log)
        assert offsets(reader.records()) == offsets(log.records())


@pytest.mark.parametrize("dies_at", range(1, 120, 2))
def test_a_crash_during_compaction_changes_no_value(tmp_path: Path, dies_at: int) -> None:
    directory, left = tmp_path / "0", tmp_path / "1"
    directory.mkdir()
    left.mkdir()
    with opened(directory) as log_dir:
        fill(log_dir.logs.create(PARTITION), Random(1))
        expected = table(log_dir.logs[PARTITION])
    disk = FaultyDisk(directory, random=Random(dies_at))
    log_dir = opened(directory, disk)
    log = log_dir.logs[PARTITION]
    disk.dies_in(dies_at)
    with suppress(Killed):
        compact(log, CONFIG, now=1000, files=disk)
    disk.survivors(left)
    with LogDir.open(left) as found:
        assert table(found.logs[PARTITION]) == expected
    with opened(left) as recovered:
        assert table(recovered.logs[PARTITION]) == expected
        compact(recovered.logs[PARTITION], CONFIG, now=1000, files=UNSYNCED)
        assert table(recovered.logs[PARTITION]) == expected


def test_a_full_disk_leaves_the_log_unchanged(tmp_path: Path) -> None:
    with opened(tmp_path) as log_dir:
        log = log_dir.logs.create(PARTITION)
        fill(log, Random(1))
        before = offsets(log.records())
        disk = FaultyDisk(tmp_path, full_from=8)
        with pytest.raises(DiskFullError):
            compact(log, CONFIG, now=1000, files=disk)
        assert offsets(log.records()) == before
        compact(log, CONFIG, now=1000, files=UNSYNCED)
        assert len(offsets(log.records())) < len(before)


def test_the_active_segment_is_not_touched(tmp_path: Path) -> None:
    with opened(tmp_path) as log_dir:
        log = log_dir.logs.create(PARTITION)
        fill(log, Random(1), 5)
        count = compact(log, CONFIG, now=1000, files=UNSYNCED)
        assert (count.batches_in, log.end_offset, len(offsets(log.records()))) == (0, 5, 5)


def test_nothing_after_the_last_stable_offset_is_touched(tmp_path: Path) -> None:
    with opened(tmp_path) as log_dir:
        log = log_dir.logs.create(PARTITION)
        records = [Record(0, 0, TimestampType.CREATE, b"key 1", b"v")]
        options = {"producer_id": 1, "producer_epoch": 0, "base_sequence": 0}
        log.writer.append(build(records, magic=V2, transactional=True, **options))
        fill(log, Random(1), 100)
        before = offsets(log.records())
        compact(log, CONFIG, now=1000, files=UNSYNCED)
        assert offsets(log.records()) == before


def test_a_brokers_compacted_logs_are_compacted_again(real: Path, tmp_path: Path) -> None:
    """Before the active segment, our cleaner leaves the same records as Kafka's."""
    for name in ("compact-0", "compact-gzip-0", "compact-txn-0"):
        shutil.copytree(real / "3.9.1" / "log" / name, tmp_path / name)
        with Log.open(tmp_path / name, writable=True, config=CONFIG, files=UNSYNCED) as log:
            before = {r.key: r.value for r in log.records(isolation="read_committed")}
            compact(log, LogConfig(), now=1000, files=UNSYNCED)
            after = {r.key: r.value for r in log.records(isolation="read_committed")}
            assert after == before


def test_segments_with_offsets_too_far_apart_are_not_joined(tmp_path: Path) -> None:
    """Compaction leaves few records and wide gaps; an index has 31 bits for an offset."""
    far = 2**29
    with opened(tmp_path) as log_dir:
        log = log_dir.logs.create(PARTITION)
        for offset in (0, 1, far, far + 2**31 - 200):
            if offset == far:
                log.writer.roll(far)
            record = Record(offset, 5, TimestampType.CREATE, b"%d" % offset, b"v")
            log.writer.append(build([record], magic=V2))
        log.writer.roll()
        before = offsets(log.records())
        compact(log, LogConfig(), now=1000, files=UNSYNCED)
        assert offsets(log.records()) == before
        assert [segment.base_offset for segment in log.segments][:2] == [0, far]


def steps_of(one: Compaction, count: int = 10**6) -> int:
    """Takes so many steps, of a batch each; returns how many there were."""
    return next((number for number in range(count) if not one.step(1)), count)


@pytest.mark.parametrize("change", ["truncate", "close"])
@pytest.mark.parametrize("left", [0, 1, 5, 40, 80])
def test_a_pass_ends_without_changes_if_the_log_changes_at_any_step(
    tmp_path: Path, change: str, left: int
) -> None:
    """The same holds if it only has to note how far it came."""
    passes = []
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        log_dir = opened(tmp_path / name)
        log = log_dir.logs.create(PARTITION)
        fill(log, Random(1), 60)
        part = cleanable(log, CONFIG, 1000)
        passes.append(Compaction(log, CONFIG, part, now=1000, buffer_size=24_000))
    count = steps_of(passes[0])
    assert steps_of(passes[1], count - left) == count - left
    if change == "truncate":
        log.writer.truncate_to(20)
    else:
        log_dir.close()
        log_dir = opened(tmp_path / "second")
    end = log_dir.logs[PARTITION].end_offset
    with pytest.raises(InterruptedPassError):
        steps_of(passes[1])
    log = log_dir.logs[PARTITION]
    assert (log.writer.cleaner_point, log.end_offset) == (0, end)
    assert end == 60 or max(offsets(log.records())) == end - 1 < 20
    assert not list(log.path.glob("*.cleaned"))
    log_dir.close()


class Overtaking:
    """A lock that another thread takes first, once."""

    def __init__(self, happens: Callable[[], None], after: int) -> None:
        self._happens = happens
        self.left = after

    def __enter__(self) -> None:
        self.left -= 1
        if self.left == -1:
            self._happens()

    def __exit__(self, *_: object) -> None:
        """Nothing to do."""


def overtaken(
    path: Path, change: Callable[[LogDir], None]
) -> Iterator[tuple[Log, Compaction, bool]]:
    """Passes over the same log, each with the change before another of its steps that take the
    lock. Yields the log, the pass, and whether it was interrupted."""
    for number in count():
        (path / str(number)).mkdir()
        with opened(path / str(number)) as log_dir:
            log = log_dir.logs.create(PARTITION)
            fill(log, Random(1), 60)
            part = cleanable(log, CONFIG, 1000)
            assert part.end > 20
            lock = Overtaking(partial(change, log_dir), number)
            one = Compaction(log, CONFIG, part, now=1000, buffer_size=24_000, lock=lock)
            is_interrupted = False
            try:
                steps_of(one)
            except InterruptedPassError:
                is_interrupted = True
            if lock.left >= 0:  # there were no more steps
                assert not is_interrupted
                assert number >= 10
                return
            yield log, one, is_interrupted


@pytest.mark.parametrize("change", [LogWriter.truncate_to, LogWriter.truncate_fully_and_start_at])
def test_a_truncation_before_any_locked_step_aborts_the_pass(
    tmp_path: Path, change: Callable[[LogWriter, int], None]
) -> None:
    """The same holds between the last segment and the note of the pass."""

    def truncate(log_dir: LogDir) -> None:
        change(log_dir.logs[PARTITION].writer, 20)

    for log, _, is_interrupted in overtaken(tmp_path, truncate):
        assert is_interrupted
        assert max(log.end_offset, log.writer.cleaner_point) <= 20
        assert all(offset < 20 for offset in offsets(log.records()))


def test_a_pass_touches_no_file_of_another_log_of_that_name(tmp_path: Path) -> None:
    """A topic is deleted and made again before any step of the pass that takes the lock."""
    found: dict[str, bytes] = {}

    def make_again(log_dir: LogDir) -> None:
        log_dir.logs.delete(PARTITION)
        other = log_dir.logs.create(PARTITION)
        fill(other, Random(2), 5)
        (other.path / "00000000000000000000.log.cleaned").write_bytes(b"of another pass")
        found.clear()
        found.update((file.name, file.read_bytes()) for file in other.path.iterdir())

    for log, one, is_interrupted in overtaken(tmp_path, make_again):
        assert is_interrupted
        one.close()
        assert found == {file.name: file.read_bytes() for file in log.path.iterdir()}


def test_a_pass_puts_back_no_segment_that_was_deleted_before_any_step(tmp_path: Path) -> None:
    def remove(log_dir: LogDir) -> None:
        log_dir.logs[PARTITION].writer.remove_oldest(2)

    for log, _, _ in overtaken(tmp_path, remove):
        assert log.start_offset > 0
        bases = [int(file.name.partition(".")[0]) for file in log.path.glob("*.log*")]
        assert min(bases) >= log.start_offset


def test_a_cleaned_segment_is_as_old_as_the_last_of_its_group(tmp_path: Path) -> None:
    """Retention goes by that if records have no timestamps, and so do tombstones of v0 and v1."""
    with opened(tmp_path) as log_dir:
        log = log_dir.logs.create(PARTITION)
        fill(log, Random(1), 300)
        compact(log, CONFIG, now=1000, files=UNSYNCED)
        changed = {}
        for number, segment in enumerate(log.segments):
            changed[segment.base_offset] = 10**9 + 1000 * number
            os.utime(segment.path(), ns=(5, changed[segment.base_offset] * 10**6))
        bases = [segment.base_offset for segment in log.segments]
        compact(log, CONFIG, now=2000, files=UNSYNCED)
        found = [segment.path().stat().st_mtime_ns // 10**6 for segment in log.segments][:-1]
        ends = [*(segment.base_offset for segment in log.segments)][1:]
        assert len(ends) < len(bases) - 1
        last = [max(base for base in bases if base < end) for end in ends]
        assert found == [changed[base] for base in last]
