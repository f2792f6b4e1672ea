"""Batch headers of one segment, found by offset."""

from pathlib import Path

import pytest

from downconvert.spark.logs.segment_files import SegmentFile
from downconvert.spark.logs.stored_headers import header_of, last_batch
from downconvert.storage.names import OFFSET_MAX, Kind, State, file_name
from tests.downconvert.storage.logs import batch, indexed_segment, segment


def made(directory: Path, *, is_indexed: bool, next_offset: int = OFFSET_MAX) -> SegmentFile:
    """A segment with the batches 0-2, 5-6 and 7-9."""
    make = indexed_segment if is_indexed else segment
    make(directory, 0, batch(0, 1, 2), batch(5, 6), batch(7, 8, 9))
    size = (directory / file_name(0, Kind.LOG)).stat().st_size
    return SegmentFile(str(directory), 0, State.LIVE, size, next_offset)


@pytest.mark.parametrize("is_indexed", [False, True])
def test_a_batch_is_found_by_each_of_its_offsets(tmp_path: Path, is_indexed: bool) -> None:
    file = made(tmp_path, is_indexed=is_indexed)
    found = [header_of(file, offset) for offset in range(11)]
    bases = [None if header is None else header.base_offset for header in found]
    assert bases == [0, 0, 0, None, None, 5, 5, 7, 7, 7, None]


@pytest.mark.parametrize(("next_offset", "expected"), [(OFFSET_MAX, 7), (8, 7), (7, 5), (5, 0)])
def test_the_last_batch_begins_before_the_next_segment(
    tmp_path: Path, next_offset: int, expected: int
) -> None:
    header, is_damaged = last_batch(made(tmp_path, is_indexed=False, next_offset=next_offset))
    assert header is not None
    assert (header.base_offset, is_damaged) == (expected, False)
