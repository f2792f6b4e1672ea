"""Directories of this machine, also beside logs that are not: as they are now, damaged or not."""

import gzip
import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from downconvert.spark.errors import CorruptSegmentError, DataLossError
from downconvert.spark.logs import trees
from downconvert.spark.logs.checkpoints import Checkpoints
from downconvert.spark.logs.segment_files import PartitionLog
from downconvert.spark.logs.trees import read_partition
from downconvert.storage.names import Kind, TopicPartition, file_name
from downconvert.storage.segments.segment import Segment
from records import FileRecords
from tests.downconvert.spark.log_places import in_chunks
from tests.downconvert.spark.reading import delete_when_seen, packed, partition
from tests.downconvert.storage.logs import batch, indexed_segment

from .test_follow import Limit, at, read, stream


@pytest.mark.parametrize("is_alone", [False, True])
def test_mounted_logs_may_change_and_keep_their_size(tmp_path: Path, is_alone: bool) -> None:
    """Beside logs that are not: preallocated, or truncated and rewritten."""
    partition(tmp_path / "other", batch(0), "z-0")
    tar = packed(tmp_path / "other")
    first, second = batch(0, 1, leader_epoch=0), batch(2, 3, leader_epoch=0)
    log = partition(tmp_path / "logs", first + bytes(4096), "a-0") / file_name(0, Kind.LOG)
    status = log.stat()
    paths = [str(tmp_path / "logs"), *([] if is_alone else [str(tar)])]

    def rewrite(data: bytes) -> None:
        log.write_bytes(data.ljust(status.st_size, b"\0"))
        os.utime(log, ns=(status.st_atime_ns, status.st_mtime_ns))  # within a tick of the clock

    source = stream(json.dumps(paths), topics="a", startingOffsets="latest")
    start = source.initialOffset()
    assert start == at(2, 0)
    rewrite(first + second)
    end = source.latestOffset(start)
    assert end == at(4, 0)
    assert read(source, start, end) == ["a-0:2", "a-0:3"]
    rewrite(first + batch(2, 3, leader_epoch=3))
    with pytest.raises(DataLossError, match="a-0 was truncated at 2 after it was read up to 4"):
        source.latestOffset(end)


