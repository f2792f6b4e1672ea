"""The number of segments with open files is limited. The least recently read ones close their
files."""

import gc
import os
import resource
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from downconvert.storage.disk.open_files import (
    OPEN_SEGMENTS_MAX,
    OPEN_SEGMENTS_MIN,
    OpenFiles,
    connections_max,
    segments_max,
)
from downconvert.storage.segments.segment import Segment
from records import FileRecords
from records.files.file_records import SharedFile
from tests.downconvert.storage.logs import batch, indexed_segment
from tests.downconvert.storage.segments.test_segment_writer import open_count


def test_an_empty_range_has_an_open_file_even_after_another_was_closed() -> None:
    open_files = OpenFiles()
    first = open_files.empty()
    assert open_files.empty() is first
    first.close()
    assert not open_files.empty().closed
    open_files.empty().close()


class Holder:
    def __init__(self, open_files: OpenFiles) -> None:
        self.open_files = open_files
        self.is_open = False

    def use(self) -> None:
        self.is_open = True
        self.open_files.used(self)

    def release(self) -> None:
        self.is_open = False
        self.open_files.released(self)


def test_the_most_recently_used_segment_stays_open() -> None:
    open_files = OpenFiles(2)
    a, b, c = holders = [Holder(open_files) for _ in range(3)]
    for holder in (a, b, a, c):
        holder.use()
    assert [holder.is_open for holder in holders] == [True, False, True]
    a.release()
    b.use()
    assert [holder.is_open for holder in holders] == [False, True, True]


@pytest.mark.parametrize(
    ("files_max", "connections"),
    [(400, 300), (1_000, 750), (1_333, 999), (1_334, 1_000), (resource.RLIM_INFINITY, 1_000)],
)
def test_connections_leave_files_to_logs(
    files_max: int, connections: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (files_max, files_max))
    assert connections_max(1_000) == connections


@pytest.mark.parametrize(
    ("files_max", "segments"),
    [
        (256, OPEN_SEGMENTS_MIN),
        (6_000, 1_000),
        (1_000_000, OPEN_SEGMENTS_MAX),
        (resource.RLIM_INFINITY, OPEN_SEGMENTS_MAX),
    ],
)
def test_a_higher_limit_of_files_keeps_more_segments_open(
    files_max: int, segments: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (files_max, files_max))
    assert segments_max() == segments
    open_files = OpenFiles()
    holders = [Holder(open_files) for _ in range(segments + 1)]
    for holder in holders:
        holder.use()
    assert [holder.is_open for holder in holders].count(False) == 1


def test_a_file_is_closed_with_its_last_slice(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"data")
    file = SharedFile(str(tmp_path / "f"))
    number = file.fileno()
    found = FileRecords(file, 1, 2)
    del file
    gc.collect()
    os.fstat(number)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # it is closed as it should be, and nobody is warned
        del found
        gc.collect()
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(number)


def test_a_segment_stays_readable_while_another_thread_closes_its_files(tmp_path: Path) -> None:
    """Logs share the bound, and each is read by another thread."""
    made = [
        indexed_segment(tmp_path / str(number), 0, *(batch(o, size=300) for o in range(50)))
        for number in range(4)
    ]
    open_files = OpenFiles(1)
    segments = [Segment(one.path().parent, 0, open_files) for one in made]

    def work(segment: Segment) -> int:
        count = 0
        for number in range(400):
            found = segment.find(number % 50, segment.size)
            count += found is not None and found[1].base_offset == number % 50
        return count

    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(work, segments)) == [400] * 4


def test_a_released_segment_counts_again_when_it_is_read(tmp_path: Path) -> None:
    """Although it was the last one that used its files."""
    shared = OpenFiles(2)
    places = [tmp_path / str(number) for number in range(3)]
    for place in places:
        indexed_segment(place, 0, batch(0))
    first, *others = (Segment(place, 0, shared) for place in places)
    assert first.read(0, 1, first.size) is not None
    first.release()
    for one in (first, *others):
        assert one.read(0, 1, one.size) is not None
    gc.collect()
    assert [open_count(place) > 0 for place in places] == [False, True, True]
