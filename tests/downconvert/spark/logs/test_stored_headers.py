"""Batch headers of one segment, found by offset."""

import gzip
import struct
import tempfile
import threading
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from downconvert.spark.logs import stored_headers
from downconvert.spark.logs.segment_files import PartitionLog, SegmentFile
from downconvert.spark.logs.stored_headers import (
    files_with,
    header_of,
    headers_of,
    last_batch,
)
from downconvert.spark.logs.trees import find_partitions
from downconvert.spark.stores.blobs import Blob
from downconvert.storage import TopicPartition
from downconvert.storage.names import OFFSET_MAX, Kind, State, file_name
from tests.downconvert.spark.descriptors import open_below
from tests.downconvert.spark.reading import packed, partition
from tests.downconvert.storage.logs import batch, indexed_segment, segment

NAME: Final = TopicPartition("a", 0)


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


def test_a_batch_with_a_wrong_offset_has_none_of_the_next_one(tmp_path: Path) -> None:
    """An export would note its leader epoch."""
    (tmp_path / "a-0").mkdir()
    second = struct.pack(">q", 3) + batch(2, 3, leader_epoch=0)[8:]
    entries = [batch(0, 1, leader_epoch=0), second, batch(4, leader_epoch=1)]
    segment(tmp_path / "a-0", 0, *entries)
    ((file,),) = (log.segments for log in find_partitions([str(tmp_path)]))
    found = [header_of(file, offset) for offset in (1, 3, 4)]
    assert [None if one is None else one.leader_epoch for one in found] == [0, None, 1]


@pytest.mark.parametrize(("next_offset", "expected"), [(OFFSET_MAX, 7), (8, 7), (7, 5), (5, 0)])
def test_the_last_batch_begins_before_the_next_segment(
    tmp_path: Path, next_offset: int, expected: int
) -> None:
    header, is_damaged = last_batch(made(tmp_path, is_indexed=False, next_offset=next_offset))
    assert header is not None
    assert (header.base_offset, is_damaged) == (expected, False)


def test_the_last_batch_is_the_same_from_the_known_one_on(tmp_path: Path) -> None:
    """A batch with a lower offset follows it. No checksum covers offsets."""
    directory = partition(tmp_path, batch(0, 1, 2) + batch(3, 4, 5, 6) + batch(4), "a-0")
    size = (directory / file_name(0, Kind.LOG)).stat().st_size
    file = SegmentFile(str(directory), 0, State.LIVE, size, OFFSET_MAX)
    found = last_batch(file)
    assert found.header is not None
    assert (found.header.base_offset, found.is_damaged) == (3, True)
    assert last_batch(file, found.header) == found


@pytest.mark.parametrize("is_packed", [False, True])
@pytest.mark.parametrize("offset", [0, 2])
def test_a_last_batch_with_too_low_an_offset_is_damage(
    tmp_path: Path, offset: int, is_packed: bool
) -> None:
    logs = tmp_path / "logs"
    low = offset.to_bytes(8, "big") + batch(7, 8)[8:]
    partition(logs, batch(0, 1, 2) + batch(5, 6) + low, "a-0")
    (log,) = find_partitions([str(packed(logs) if is_packed else logs)])
    header, is_damaged = last_batch(log.segments[0])
    assert header is not None
    assert (header.base_offset, is_damaged) == (5, True)


@pytest.mark.parametrize("count", [4, 1000])
@pytest.mark.parametrize("low", [1, 4, 70])
@pytest.mark.parametrize("is_packed", [False, True])
def test_a_last_batch_with_too_low_an_offset_is_damage_also_behind_an_index_entry(
    tmp_path: Path, count: int, low: int, is_packed: bool
) -> None:
    """Its offset may be one of the batch before it, where reading begins."""
    logs, end = tmp_path / "logs", 10 * count
    logs.mkdir()
    entries = [batch(*range(at, at + 10)) for at in range(0, end, 10)]
    indexed_segment(logs / "a-0", 0, *entries)
    entries[-1] = struct.pack(">q", max(0, end - 10 - low)) + entries[-1][8:]
    (logs / "a-0" / file_name(0, Kind.LOG)).write_bytes(b"".join(entries))
    ((file,),) = (
        log.segments for log in find_partitions([str(packed(logs) if is_packed else logs)])
    )
    header, is_damaged = last_batch(file)
    assert header is not None
    assert (header.base_offset, is_damaged) == (end - 20, True)
    found = [header_of(file, offset) for offset in range(end - 20, end)]
    expected = [end - 20] * 10 + [None] * 10
    assert [None if one is None else one.base_offset for one in found] == expected


