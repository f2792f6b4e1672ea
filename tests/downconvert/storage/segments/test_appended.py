"""Only valid batches above the log's end may be appended."""

import pytest

from downconvert.storage.segments.appended import check_appended, first_offset
from records import CorruptRecordsError, MemoryRecords
from records.formats import V0, V1, Codec
from tests.downconvert.storage.logs import batch


def test_valid_batches_of_any_format_may_be_appended() -> None:
    data = batch(5, 9) + batch(10, magic=V0) + batch(11, 12, magic=V1, codec=Codec.LZ4)
    headers, following = check_appended(data, 5)
    assert [header.last_offset for header in headers] == [9, 10, 12]
    assert following == 13
    assert check_appended(b"", 5) == ([], 5)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (batch(4), "below the end"),
        (batch(7) + batch(6), "below the end"),
        (batch(7, last_offset=6), "below the end"),
        (batch(7)[:-1], "bytes left"),
        (batch(7) + b"\0\0", "bytes left"),
    ],
)
def test_invalid_batches_may_not_be_appended(data: bytes, reason: str) -> None:
    with pytest.raises(CorruptRecordsError, match=reason):
        check_appended(data, 5)
    headers = list(MemoryRecords(data).batches())  # known headers change nothing about that
    with pytest.raises(CorruptRecordsError, match=reason):
        check_appended(data, 5, headers)


def test_a_checksum_is_compared_unless_it_has_been() -> None:
    data = bytearray(batch(5, 9))
    data[-1] ^= 1
    headers = list(MemoryRecords(data).batches())
    with pytest.raises(CorruptRecordsError, match="checksum"):
        check_appended(data, 5)
    assert check_appended(data, 5, headers) == (headers, 10)


@pytest.mark.parametrize(
    ("data", "first"),
    [
        (batch(7, 9), 7),
        (batch(7, magic=V1), 7),
        (batch(7, 9, magic=V1, codec=Codec.GZIP), 5),
        (batch(2**40, magic=V0, codec=Codec.GZIP), 2**40 - 2**31 + 1),
    ],
)
def test_the_base_offset_of_a_new_segment_fits_its_first_batch(data: bytes, first: int) -> None:
    assert first_offset(list(MemoryRecords(data).batches()), 5) == first
