"""Exactly the batches that convert to nothing are skipped."""

from random import Random
from typing import ClassVar

import pytest

from downconvert import ConversionPolicy, eager
from downconvert.conversion.skip import WINDOW_SIZE, skip
from records import Codec, MemoryRecords, Record, build, build_empty, build_marker
from records.batches.control import ControlRecordType
from tests.downconvert.promises.without_descriptor import WithoutDescriptor
from tests.downconvert.storage.logs import batch

POLICY = ConversionPolicy()


def marker(offset: int) -> bytes:
    return build_marker(ControlRecordType.COMMIT, offset=offset, timestamp=0, producer_id=1)


def naive(batches: list[bytes], first_offset: int) -> int:
    """How many at the beginning convert to nothing, each asked for itself."""
    for number, one in enumerate(batches):
        if eager(MemoryRecords(one), 1, first_offset, POLICY):
            return number
    return len(batches)


@pytest.mark.parametrize("seed", range(60))
def test_skipping_stops_before_the_first_batch_that_converts_to_something(seed: int) -> None:
    random = Random(seed)
    batches, offset = [], 0
    for _ in range(random.choice((1, 5, 60, 3000))):
        last = offset + random.choice((0, 0, 9))
        kind = random.randrange(6 if random.random() < 0.05 else 3)
        if kind == 0:
            batches.append(marker(offset))
            last = offset
        elif kind == 1:
            batches.append(build_empty(base_offset=offset, last_offset=last))
        else:
            size = random.choice((10, 10, 1000, 2 * WINDOW_SIZE if kind == 5 else 10))
            codec = random.choice((Codec.NONE, Codec.NONE, Codec.GZIP, Codec.LZ4))
            batches.append(batch(offset, last_offset=last, size=size, codec=codec))
        offset = last + 1
    first_offset = random.choice((0, offset // 2, offset))
    expected = naive(batches, first_offset)
    skipped = skip(MemoryRecords(b"".join(batches)), 1, first_offset, POLICY)
    assert skipped.size == sum(map(len, batches[:expected]))
    following = b"".join(batches[:expected])
    headers = list(MemoryRecords(following).batches())
    assert skipped.next_offset == (headers[-1].last_offset + 1 if headers else None)


class Counting(WithoutDescriptor):
    """Notes the bytes asked for by each read."""

    reads: ClassVar[list[int]] = []

    def read_into(self, target: memoryview, position: int) -> int:
        self.reads.append(len(target))
        return super().read_into(target, position)


def test_skipping_reads_large_windows_whatever_the_chunks_of_a_conversion_are() -> None:
    """Clients wait until millions of batches have been skipped."""
    data = MemoryRecords(marker(0) * 5_000)
    skipped = []
    for chunk_size in (128, 1024, ConversionPolicy().chunk_size):
        Counting.reads.clear()
        skipped.append(skip(Counting(data), 1, 0, ConversionPolicy(chunk_size=chunk_size)))
        large = [size for size in Counting.reads if size > WINDOW_SIZE // 2]
        assert len(Counting.reads) <= 2 * len(large) + 20
        assert len(large) <= data.size // WINDOW_SIZE + 2
    assert skipped == [(data.size, 1)] * 3


def test_torn_and_damaged_batches_are_not_skipped() -> None:
    data = marker(0) + marker(1)
    assert skip(MemoryRecords(data + marker(2)[:-1]), 1, 0, POLICY) == (len(data), 2)
    assert skip(MemoryRecords(data + bytes(100)), 1, 0, POLICY) == (len(data), 2)
    assert skip(MemoryRecords(b""), 1, 0, POLICY) == (0, None)


def test_refused_batches_are_not_skipped() -> None:
    data = marker(0)
    zstd = batch(1, codec=Codec.ZSTD)
    policy = ConversionPolicy(recode={"zstd": "refuse"})
    assert skip(MemoryRecords(data + zstd), 1, 0, policy) == (len(data), 1)


@pytest.mark.parametrize("kept", [0, 1, 90])
@pytest.mark.parametrize("size", [100, WINDOW_SIZE // 10, WINDOW_SIZE, 3 * WINDOW_SIZE])
def test_a_batch_is_converted_from_its_first_record_if_its_last_is_wanted(
    size: int, kept: int
) -> None:
    """Any number of records may come before that one, and a window may end anywhere in it."""
    count = max(3, min(100, 20 * WINDOW_SIZE // size))
    large = build([Record(n, 0, value=bytes(size)) for n in range(1, count)], magic=2)
    before, after = marker(0) * 900, marker(count)
    data = MemoryRecords(before + large + after)
    first_offset = count - min(kept, count - 1)
    found = skip(data, 1, first_offset, POLICY)
    assert found == ((len(before), 1) if kept else (data.size, count + 1))


@pytest.mark.parametrize("windows", [1, 2])
def test_the_offset_is_known_wherever_the_last_window_ends(windows: int) -> None:
    """The first batch that is kept may begin exactly where a window ends."""
    size = len(marker(0))
    about = windows * WINDOW_SIZE // size
    markers = b"".join(marker(n) for n in range(about + 3))
    for count in range(about - 3, about + 3):
        before = markers[: count * size]
        found = skip(MemoryRecords(before + batch(count)), 1, 0, POLICY)
        assert found == (len(before), count)
