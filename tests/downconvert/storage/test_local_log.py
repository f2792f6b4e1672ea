"""The view of a log that is written: its offsets, and the sizes and times of its segments."""

from pathlib import Path

from downconvert.storage import Log, LogConfig

from .logs import UNSYNCED, batch, offsets


def opened(path: Path) -> Log:
    return Log.open(path, writable=True, config=LogConfig(), files=UNSYNCED)


def test_a_log_without_its_oldest_segments_starts_at_the_first_remaining_one(path: Path) -> None:
    """As after a crash between the removal of a segment and the note of the new start."""
    with opened(path) as log:
        log.writer.append(batch(0, 1))
        log.writer.roll()
        log.writer.append(batch(2, 3))
    for file in path.glob("*0.*"):
        file.unlink()
    with opened(path) as log:
        assert (log.start_offset, log.end_offset) == (2, 4)
        assert log.writer.start_offset == 2
        assert offsets(log.records()) == [2, 3]


def test_sizes_and_times_of_all_segments_are_known(path: Path) -> None:
    first, second = batch(0, 1), batch(2)
    with opened(path) as log:
        writer = log.writer
        writer.append(first)
        writer.roll()
        writer.append(second)
        sizes = [len(first), len(second)]
        assert [writer.size_of(segment) for segment in log.segments] == sizes
        assert [writer.end_of(segment) for segment in log.segments] == sizes
        newest = [header.max_timestamp for _, header in log.batches()]
        assert [writer.max_timestamp(segment) for segment in log.segments] == newest


def test_records_are_flushed_up_to_the_last_flush(path: Path) -> None:
    with opened(path) as log:
        writer = log.writer
        writer.append(batch(0, 1))
        assert (writer.flushed_offset, writer.end_offset) == (0, 2)
        writer.flush()
        assert writer.flushed_offset == 2
