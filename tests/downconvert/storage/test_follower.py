"""A reader gets the right records, whatever a broker does to the directory meanwhile."""

import os
import shutil
from pathlib import Path
from random import Random

import pytest

from downconvert.storage import CorruptFileError, Log, LogConfig, OffsetOutOfRangeError
from downconvert.storage.names import LOG_STARTS, SEGMENT_KINDS, Kind, State, file_name

from .logs import UNSYNCED, batch, indexed_segment, offsets, segment

CONFIG = LogConfig(segment_bytes=2000, index_interval_bytes=100, segment_index_bytes=10_240)


@pytest.fixture
def broker(path: Path) -> Log:
    """Another who has the directory open for writing, as a broker has."""
    return Log.open(path, writable=True, config=CONFIG, files=UNSYNCED)


def write(broker: Log, count: int) -> None:
    for _ in range(count):
        end = broker.end_offset
        broker.writer.append(batch(end, end + 1))


def test_appends_and_rolls_are_followed(path: Path, broker: Log) -> None:
    log = Log.open(path)
    for _ in range(60):
        write(broker, 1)
        assert log.end_offset == broker.end_offset
        assert offsets(log.records(broker.end_offset - 2)) == offsets(
            broker.records(broker.end_offset - 2)
        )
    assert len(log.segments) == len(broker.segments) > 2
    assert offsets(log.records()) == list(range(120))


def test_a_directory_that_cannot_be_listed_is_an_error_each_time(path: Path, broker: Log) -> None:
    """The log that was known before may have a gap by now."""
    write(broker, 5)
    log = Log.open(path)
    pipe = path / file_name(3, Kind.LOG)
    os.mkfifo(pipe)
    os.utime(path, (1, 1))  # another time than when it was listed, however fast this is
    for _ in range(2):
        with pytest.raises(CorruptFileError, match="is not a regular file"):
            _ = log.end_offset
    pipe.unlink()
    write(broker, 2)
    assert log.end_offset == 14


def test_a_read_finds_new_appends(path: Path, broker: Log) -> None:
    log = Log.open(path)
    write(broker, 40)
    assert next(log.read(79, 1).batches()).last_offset == 79
    with pytest.raises(OffsetOutOfRangeError):
        log.read(81, 1)


def test_records_end_at_the_end_offset_of_the_request(path: Path, broker: Log) -> None:
    write(broker, 5)
    found = Log.open(path).records()
    write(broker, 5)
    assert offsets(found) == list(range(10))


def test_reading_continues_when_segments_at_the_beginning_are_deleted(
    path: Path, broker: Log
) -> None:
    write(broker, 100)
    log = Log.open(path)
    found = log.records()
    assert next(found).offset == 0
    broker.writer.delete_records(150)
    first = broker.segments[0].base_offset
    rest = offsets(found)  # what it had open, and then what is still there
    assert rest[-50:] == list(range(150, 200))
    assert all(offset < first or offset >= 150 for offset in rest) or rest[0] == 1
    assert log.start_offset == 150
    with pytest.raises(OffsetOutOfRangeError):
        log.read(149, 1)
    assert offsets(log.records()) == list(range(150, 200))


def test_retention_while_reading_moves_the_start(path: Path, broker: Log) -> None:
    write(broker, 100)
    log = Log.open(path)
    broker.writer.remove_oldest(2)
    start = broker.segments[0].base_offset
    with pytest.raises(OffsetOutOfRangeError):
        log.read(start - 1, 1)
    assert log.start_offset == start
    assert log.offset_for(0) == start


def test_truncation_is_followed(path: Path, broker: Log) -> None:
    write(broker, 100)
    log = Log.open(path)
    assert log.end_offset == 200
    broker.writer.truncate_to(101)
    assert log.end_offset == 100
    assert offsets(log.records()) == list(range(100))
    write(broker, 3)
    assert offsets(log.records(98)) == list(range(98, 106))


def test_a_clean_stop_and_a_start_are_followed(path: Path, broker: Log) -> None:
    write(broker, 30)
    log = Log.open(path)
    assert log.end_offset == 60
    broker.close()
    assert offsets(log.records()) == list(range(60))
    with Log.open(path, writable=True, config=CONFIG, files=UNSYNCED) as again:
        write(again, 5)
        assert offsets(log.records()) == list(range(70))


def test_cleaning_is_followed(path: Path) -> None:
    """Segments 0, 100 and 200 become one that begins at 0, step by step, as a broker does it."""
    for base in (0, 100, 200, 300):
        indexed_segment(path, base, *(batch(n, size=60) for n in range(base, base + 100)))
    cleaned = path.parent / "cleaned"
    indexed_segment(cleaned, 0, *(batch(n) for n in range(0, 300, 10)))
    log = Log.open(path)
    left = [*range(0, 300, 10), *range(300, 400)]

    def rename(base: int, before: State, after: State) -> None:
        for kind in SEGMENT_KINDS:
            source = path / file_name(base, kind, before)
            if source.exists():
                source.rename(path / file_name(base, kind, after))
                check()

    def check() -> None:
        for reader in (log, Log.open(path)):
            found = offsets(reader.records())
            assert set(left) <= set(found) <= set(range(400))
            assert found == sorted(found)
            for offset in (0, 95, 150, 299, 300, 399):
                header = next(reader.read(offset, 1).batches())
                assert header.last_offset >= offset

    for kind in SEGMENT_KINDS:
        if (cleaned / file_name(0, kind)).exists():
            shutil.copy(cleaned / file_name(0, kind), path / file_name(0, kind, State.CLEANED))
            check()
    rename(0, State.CLEANED, State.SWAP)
    assert offsets(Log.open(path).records()) == left  # from here on, the new one counts
    for base in (0, 100, 200):
        rename(base, State.LIVE, State.DELETED)
    rename(0, State.SWAP, State.LIVE)
    assert offsets(log.records()) == offsets(Log.open(path).records()) == left


