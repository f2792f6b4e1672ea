"""The active segment: what Kafka's tests of a segment ask of one that is written."""

from pathlib import Path

import pytest

from downconvert.storage import LogConfig, OffsetOverflowError
from downconvert.storage.names import Kind
from downconvert.storage.segment_writer import SegmentWriter
from records.formats import Codec

from .logs import UNSYNCED, append, batch, segment

CONFIG = LogConfig(index_interval_bytes=0)


def writer(path: Path, base_offset: int = 40, config: LogConfig = CONFIG) -> SegmentWriter:
    made = segment(path, base_offset)
    return SegmentWriter(made, 0, base_offset, config, UNSYNCED)


def offsets_in(made: SegmentWriter) -> list[int]:
    found = made.segment.slice(0, made.position)
    return [h.last_offset for h in found.batches()]


@pytest.mark.parametrize(
    ("base", "largest"), [(0, 2**31), (100, 100 + 2**31), (1, 2**32), (2**31, 2**33)]
)
def test_an_offset_that_does_not_fit_the_segment_is_an_error(
    tmp_path: Path, base: int, largest: int
) -> None:
    made = writer(tmp_path, base)
    with pytest.raises(OffsetOverflowError):
        append(made, batch(largest))
    assert made.position == 0
    append(made, batch(base + 2**31 - 1))


def test_the_next_offset_is_after_the_last_batch(tmp_path: Path) -> None:
    made = writer(tmp_path)
    assert made.next_offset == 40
    append(made, batch(50, 51, 52, codec=Codec.GZIP))
    assert made.next_offset == 53


def test_what_is_appended_is_found_at_once(tmp_path: Path) -> None:
    made = writer(tmp_path)
    for offset in range(40, 240):
        append(made, batch(offset))
        found = made.segment.find(offset, made.position)
        assert found is not None
        assert found[1].last_offset == offset


def test_truncation_takes_its_index_entries_and_timestamps_with_it(tmp_path: Path) -> None:
    """30 batches and an entry for every other; the highest timestamp is that of the first."""
    size = len(batch(40))
    made = writer(tmp_path, config=LogConfig(index_interval_bytes=2 * size - 1))
    for number in range(30):
        append(made, batch(40 + number, timestamp=1000 if number == 0 else 10 * number))
    assert made.max_timestamp == 1000
    made.truncate_to(41)
    assert (made.max_timestamp, made.next_offset, offsets_in(made)) == (1000, 41, [40])
    made.truncate_to(40)
    assert (made.max_timestamp, made.next_offset, offsets_in(made)) == (-1, 40, [])
    append(made, batch(40, timestamp=5))
    assert made.max_timestamp == 5
    made.close()
    assert made.segment.path(Kind.OFFSET_INDEX).stat().st_size == 0
    assert made.segment.path(Kind.TIME_INDEX).stat().st_size == 12


def test_truncation_may_point_into_a_gap(tmp_path: Path) -> None:
    made = writer(tmp_path)
    append(made, batch(40, 41))
    append(made, batch(50, 51))
    made.truncate_to(45)
    assert (made.next_offset, offsets_in(made)) == (42, [41])
    append(made, batch(43))
    assert offsets_in(made) == [41, 43]


def test_who_goes_on_knows_the_highest_timestamp(tmp_path: Path) -> None:
    """Also where no entry of the time index tells of it."""
    made = writer(tmp_path, config=LogConfig())
    append(made, batch(40, timestamp=700))
    append(made, batch(41, timestamp=500))
    position = made.position
    made.abandon()
    for kind in (Kind.OFFSET_INDEX, Kind.TIME_INDEX):
        made.segment.path(kind).unlink()
    again = SegmentWriter(made.segment, position, 42, LogConfig(segment_ms=100), UNSYNCED)
    assert again.max_timestamp == 700
    again.close()
    assert made.segment.max_timestamp() == 700


def test_what_is_after_the_end_is_cut_off(tmp_path: Path) -> None:
    made = segment(tmp_path, 40, batch(40), b"torn")
    SegmentWriter(made, len(batch(40)), 41, CONFIG, UNSYNCED).close()
    assert made.path().read_bytes() == batch(40)
