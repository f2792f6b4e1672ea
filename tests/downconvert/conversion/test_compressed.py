"""Compressed entries of a log: all ways to convert them give the same result."""

import pytest

from downconvert import ConversionPolicy, convert
from records import CorruptRecordsError, MemoryRecords, read
from records.formats import V1
from tests.records.examples import message, wrapper


@pytest.mark.parametrize("target_codec", ["none", "snappy"])
@pytest.mark.parametrize("to_magic", [0, 1])
@pytest.mark.parametrize("size", [5, 400_000])
def test_messages_before_a_damaged_one_inside_come_first_however_large_they_are(
    size: int, to_magic: int, target_codec: str
) -> None:
    inner = [message(V1, offset, value=bytes(size)) for offset in (0, 1, 1, 3)]
    conversion = convert(
        MemoryRecords(wrapper(V1, 13, b"".join(inner))),
        to_magic,
        policy=ConversionPolicy(recode={"gzip": target_codec}),
    )
    made: list[bytes] = []
    with pytest.raises(CorruptRecordsError, match="offset does not increase") as caught:
        made.extend(conversion)
    assert caught.value.inside == len(inner[0]) + len(inner[1])
    assert [record.offset for record in read(MemoryRecords(b"".join(made)))] == [10, 11]
