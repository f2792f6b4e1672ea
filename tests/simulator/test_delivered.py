"""The records that a client reads from a response."""

import pytest

from downconvert import ConversionPolicy, eager
from downconvert.conversion.filler import filler
from records import Codec, CorruptRecordsError, MemoryRecords
from simulator.delivered import delivered

from .segments import batch, marker


@pytest.mark.parametrize("magic", [0, 1, 2])
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP, Codec.SNAPPY])
def test_records_are_counted_from_the_fetch_offset(magic: int, codec: Codec) -> None:
    data = batch(range(10), codec, magic) + batch(range(12, 15), codec, magic)
    assert delivered(data, 0) == (13, 14)
    assert delivered(data, 4) == (9, 14)
    assert delivered(data, 13) == (2, 14)
    assert delivered(data, 15) == (0, -1)


def test_markers_are_not_records() -> None:
    assert delivered(marker(3) + batch([4]) + marker(5), 0) == (1, 4)
    assert delivered(marker(3), 0) == (0, -1)


def test_a_cut_entry_or_filler_ends_the_response() -> None:
    data = eager(MemoryRecords(batch(range(10))), 1)
    assert delivered(data[:-1], 0) == (9, 8)
    assert delivered(data + filler(500), 0) == (10, 9)
    assert delivered(filler(12), 0) == (0, -1)
    assert delivered(b"", 0) == (0, -1)


def test_many_records_are_counted_in_several_steps() -> None:
    data = b"".join(batch(range(at, at + 500)) for at in range(0, 5000, 500))
    assert delivered(data, 100) == (4900, 4999)
    policy = ConversionPolicy(recode={})
    assert delivered(eager(MemoryRecords(data), 0, 100, policy), 100) == (4900, 4999)


def test_damage_is_reported() -> None:
    data = bytearray(batch(range(3)))
    data[61] = 0x7E
    with pytest.raises(CorruptRecordsError):
        delivered(data, 0)