def test_a_log_is_read_from_the_last_known_batch_on_as_long_as_it_has_that(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    batches = [batch(offset, size=3000, leader_epoch=0) for offset in range(8)]
    (tmp_path / "a-0").mkdir()
    indexed_segment(tmp_path / "a-0", 0, *batches[:4], interval=0)
    searched: list[int] = []

    def search(segment: Segment, offset: int, end: int) -> FileRecords:
        searched.append(end)
        return slice_from(segment, offset, end)

    slice_from = Segment.slice_from
    monkeypatch.setattr(Segment, "slice_from", search)
    source = stream(tmp_path)
    for count in (4, 4, 6, 8):
        partition(tmp_path, b"".join(batches[:count]), "a-0")
        assert source.latestOffset({"a": {"0": 0}}) == at(count, 0)
    assert len(searched) == 1
    partition(tmp_path, b"".join((*batches[:7], batch(7, size=3000, leader_epoch=1))), "a-0")
    assert source.latestOffset({"a": {"0": 0}}) == at(8, 1)
    for count in (7, 5):  # truncated
        partition(tmp_path, b"".join(batches[:count]), "a-0")
        assert source.latestOffset({"a": {"0": 0}}) == at(count, 0)
    assert len(searched) == 4


@pytest.mark.parametrize("kind", ["tar", "gzipped"])
def test_packed_logs_in_a_directory_are_followed(tmp_path: Path, kind: str) -> None:
    """The same holds if they come later, while the logs beside them grow."""
    partition(tmp_path / "logs", batch(0, 1), "a-0")
    source = stream(tmp_path / "logs")
    start = source.initialOffset()
    end = source.latestOffset(start)
    assert end == {"a": {"0": 2}}
    other = partition(tmp_path / "other", batch(0, 3), "b-1")
    if kind == "tar":
        packed(tmp_path / "other").rename(tmp_path / "logs" / "backup.tar")
    else:
        log = other / file_name(0, Kind.LOG)
        target = tmp_path / "logs" / "b-1" / f"{log.name}.gz"
        target.parent.mkdir()
        target.write_bytes(gzip.compress(log.read_bytes()))
    partition(tmp_path / "logs", batch(0, 1) + batch(2), "a-0")
    assert source.latestOffset(end) == {"a": {"0": 3}, "b": {"1": 4}}
    assert read(source, end, source.latestOffset(end)) == ["a-0:2", "b-1:0", "b-1:3"]
    source.stop()


def in_batches(source: Any, max_bytes: int, count: int) -> tuple[Any, list[str]]:
    """Where a stream is after at most so many micro-batches, and what it has read."""
    place, found = source.initialOffset(), list[str]()
    for _ in range(count):
        after = source.latestOffset(place, Limit(max_bytes=max_bytes))
        if after == place:
            break
        found += read(source, place, after)
        place = after
    return place, found


@pytest.mark.parametrize("is_gzipped", [False, True])
def test_a_log_that_goes_back_holds_nothing_up(tmp_path: Path, is_gzipped: bool) -> None:
    data = batch(10, 11, size=400) + batch(0, 1, size=400) + batch(12, 13, size=400)
    path = partition(tmp_path / "logs", data, "a-0") / file_name(0, Kind.LOG)
    if is_gzipped:
        path.with_name(f"{path.name}.gz").write_bytes(gzip.compress(data))
        path.unlink()
    logs = packed(tmp_path / "logs") if is_gzipped else tmp_path / "logs"
    source = stream(logs, verifyCrc="false")
    place, found = in_batches(source, max_bytes=500, count=20)
    assert place == {"a": {"0": 14}}
    assert sorted(set(found)) == sorted(f"a-0:{offset}" for offset in (0, 1, 10, 11, 12, 13))


@pytest.mark.parametrize("is_indexed", [False, True])
@pytest.mark.parametrize("is_gzipped", [False, True])
def test_damage_does_not_hold_up_a_stream_with_a_limit(
    tmp_path: Path, is_indexed: bool, is_gzipped: bool
) -> None:
    batches = [batch(2 * i, 2 * i + 1, size=300) for i in range(30)]
    (tmp_path / "a-0").mkdir()
    indexed_segment(tmp_path / "a-0", 0, *batches, interval=4096)
    partition(tmp_path, batch(60, 61), "a-0", 60)
    log = tmp_path / "a-0" / file_name(0, Kind.LOG)
    data = bytearray(log.read_bytes())
    damage = 7 * len(batches[0])
    data[damage + 8 : damage + 12] = b"\xff\xff\xff\xf0"
    log.write_bytes(data)
    if not is_indexed:
        for index in (tmp_path / "a-0").glob("*index"):
            index.unlink()
    if is_gzipped:
        log.with_name(f"{log.name}.gz").write_bytes(gzip.compress(data))
        log.unlink()
    path = packed(tmp_path / "a-0") if is_gzipped else tmp_path / "a-0"
    source = stream(path, mode="DROPMALFORMED", gapTimeoutMs=0)
    place, found = in_batches(source, max_bytes=700, count=40)
    assert place == {"a": {"0": 62}}
    assert len(set(found)) == len(found)
    assert {f"a-0:{offset}" for offset in (*range(14), 60, 61)} <= set(found)
    assert ("a-0:59" in found) == (is_indexed and not is_gzipped)
    failing = stream(path)
    with pytest.raises(CorruptSegmentError, match="mode=PERMISSIVE"):
        read(failing, {"a": {"0": 12}}, {"a": {"0": 60}})


@pytest.mark.parametrize("is_last", [True, False])
def test_a_transaction_behind_damage_stays_open(tmp_path: Path, is_last: bool) -> None:
    """The index leads to its first batch, and no header does."""
    open_ = batch(4, producer_id=7, producer_epoch=0, base_sequence=0, transactional=True)
    batches = [batch(0, 1), batch(2, 3), open_, batch(5), batch(6)]
    indexed_segment(tmp_path / "a-0", 0, *batches, interval=1)
    if not is_last:
        indexed_segment(tmp_path / "a-0", 7, batch(7, 8))
    log = tmp_path / "a-0" / file_name(0, Kind.LOG)
    data = bytearray(log.read_bytes())
    data[len(batches[0]) : len(batches[0]) + 61] = bytes(61)
    log.write_bytes(data)
    source = stream(tmp_path, isolation="read_committed", failOnDataLoss=False)
    assert source.latestOffset(source.initialOffset()) == {"a": {"0": 4}}
    source = stream(tmp_path, isolation="read_uncommitted", failOnDataLoss=False)
    assert source.latestOffset(source.initialOffset()) == {"a": {"0": 7 if is_last else 9}}


def test_a_transaction_behind_damage_that_comes_later_stays_open(tmp_path: Path) -> None:
    """The log was sound when the stream opened it."""
    open_ = batch(5, producer_id=7, producer_epoch=0, base_sequence=0, transactional=True)
    batches = [batch(0, 1), batch(2, 3), batch(4), open_, batch(6)]
    (tmp_path / "a-0").mkdir()
    indexed_segment(tmp_path / "a-0", 0, *batches[:2], interval=1)
    source = stream(tmp_path, isolation="read_committed", failOnDataLoss=False, gapTimeoutMs=0)
    start = source.initialOffset()
    assert source.latestOffset(start) == {"a": {"0": 4}}
    (tmp_path / "new").mkdir()
    indexed_segment(tmp_path / "new", 0, *batches, interval=1)
    indexed_segment(tmp_path / "new", 7, batch(7, 8))
    log = tmp_path / "new" / file_name(0, Kind.LOG)
    data = bytearray(log.read_bytes())
    position = len(batches[0]) + len(batches[1])
    data[position : position + 61] = bytes(61)
    log.write_bytes(data)
    for file in sorted((tmp_path / "new").iterdir()):
        (tmp_path / "a-0" / file.name).write_bytes(file.read_bytes())
    assert source.latestOffset(start) == {"a": {"0": 5}}


def test_a_partition_that_is_deleted_while_it_is_listed_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a-0", "b-0"):
        partition(tmp_path, batch(0, 1), name)

    def read(name: TopicPartition, directory: str, starts: Checkpoints) -> PartitionLog:
        if name.topic == "a":
            shutil.rmtree(directory)
        return read_partition(name, directory, starts)

    monkeypatch.setattr(trees, "read_partition", read)
    source = stream(tmp_path)
    assert source.latestOffset({"b": {"0": 0}}) == {"b": {"0": 2}}


def test_a_partition_that_is_deleted_during_the_search_does_not_end_the_stream(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kafka first renames its directory: the search has seen that name, and looks at it next."""
    for name in ("a-0", "b-0"):
        partition(tmp_path, batch(0, 1), name)
    source = stream(tmp_path)
    delete_when_seen(tmp_path / "a-0", monkeypatch)
    assert source.latestOffset({"b": {"0": 0}}) == {"b": {"0": 2}}
    monkeypatch.undo()
    shutil.rmtree(tmp_path)
    with pytest.raises(NotADirectoryError):
        source.latestOffset({"b": {"0": 0}})


def test_damage_at_a_segments_beginning_is_passed_by_a_stream_with_a_limit(tmp_path: Path) -> None:
    partition(tmp_path, batch(0, 1), "a-0")
    partition(tmp_path, bytes(61) + batch(2, 3), "a-0", 2)
    partition(tmp_path, batch(4, 5), "a-0", 4)
    source = stream(tmp_path, gapTimeoutMs=0)
    limit: Any = Limit(max_bytes=1)
    places = [{"a": {"0": 0}}]
    for _ in range(4):
        places.append(source.latestOffset(places[-1], limit))
    assert [place["a"]["0"] for place in places] == [0, 2, 4, 6, 6]


def test_a_brokers_own_directory_stays_if_its_partition_is_gone(tmp_path: Path) -> None:
    """Only copies of checkpoints are removed with the last partition that needs them."""
    in_chunks(tmp_path)
    source = stream(tmp_path)
    assert source.latestOffset(source.initialOffset())["a"]["0"]["offset"] == 32
    shutil.rmtree(tmp_path / "broker" / "a-0")
    (tmp_path / "broker" / "meta.properties").write_text("version=1\ncluster.id=one\n")
    source.latestOffset(source.initialOffset())
    assert (tmp_path / "broker" / "meta.properties").exists()