@pytest.mark.parametrize("count", [4, 1000])
@pytest.mark.parametrize("more", [1, 2, 8, 64])
@pytest.mark.parametrize("is_packed", [False, True])
def test_a_batch_with_too_high_an_offset_has_none_though_an_index_entry_leads_to_it(
    tmp_path: Path, count: int, more: int, is_packed: bool
) -> None:
    logs, first = tmp_path / "logs", 10 * count - 20
    logs.mkdir()
    entries = [batch(*range(at, at + 10)) for at in range(0, first + 20, 10)]
    indexed_segment(logs / "a-0", 0, *entries)
    entries[-2] = struct.pack(">q", first + more) + entries[-2][8:]
    (logs / "a-0" / file_name(0, Kind.LOG)).write_bytes(b"".join(entries))
    (log,) = find_partitions([str(packed(logs) if is_packed else logs)])
    found = [header_of(log.segments[0], offset) for offset in range(first, first + 20)]
    expected = [None] * 10 + [first + 10] * 10
    assert [None if one is None else one.base_offset for one in found] == expected


@pytest.mark.parametrize("valid_until", [OFFSET_MAX, 6, 2])
def test_a_segment_has_no_offset_that_a_later_leader_has_truncated(
    tmp_path: Path, valid_until: int
) -> None:
    """Nor one that the next segment has, nor any if it is empty."""
    directory = tmp_path / "b1" / "a-0"
    directory.parent.mkdir()
    first = replace(
        made(directory, is_indexed=False, next_offset=8), valid_until=valid_until, is_clipped=True
    )
    empty = replace(first, base_offset=0, next_offset=OFFSET_MAX, size=0)
    other = PartitionLog(NAME, "b2/a-0", 0, (replace(first, valid_until=OFFSET_MAX),))
    log = PartitionLog(NAME, str(directory), 0, (first, empty), others=(other,))
    for offset in range(10):
        expected = [first] if offset < min(valid_until, 8) else []
        expected += other.segments if offset < 8 else ()
        assert list(files_with(log, offset)) == expected


@pytest.mark.parametrize("is_gzipped", [False, True])
@pytest.mark.parametrize("is_stored", [False, True])
@pytest.mark.parametrize("look_size", [10, 1 << 16])
def test_no_file_stays_open_once_its_headers_were_read(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    is_gzipped: bool,
    is_stored: bool,
    look_size: int,
) -> None:
    """Not even if the headers end at damage."""
    monkeypatch.setattr(stored_headers, "LOOK_SIZE", look_size)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    file, path = made(tmp_path, is_indexed=False), tmp_path / file_name(0, Kind.LOG)
    threads = set(threading.enumerate())
    good = path.read_bytes()
    for data, last in ((good, 7), (good[: -len(batch(7, 8, 9))] + b"\xff" * 200, 5)):
        stored = gzip.compress(data) if is_gzipped else data
        path.write_bytes(stored)
        if is_gzipped or is_stored:
            blob = Blob(str(path), len(stored), is_gzipped=is_gzipped)
            file = replace(file, blobs=((Kind.LOG, blob),))
        file = replace(file, size=len(stored))
        header = header_of(file, 1)
        assert header is not None
        assert header.base_offset == 0
        header = last_batch(file).header
        assert header is not None
        assert header.base_offset == last
        assert open_below(tmp_path) == []
        assert set(threading.enumerate()) <= threads  # those of earlier tests may have ended


@pytest.mark.parametrize("is_packed", [False, True])
def test_headers_of_a_log_leave_out_those_that_a_later_leader_truncated(
    tmp_path: Path, is_packed: bool
) -> None:
    """Only the earlier copy still has the beginning."""
    older = partition(tmp_path / "b1", b"".join(batch(at) for at in range(6)), "a-0")
    (older / "leader-epoch-checkpoint").write_text("0\n1\n0 0\n")
    newer = partition(tmp_path / "b2", batch(8, 9, leader_epoch=2), "a-0", 8)
    (newer / "leader-epoch-checkpoint").write_text("0\n2\n0 0\n2 3\n")
    with pytest.warns(RuntimeWarning, match="copies of a-0 differ"):
        (log,) = find_partitions([str(packed(tmp_path) if is_packed else tmp_path)])
    assert [file.base_offset for file in log.segments] == [0, 8]
    assert sorted({header.base_offset for header in headers_of(log)}) == [0, 1, 2, 8]
