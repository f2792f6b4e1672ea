"""Records of a log are found by their timestamps, whatever order these have."""

from pathlib import Path
from typing import Any

import pytest

from downconvert.storage import Log, LogConfig
from downconvert.storage.cleaning.retention import youngest
from downconvert.storage.indexes.time_index import ENTRY
from downconvert.storage.names import Kind
from downconvert.storage.segments.segment import Segment
from records.batches.builder import build_marker
from records.batches.control import ControlRecordType
from records.formats import V0, V1

from .logs import UNSYNCED, batch, indexed_segment, segment


def test_the_first_record_of_a_timestamp_may_be_before_younger_ones(path: Path) -> None:
    times = [500, 100, 700, 200, 900]
    for number, time in enumerate(times):
        indexed_segment(path, number, batch(number, timestamp=time))
    log = Log.open(path)
    assert [log.offset_for(time) for time in (100, 501, 701, 900, 901)] == [0, 2, 4, 4, None]


def test_the_newest_records_are_found_before_the_time_index_has_them(path: Path) -> None:
    config = LogConfig(index_interval_bytes=200, segment_bytes=1500)
    with Log.open(path, writable=True, config=config, files=UNSYNCED) as log:
        for last in range(40):
            log.writer.append(batch(last))
            for found in (log, Log.open(path)):
                times = {10 * at for at in (0, last // 2, last - 1, last) if at >= 0}
                assert all(found.offset_for(time) == time // 10 for time in times)
                assert found.offset_for(10 * last - 9) == last
                assert found.offset_for(10 * last + 1) is None
        assert len(log.segments) > 1


def test_segments_without_time_indexes_are_scanned(path: Path) -> None:
    for base in (0, 10, 20):
        segment(path, base, batch(base, base + 1, magic=V1))
    log = Log.open(path)
    assert [log.offset_for(time) for time in (0, 5, 101, 200)] == [0, 1, 11, 20]


def test_records_without_timestamps_are_not_found_by_time(path: Path) -> None:
    segment(path, 0, batch(0, magic=V0), batch(1, timestamp=-1), batch(2, timestamp=50))
    assert Log.open(path).offset_for(0) == 2


def test_transaction_markers_are_not_found_by_time(path: Path) -> None:
    producer = {"producer_id": 3, "producer_epoch": 0}
    with Log.open(path, writable=True, files=UNSYNCED) as log:
        log.writer.append(batch(0, base_sequence=0, transactional=True, timestamp=10, **producer))
        commit = ControlRecordType.COMMIT
        log.writer.append(build_marker(commit, offset=1, timestamp=500, **producer))
        assert log.offset_for(300) is None
        log.writer.append(batch(2, timestamp=600))
        assert log.offset_for(300) == 2


def test_a_segment_is_not_read_for_a_time_after_all_of_its_records(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One record of the far future makes the time index end there."""
    reads = list[int]()
    find = Segment.find_timestamp

    def counted(segment: Segment, timestamp: int, start: int, end: int) -> Any:
        reads.append(timestamp)
        return find(segment, timestamp, start, end)

    monkeypatch.setattr(Segment, "find_timestamp", counted)

    def looked(log: Log, *times: int) -> list[int | None]:
        found = [log.offset_for(time) for time in times]
        assert [one for one in times if one not in reads] == [
            time for time, offset in zip(times, found, strict=True) if offset is None
        ]
        reads.clear()
        return found

    with Log.open(path, writable=True, files=UNSYNCED) as log:
        assert looked(log, 0) == [None]
        log.writer.append(batch(0, timestamp=10) + batch(1, timestamp=900) + batch(2, timestamp=20))
        assert looked(log, 900, 901) == [1, None]
    with Log.open(path, writable=True, files=UNSYNCED) as log:
        assert looked(log, 900, 901) == [1, None]
        log.writer.truncate_to(1)
        assert looked(log, 10, 11, 900) == [0, None, None]
        log.writer.append(batch(1, timestamp=30))
        assert looked(log, 30, 31) == [1, None]


@pytest.mark.parametrize("damage", ["ones", "short", "torn", "gone", "falling"])
def test_a_damaged_index_hides_no_segment_from_a_search(path: Path, damage: str) -> None:
    """Its last entry has the highest timestamp of the segment, by which a search skips it."""
    for number in range(3):
        batches = [batch(10 * number + n, timestamp=100 * number + n) for n in range(10)]
        indexed_segment(path, 10 * number, *batches)
    for index in path.glob(f"*{Kind.TIME_INDEX}"):
        match damage:
            case "ones":
                index.write_bytes(b"\xff" * 24)
            case "short":
                index.write_bytes(index.read_bytes()[:7])
            case "torn":
                index.write_bytes(index.read_bytes()[:-7])
            case "gone":
                index.unlink()
            case "falling":
                index.write_bytes(ENTRY.pack(500, 0) + ENTRY.pack(3, 0))
    log = Log.open(path)
    assert [log.offset_for(time) for time in (0, 5, 104, 209, 210)] == [0, 5, 14, 29, None]
    assert [youngest(log, segment) for segment in log.segments] == [9, 109, 209]
