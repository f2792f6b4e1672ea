"""Records in memory: ranges of a buffer."""

import array

import pytest

from records import MemoryRecords

DATA = bytes(range(200))


@pytest.mark.parametrize("buffer", [DATA, bytearray(DATA), memoryview(DATA)])
def test_any_buffer_is_read_without_a_copy(buffer: bytes) -> None:
    target = bytearray(10)
    records = MemoryRecords(buffer)
    assert (records.size, records.origin, records.name) == (200, 0, "memory")
    assert records.read_into(memoryview(target), 50) == 10
    assert target == DATA[50:60]
    assert records.view.obj is (buffer.obj if isinstance(buffer, memoryview) else buffer)


def test_sizes_are_bytes_whatever_the_buffer_is_made_of() -> None:
    assert MemoryRecords(memoryview(array.array("i", [1, 2, 3]))).size == 12


def test_a_read_is_short_only_at_the_end() -> None:
    target = bytearray(10)
    records = MemoryRecords(DATA)
    assert records.read_into(memoryview(target), 197) == 3
    assert records.read_into(memoryview(target), 200) == 0
    assert records.read_into(memoryview(target), 300) == 0
    with pytest.raises(ValueError, match="negative position"):
        records.read_into(memoryview(target), -1)


def test_a_slice_of_a_slice_counts_from_the_slice_and_is_cut_off_at_its_end() -> None:
    part = MemoryRecords(DATA).slice(100, 50).slice(20, 1000)
    assert (part.size, part.origin) == (30, 120)
    assert bytes(part.view) == DATA[120:150]
    assert part.slice(30, 1).size == 0
    assert "30 bytes at 120" in repr(part)


@pytest.mark.parametrize("records", [MemoryRecords(DATA), MemoryRecords(DATA).slice(20, 80)])
def test_a_slice_outside_of_the_records_is_refused(records: MemoryRecords) -> None:
    for position, size in ((-1, 0), (-1, 5), (0, -1), (records.size + 1, 0)):
        with pytest.raises(ValueError, match="a slice "):
            records.slice(position, size)
