"""The producers' states follow the current log, whatever was there before."""

import shutil
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from downconvert.storage import (
    AbortedTransaction,
    DiskFullError,
    Log,
    LogConfig,
    LogDir,
    TopicPartition,
)
from downconvert.storage.cleaning.compact_log import compact
from downconvert.storage.names import Kind, file_name
from downconvert.storage.producers.producer_state import (
    ProducerState,
    ProducerStates,
    write_snapshot,
)
from downconvert.storage.producers.producers import Producers
from downconvert.storage.segments.segments import Segments
from records import BatchHeader, MemoryRecords, Records
from records.batches.builder import build_marker
from records.batches.control import ControlRecordType
from records.formats import V1
from tests.downconvert.storage.logs import UNSYNCED, batch, offsets, segment

PARTITION: Final = TopicPartition("t", 0)
CONFIG: Final = LogConfig(segment_bytes=700, index_interval_bytes=100)
ABORT, COMMIT = ControlRecordType.ABORT, ControlRecordType.COMMIT


def transactional(producer: int, *at: int, epoch: int = 0) -> bytes:
    options: dict[str, Any] = {"producer_id": producer, "producer_epoch": 0, "base_sequence": at[0]}
    return batch(*at, transactional=True, leader_epoch=epoch, **options)


def marker(kind: ControlRecordType, producer: int, at: int, epoch: int = 0) -> bytes:
    options = {"producer_id": producer, "producer_epoch": 0, "leader_epoch": epoch}
    return build_marker(kind, offset=at, timestamp=0, **options)


def committed(log: Log) -> list[int]:
    return offsets(log.records(isolation="read_committed"))


def written(tmp_path: Path) -> LogDir:
    return LogDir.open(tmp_path, writable=True, files=UNSYNCED)


def rewrite(log: Log) -> None:
    """An aborted transaction that readers have seen gives way to a committed one."""
    log.writer.truncate_to(50)
    log.writer.append(batch(*range(50, 60), leader_epoch=1))
    log.writer.append(transactional(7, *range(60, 110), epoch=1))
    log.writer.append(marker(COMMIT, 7, 110, epoch=1))


def test_a_truncated_aborted_transaction_hides_no_records(tmp_path: Path) -> None:
    with written(tmp_path) as log_dir, LogDir.open(tmp_path) as readers:
        log = log_dir.logs.create(PARTITION)
        log.writer.append(batch(*range(50)))
        log.writer.append(transactional(7, *range(50, 100)))
        log.writer.append(marker(ABORT, 7, 100))
        reader = readers.logs[PARTITION]
        assert committed(log) == committed(reader) == list(range(50))
        rewrite(log)
        assert committed(log) == list(range(110))
        # It is longer than it was, and no file has come or gone: only its last batch is another.
        assert committed(reader) == list(range(110))


def test_a_truncated_open_transaction_does_not_limit_the_stable_offset(tmp_path: Path) -> None:
    with written(tmp_path) as log_dir, LogDir.open(tmp_path) as readers:
        log = log_dir.logs.create(PARTITION)
        log.writer.append(batch(*range(50)))
        log.writer.append(transactional(7, *range(50, 100)))
        reader = readers.logs[PARTITION]
        assert log.last_stable_offset == reader.last_stable_offset == 50
        rewrite(log)
        assert log.last_stable_offset == reader.last_stable_offset == 111


def test_batches_before_a_snapshot_are_not_followed_again(tmp_path: Path) -> None:
    """An index leads to a batch before it. That one is part of a transaction."""
    made = [
        transactional(7, 0),
        transactional(7, 1),
        marker(ABORT, 7, 2),
        batch(3),
        transactional(8, 4),
        marker(ABORT, 8, 5),
    ]
    directory = tmp_path / "t-0"
    segments = Segments([segment(directory, 0, *made)])
    producers, before = Producers(directory), Producers(directory)
    end_of = sum(map(len, made))
    for offset in (3, 6):
        producers.advance(offset, segments, lambda _: end_of, [])
        if offset == 3:
            path = directory / file_name(3, Kind.SNAPSHOT)
            write_snapshot(UNSYNCED, path, producers.states)
    before.advance(6, segments, lambda _: end_of, [3])
    first, second = AbortedTransaction(7, 0, 2, 3), AbortedTransaction(8, 4, 5, 6)
    assert producers.aborted == [first, second]
    assert before.aborted == [second]
    assert before.states.producers == producers.states.producers


