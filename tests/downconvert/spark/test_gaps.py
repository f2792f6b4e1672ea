"""Offsets that no segment has: only those beside which something is new."""

import os
from itertools import pairwise
from pathlib import Path
from typing import Final

import pytest

from downconvert.spark.blobs import Blob
from downconvert.spark.gaps import Gap, end_of, first_gap
from downconvert.spark.segment_files import SegmentFile
from downconvert.storage.names import OFFSET_MAX, Kind, State, file_name
from tests.downconvert.storage.logs import batch

from .reading import partition

ENDS: Final = {2: 5, 5: 7, 9: 9, 12: 15}  # of segments, by their base offsets
CHANGED: Final = {2: 10, 5: 40, 9: 20, 12: 30}


def segments() -> list[SegmentFile]:
    bases = [*ENDS, OFFSET_MAX]
    return [
        SegmentFile(
            "a-0", base, State.LIVE, 1, after, ((Kind.LOG, Blob("x", 1, 0, CHANGED[base])),)
        )
        for base, after in pairwise(bases)
    ]


@pytest.mark.parametrize(
    ("start", "end", "since", "expected"),
    [
        (0, 15, 0, Gap(0, 2)),
        (0, 1, 0, Gap(0, 2)),
        (0, 15, 10, Gap(7, 9)),
        (2, 15, 0, Gap(7, 9)),
        (2, 7, 0, None),
        (2, 8, 0, Gap(7, 9)),
        (8, 15, 39, Gap(8, 9)),
        (8, 15, 40, None),
        (9, 15, 0, Gap(9, 12)),
        (9, 15, 29, Gap(9, 12)),
        (9, 15, 30, None),
        (12, 15, 0, None),
        (15, 15, 0, None),
    ],
)
def test_the_first_gap(start: int, end: int, since: int, expected: Gap | None) -> None:
    asked: list[int] = []

    def end_once(file: SegmentFile) -> int:
        asked.append(file.base_offset)
        return ENDS[file.base_offset]

    assert first_gap(segments(), start, end, since, end_once) == expected
    bases = list(ENDS)
    for base in asked:  # nothing is read of what is old, or of no interest
        following = bases[bases.index(base) + 1]
        assert max(CHANGED[base], CHANGED[following]) > since
        assert following > start
        assert base < end


def test_what_is_mounted_is_as_new_as_it_is_here(tmp_path: Path) -> None:
    """Copies keep the time of the content."""
    directory = partition(tmp_path, batch(0, 1), "a-0")
    partition(tmp_path, batch(5), "a-0", 5)
    partition(tmp_path, b"", "a-0", 7)
    files = [
        SegmentFile(str(directory), base, State.LIVE, size, OFFSET_MAX)
        for base, size in ((0, len(batch(0, 1))), (5, len(batch(5))), (7, 0))
    ]
    status = (directory / file_name(5, Kind.LOG)).stat()
    for file in files:
        os.utime(file.path, (1000, 1000))
    assert [end_of(file) for file in files] == [2, 6, 7]
    assert first_gap(files, 0, 7, status.st_ctime_ns - 1, end_of) == Gap(2, 5)
    assert first_gap(files, 5, 7, status.st_ctime_ns - 1, end_of) == Gap(6, 7)
    latest = max(os.stat(file.path).st_ctime_ns for file in files)  # noqa: PTH116
    assert first_gap(files, 0, 7, latest, end_of) is None