def test_a_reader_changes_no_files_after_a_crash(path: Path) -> None:
    indexed_segment(path, 0, batch(0))
    for name in (
        file_name(0, Kind.LOG, State.CLEANED),
        file_name(50, Kind.LOG, State.DELETED),
        file_name(70, Kind.OFFSET_INDEX),
    ):
        (path / name).write_bytes(b"anything")
    before = sorted(path.iterdir())
    assert offsets(Log.open(path).records()) == [0]
    assert sorted(path.iterdir()) == before


@pytest.mark.parametrize("seed", range(10))
def test_a_reader_beside_a_busy_writer_reads_valid_records(path: Path, seed: int) -> None:
    random = Random(seed)
    broker = Log.open(path, writable=True, config=CONFIG, files=UNSYNCED)
    log = Log.open(path)
    values: dict[int, bytes | None] = {}
    for _ in range(150):
        step = random.random()
        end = broker.end_offset
        if step < 0.8:
            broker.writer.append(batch(end, end + 1, size=random.choice((5, 50, 500))))
        elif step < 0.85:
            broker.writer.roll()
        elif step < 0.9:
            broker.writer.delete_records(random.randint(broker.start_offset, end))
        elif step < 0.95 and end > broker.start_offset:
            broker.writer.truncate_to(random.randint(max(broker.start_offset, end - 30), end))
        elif len(broker.segments) > 1:
            broker.writer.remove_oldest(1)
        values = {record.offset: record.value for record in broker.records()}
        assert {record.offset: record.value for record in log.records()} == values
        assert (log.start_offset, log.end_offset) == (broker.start_offset, broker.end_offset)


def test_a_log_that_is_only_a_swap_is_read(path: Path) -> None:
    made = segment(path, 0, batch(0), batch(1))
    made.path().rename(path / file_name(0, Kind.LOG, State.SWAP))
    assert offsets(Log.open(path).records()) == [0, 1]


OPEN = {"producer_epoch": 0, "base_sequence": 0, "transactional": True}


@pytest.mark.parametrize("longer", [-1, 0, 1, 5])
def test_a_truncation_by_another_process_is_noticed_even_if_the_log_grows_again(
    path: Path, broker: Log, longer: int
) -> None:
    """The reader has followed producers, of whom the truncation takes one with its transaction."""
    broker.writer.append(batch(0, producer_id=1, **OPEN))
    for offset in range(1, 9):
        broker.writer.append(batch(offset))
    broker.writer.append(batch(9, producer_id=2, **OPEN))
    log = Log.open(path)
    assert sorted(one.producer_id for one in log.producers()) == [1, 2]
    log_file = path / file_name(0, Kind.LOG)
    before = log_file.stat().st_size
    broker.writer.truncate_to(7)
    for offset in range(7, 10 + longer):
        broker.writer.append(batch(offset, producer_id=3, producer_epoch=5, base_sequence=offset))
    after = log_file.stat().st_size
    assert (after > before) - (after < before) == (longer > 0) - (longer < 0)
    assert log.end_offset == 10 + longer
    assert sorted(one.producer_id for one in log.producers()) == [1, 3]
    assert log.last_stable_offset == 0
    broker.writer.truncate_to(0)
    write(broker, 6 + longer)
    assert log.last_stable_offset == log.end_offset == 12 + 2 * longer
    assert log.producers() == []


def test_a_log_of_one_segment_that_was_made_anew_has_the_producers_of_the_new(path: Path) -> None:
    """Without a snapshot they are followed from its beginning. The new file is longer."""
    options = {"producer_epoch": 0, "base_sequence": 0}
    segment(path, 0, batch(0, producer_id=7, **options))
    log = Log.open(path)
    assert [one.producer_id for one in log.producers()] == [7]
    (path / file_name(0, Kind.LOG)).unlink()
    segment(path, 0, batch(0, producer_id=8, **options), batch(1, 2, producer_id=9, **options))
    assert log.end_offset == 3
    assert sorted(one.producer_id for one in log.producers()) == [8, 9]


def test_removed_segments_are_noticed_within_one_tick_of_the_clock(path: Path, broker: Log) -> None:
    """The time of the directory does not change then."""
    write(broker, 60)
    log = Log.open(path)
    assert log.start_offset == 0
    status = path.stat()
    broker.writer.remove_oldest(1)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert log.start_offset == broker.start_offset > 0


def test_new_segments_are_noticed_within_one_tick_of_the_clock(path: Path, broker: Log) -> None:
    """Their name is known: the offset after the last batch."""
    write(broker, 3)
    log = Log.open(path)
    assert log.end_offset == 6
    status = path.stat()
    broker.writer.roll()
    write(broker, 2)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert log.end_offset == 10
    assert len(log.segments) == 2


def test_a_start_that_was_away_for_a_while_counts_again(path: Path, broker: Log) -> None:
    """The file of all starts is replaced, and a reader may find none, or a damaged one."""
    write(broker, 60)
    broker.writer.delete_records(5)
    starts = path.parent / LOG_STARTS
    noted = starts.read_bytes()
    log = Log.open(path)
    assert log.start_offset == 5
    for other in (b"", b"0\n1\nnonsense\n", None):
        starts.unlink(missing_ok=True)
        if other is not None:
            starts.write_bytes(other)
        assert log.start_offset == 0
        starts.write_bytes(noted)
        assert log.start_offset == 5
