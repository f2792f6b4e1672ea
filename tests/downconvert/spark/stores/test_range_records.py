"""Ranges are read as from a file, a few blocks ahead and no more, and each block is asked for
once."""

import os
import random
import threading
from array import array
from pathlib import Path
from typing import Any
from weakref import ref

import pytest
import zstandard

from downconvert.spark.errors import SegmentChangedError
from downconvert.spark.stores import range_records
from downconvert.spark.stores.blobs import Blob
from downconvert.spark.stores.chunks import Chunks
from downconvert.spark.stores.range_records import AHEAD, Beginning, Blocks, Direct, RangeRecords
from downconvert.spark.stores.stores import ObjectReader
from downconvert.storage.errors import CorruptFileError
from records import CorruptRecordsError
from records.formats import BATCH_HEADER_SIZE
from tests.downconvert.storage.logs import batch

BLOCK = 100


@pytest.fixture
def blob(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Blob:
    monkeypatch.setattr(range_records, "BLOCK_SIZE", BLOCK)
    path = tmp_path / "log"
    path.write_bytes(b"before" + b"".join(batch(offset) for offset in range(50)))
    return Blob(str(path), path.stat().st_size - 6, 6)


def read(records: RangeRecords, position: int, size: int) -> bytes:
    target = bytearray(size)
    return bytes(target[: records.read_into(memoryview(target), position)])


def test_any_range_has_the_bytes_of_the_blob(blob: Blob) -> None:
    whole = Path(blob.path).read_bytes()[6:]
    generator = random.Random(3)
    blocks = Blocks(blob, blob.size)
    records = RangeRecords(blocks, 0, blob.size)
    look = RangeRecords(Direct(blocks), 0, blob.size)
    for _ in range(300):
        position, size = generator.randrange(blob.size + 10), generator.randrange(350)
        assert read(records, position, size) == whole[position : position + size]
        assert read(look, position, size) == whole[position : position + size]
    part = records.slice(70, 500).slice(10, 1000)
    assert (part.origin, part.size) == (80, 490)
    assert read(part, 480, 100) == whole[560:570]
    assert [header.base_offset for header in records.batches()] == list(range(50))
    with pytest.raises(ValueError, match="negative"):
        read(records, -1, 5)
    blocks.close()


def test_a_look_beyond_the_bytes_in_memory_is_whole(
    blob: Blob, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(range_records, "LOOK_SIZE", 40)
    whole = Path(blob.path).read_bytes()[6:]
    blocks = Blocks(blob, blob.size)
    look = RangeRecords(Direct(blocks), 0, blob.size)
    for position in (0, 10, 30, 39, 40, 41, 20, 100, 90):
        assert read(look, position, 25) == whole[position : position + 25]
    blocks.close()


def test_each_block_is_read_ahead_once_up_to_the_wanted_end(blob: Blob) -> None:
    blocks = Blocks(blob, 8 * BLOCK)
    asked: list[int] = []
    blocks_read: list[ref[array[int]]] = []
    whole, lock = blocks.reader.read, threading.Lock()

    def noted(position: int, size: int) -> bytes:
        data = array("B", whole(position, size))  # it says when it is not held any more
        with lock:
            asked.append(position // BLOCK)
            blocks_read.append(ref(data))
        return data  # type: ignore[return-value]

    blocks.reader.read = noted  # type: ignore[method-assign]
    records = RangeRecords(blocks, 0, blob.size)
    for position in range(0, 8 * BLOCK, 30):
        read(records, position, 30)
        assert sum(one() is not None for one in blocks_read) <= AHEAD + 2
    blocks.close()
    assert sorted(asked) == [*range(8), 8][: len(asked)]
    assert len(asked) <= 9


@pytest.mark.parametrize("until", [0, 10, BLOCK, BLOCK + 7])
def test_more_than_the_wanted_end_can_be_read(blob: Blob, until: int) -> None:
    """Only nothing of it is read ahead."""
    blocks = Blocks(blob, until)
    records = RangeRecords(blocks, 0, blob.size)
    parts = [read(records, position, 30) for position in range(0, blob.size, 30)]
    assert b"".join(parts) == Path(blob.path).read_bytes()[6:]
    blocks.close()


class Held(ObjectReader):
    """An object of a store, without the store."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.targets: list[Any] = []  # the buffers that were read into

    def read_into(self, target: memoryview, position: int) -> int:
        self.targets.append(target.obj)
        data = self._data[position : position + len(target)]
        target[: len(data)] = data
        return len(data)

    def close(self) -> None:
        pass


def test_the_next_segment_is_read_into_the_same_buffers(
    blob: Blob, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = Path(blob.path).read_bytes()[6:]
    objects = [Held(whole), Held(whole)]
    for one in objects:
        monkeypatch.setattr(Blob, "open", lambda _, one=one: one)
        blocks = Blocks(blob, blob.size)
        records = RangeRecords(blocks, 0, blob.size)
        parts = [read(records, position, 30) for position in range(0, blob.size, 30)]
        assert b"".join(parts) == whole
        blocks.close()
    first, second = ({id(buffer) for buffer in one.targets} for one in objects)
    assert second <= first
    assert 0 < len(first) <= AHEAD + 2


def test_a_log_that_was_cut_since_it_was_found_is_no_shorter_log(
    blob: Blob, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = Path(blob.path).read_bytes()[6:-1]
    for held in (None, Held(whole)):
        if held is None:
            Path(blob.path).write_bytes(b"before" + whole)
        else:
            monkeypatch.setattr(Blob, "open", lambda _, held=held: held)
        blocks = Blocks(blob, blob.size)
        records = RangeRecords(blocks, 0, blob.size)
        assert read(records, 0, BLOCK) == whole[:BLOCK]
        with pytest.raises(SegmentChangedError, match="log was cleaned or truncated"):
            read(records, blob.size - 10, 10)
        blocks.close()


@pytest.mark.parametrize("size", [None, -1, 0, 1])
@pytest.mark.parametrize("is_rolled", [False, True])
def test_only_a_log_that_does_not_grow_any_more_is_replaced_by_a_longer_object(
    blob: Blob, monkeypatch: pytest.MonkeyPatch, size: int | None, is_rolled: bool
) -> None:
    """The size of the object at a read, compared with its size when it was found; None: the store
    does not say it."""
    whole = Path(blob.path).read_bytes()[6:]
    held = Held(whole)
    held.size = None if size is None else blob.size + size
    monkeypatch.setattr(Blob, "open", lambda _: held)
    blocks = Blocks(blob, blob.size, is_rolled=is_rolled)
    try:
        if is_rolled and size:
            with pytest.raises(SegmentChangedError):
                read(RangeRecords(blocks, 0, blob.size), 0, 10)
        else:
            assert read(RangeRecords(blocks, 0, blob.size), 0, 10) == whole[:10]
    finally:
        blocks.close()


def test_a_batch_in_two_blocks_is_read_twice_by_one_request_for_each(blob: Blob) -> None:
    """First its header and its end, then all of it for its checksum."""
    blocks = Blocks(blob, blob.size)
    asked: list[int] = []
    whole, lock = blocks.reader.read, threading.Lock()

    def noted(position: int, size: int) -> bytes:
        with lock:
            asked.append(position // BLOCK)
        return whole(position, size)

    blocks.reader.read = noted  # type: ignore[method-assign]
    records = RangeRecords(blocks, 0, blob.size)
    for position in (2 * BLOCK, 3 * BLOCK + 5, 3 * BLOCK - 10):
        read(records, position, 10)
    blocks.close()
    assert (asked.count(2), asked.count(3)) == (1, 1)


def test_a_jump_reads_one_block_and_nothing_ahead(blob: Blob) -> None:
    blocks = Blocks(blob, blob.size)
    asked: list[int] = []
    whole = blocks.reader.read

    def noted(position: int, size: int) -> bytes:
        asked.append(position // BLOCK)
        return whole(position, size)

    blocks.reader.read = noted  # type: ignore[method-assign]
    read(RangeRecords(blocks, 0, blob.size), 12 * BLOCK, 10)
    blocks.close()
    assert asked == [12]


@pytest.mark.parametrize("position", [0, 7, 30, 45, 59])
def test_bytes_before_a_damaged_chunk_of_the_same_block_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, position: int
) -> None:
    """The first read fails because of that chunk. Then only the rest of a chunk is requested."""
    monkeypatch.setattr(range_records, "BLOCK_SIZE", BLOCK)
    monkeypatch.setattr(range_records, "BATCH_HEADER_SIZE", 1)
    data = bytes(range(90))
    stored = [zstandard.compress(data[at : at + 30]) for at in (0, 30, 60)]
    stored[2] = bytes(len(stored[2]))
    path = tmp_path / "log"
    path.write_bytes(b"".join(stored))
    chunks = Chunks(30, len(data), tuple(map(len, stored)), is_compressed=True, key=None)
    blocks = Blocks(Blob(str(path), len(data), chunks=chunks), len(data))
    try:
        records = RangeRecords(blocks, 0, len(data))
        assert read(records, position, 90) == data[position:60]
        with pytest.raises(CorruptRecordsError, match="chunk 2 is damaged"):
            read(records, 60, 1)
        # A header of more than these bytes leads into the damaged chunk.
        monkeypatch.setattr(range_records, "BATCH_HEADER_SIZE", 60 - position)
        assert read(records, position, 90) == data[position:60]
        monkeypatch.setattr(range_records, "BATCH_HEADER_SIZE", 60 - position + 1)
        with pytest.raises(CorruptRecordsError, match="chunk 2 is damaged"):
            read(records, position, 90)
    finally:
        blocks.close()


def test_the_beginning_of_a_damaged_log_is_read_up_to_a_header_that_is_cut(tmp_path: Path) -> None:
    """A whole read of fewer bytes than a header is no sign of damage."""
    path = tmp_path / "log"
    data = bytes(range(200))
    path.write_bytes(data)
    beginning = Beginning(os.open(path, os.O_RDONLY), CorruptFileError("ends too early", "a.gz"))
    records = RangeRecords(beginning, 0, beginning.size)
    assert read(records, 0, 5) == data[:5]
    assert read(records, 195, 5) == data[195:]
    assert read(records, 200 - BATCH_HEADER_SIZE, 300) == data[-BATCH_HEADER_SIZE:]
    with pytest.raises(CorruptRecordsError, match="ends too early"):
        read(records, 200 - BATCH_HEADER_SIZE + 1, 300)
    with pytest.raises(CorruptRecordsError, match="ends too early"):
        read(records, 196, 5)
    beginning.close()
