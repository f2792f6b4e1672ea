"""A search by time in a segment finds records of clients, and no markers."""

from pathlib import Path

from records.batches.builder import build_marker
from records.batches.control import ControlRecordType
from tests.downconvert.storage.logs import batch, indexed_segment


def test_a_search_by_time_finds_no_marker(tmp_path: Path) -> None:
    """A transaction marker is no record with a timestamp that a client can ask for."""
    marker = build_marker(
        ControlRecordType.COMMIT, offset=1, timestamp=10**12, producer_id=7, producer_epoch=0
    )
    segment = indexed_segment(tmp_path, 0, batch(0), marker)
    assert segment.find_timestamp(10**12, 0, segment.size) is None