def test_a_restarted_log_has_no_producers(tmp_path: Path) -> None:
    with written(tmp_path) as log_dir:
        log = log_dir.logs.create(PARTITION)
        log.writer.append(transactional(7, 0, 1))
        log.writer.roll()
        for offset in (100, 1):  # after its end, and before it
            log.writer.truncate_fully_and_start_at(offset)
            assert (log.last_stable_offset, dict(log.writer.producers)) == (offset, {})
            assert not list(log.path.glob("*.snapshot"))
            log.writer.append(transactional(8, offset))


def test_a_log_without_snapshots_is_read_when_its_producers_are_needed(
    tmp_path: Path,
) -> None:
    with written(tmp_path) as log_dir:
        log = log_dir.logs.create(PARTITION)
        log.writer.append(transactional(7, 0, 1) + batch(2))
    for snapshot in tmp_path.glob("*/*.snapshot"):
        snapshot.unlink()
    with written(tmp_path) as log_dir:  # nobody asks
        log_dir.logs[PARTITION].writer.append(batch(3))
    with written(tmp_path) as log_dir:
        assert log_dir.logs[PARTITION].last_stable_offset == 0


def test_a_log_without_producers_is_not_read_again_when_it_is_rolled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Brokers before 0.11 write no snapshots, and their logs may be large."""
    segment(tmp_path / "t-0", 0, *(batch(offset, magic=V1) for offset in range(10)))
    segment(tmp_path / "t-0", 10, batch(10, magic=V1))
    followed: list[int] = []
    follow = Producers.follow

    def counted(self: Producers, records: Records, header: BatchHeader) -> Any:
        followed.append(header.base_offset)
        return follow(self, records, header)

    monkeypatch.setattr(Producers, "follow", counted)
    with Log.open(tmp_path / "t-0") as log:
        assert log.last_stable_offset == 11
        for base in range(11, 14):
            segment(tmp_path / "t-0", base, batch(base, magic=V1))
            assert log.last_stable_offset == base + 1
    assert len(followed) == 14


def view(log: Log) -> tuple[Any, ...]:
    return log.start_offset, log.end_offset, log.last_stable_offset, known(log)


def known(log: Log) -> list[AbortedTransaction]:
    return log.aborted(log.start_offset, log.end_offset)


def producers(log: Log) -> dict[int, Any]:
    return dict(log.writer.producers)


STEPS: Final = (
    *("data", "transaction", "transaction", "commit", "abort", "abort"),
    *("truncate", "truncate", "restart", "delete", "oldest", "roll", "compact", "reopen"),
)


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 2**32), steps=st.lists(st.sampled_from(STEPS), max_size=30))
def test_the_state_of_an_open_log_equals_that_after_reopening(seed: int, steps: list[str]) -> None:
    random, epoch = Random(seed), 0
    with TemporaryDirectory() as temporary:
        path = Path(temporary) / "log"
        path.mkdir()
        log_dir = LogDir.open(path, writable=True, config=CONFIG, files=UNSYNCED)
        log, reader = log_dir.logs.create(PARTITION), Log.open(path / str(PARTITION))
        for number, step in enumerate(steps):
            end, producer = log.end_offset, random.randrange(3)
            match step:
                case "data":
                    log.writer.append(batch(end, end + 1, leader_epoch=epoch))
                case "transaction":
                    log.writer.append(transactional(producer, end, end + 1, epoch=epoch))
                case "commit":
                    log.writer.append(marker(COMMIT, producer, end, epoch))
                case "abort":
                    log.writer.append(marker(ABORT, producer, end, epoch))
                case "truncate":
                    epoch += 1
                    log.writer.truncate_to(random.randint(log.start_offset, end))
                case "restart":
                    epoch += 1
                    log.writer.truncate_fully_and_start_at(random.randint(0, end + 5))
                case "delete":
                    log.writer.delete_records(random.randint(0, end))
                case "oldest":
                    log.writer.remove_oldest(random.randint(0, len(log.segments)))
                case "roll":
                    log.writer.roll()
                case "compact":
                    compact(log, CONFIG, now=number, files=UNSYNCED)
                case "reopen":
                    log_dir.close()
                    log_dir = LogDir.open(path, writable=True, config=CONFIG, files=UNSYNCED)
                    log = log_dir.logs[PARTITION]
            expected = view(log)
            assert view(reader) == expected, f"who follows it, after {step}"
            with Log.open(path / str(PARTITION)) as fresh:
                assert view(fresh) == expected, f"who opens it to read, after {step}"
            copy = Path(temporary) / str(number)
            shutil.copytree(path, copy)
            with LogDir.open(copy, writable=True, config=CONFIG, files=UNSYNCED) as again:
                assert view(again.logs[PARTITION]) == expected, f"who recovers it, after {step}"
                assert producers(again.logs[PARTITION]) == producers(log), f"after {step}"
        log_dir.abandon()


@pytest.mark.parametrize("error", [OSError("no room"), DiskFullError("a file")])
def test_an_append_that_fails_leaves_the_producers_as_they_were(
    tmp_path: Path, error: Exception
) -> None:
    """Those that it begins, ends and continues, and where they are read on."""
    before = transactional(7, 0, 1) + transactional(8, 2, 3)
    made = segment(tmp_path, 0, before)
    producers = Producers(tmp_path)
    producers.advance(4, Segments([made]), lambda one: one.size, [])
    expected = dict(producers.states.producers)
    data = marker(ABORT, 7, 4) + transactional(8, 5) + transactional(9, 6)
    records = MemoryRecords(data)

    def fail() -> None:
        with producers.following(records, list(records.batches())) as aborted:
            assert [one.producer_id for one in aborted] == [7]
            raise error

    with pytest.raises(type(error), match="no "):
        fail()
    assert producers.states.producers == expected
    assert (producers.offset, producers.states.first_open_offset) == (4, 0)


def test_producers_at_an_earlier_offset_are_those_of_then(tmp_path: Path) -> None:
    made = segment(tmp_path, 0, transactional(7, 0, 1), transactional(8, 2, 3))
    producers = Producers(tmp_path)
    for offset, expected in ((4, [7, 8]), (2, [7]), (0, []), (4, [7, 8])):
        producers.advance(offset, Segments([made]), lambda one: one.size, [])
        assert (sorted(producers.states.producers), producers.offset) == (expected, offset)


@pytest.mark.parametrize("damage", ["cut", "missing", "of nothing"])
def test_a_damaged_snapshot_is_skipped_for_the_one_before_it(tmp_path: Path, damage: str) -> None:
    """Records that older snapshots know may be gone."""
    made = segment(tmp_path, 5, transactional(8, 5, 6), transactional(9, 7, 8), batch(9, 10))
    older = ProducerStates([ProducerState(7, 0, last_offset=3)])
    write_snapshot(UNSYNCED, tmp_path / file_name(5, Kind.SNAPSHOT), older)
    newer = tmp_path / file_name(9, Kind.SNAPSHOT)
    write_snapshot(UNSYNCED, newer, ProducerStates([ProducerState(1, 0)]))
    if damage == "missing":
        newer.unlink()
    else:
        newer.write_bytes(newer.read_bytes()[: -1 if damage == "cut" else 0])
    producers = Producers(tmp_path)
    producers.advance(11, Segments([made]), lambda one: one.size, [5, 9])
    assert sorted(producers.states.producers) == [7, 8, 9]
