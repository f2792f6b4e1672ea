"""Numbers, strings, bytes and tagged fields of the records in the brokers' own topics.

The bytes are written here by hand, as Kafka's protocol guide defines them."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from downconvert.internal_topics.cursor import Cursor, UnreadableRecordError
from downconvert.internal_topics.primitives import (
    INT8,
    INT16,
    INT32,
    INT64,
    data_of,
    nullable,
    number,
    string,
    tags,
    text,
)

LONG = "ö" * 100  # 200 bytes: a compact length takes two of them


def cursor(*hexes: str) -> Cursor:
    """A cursor behind a byte that is not its own."""
    return Cursor(memoryview(b"\xee" + bytes.fromhex("".join(hexes))), 1)


@pytest.mark.parametrize(("kind", "size"), [(INT8, 1), (INT16, 2), (INT32, 4), (INT64, 8)])
def test_a_number_is_signed_and_big_endian(kind: struct.Struct, size: int) -> None:
    largest = 2 ** (8 * size - 1) - 1
    for value in (0, 1, -1, largest, -largest - 1):
        one = cursor(value.to_bytes(size, signed=True).hex(), "ff")
        assert (number(one, kind), one.remaining) == (value, 1)
    with pytest.raises(UnreadableRecordError, match=f"{size} bytes at 1: only {size - 1} are left"):
        number(cursor("00" * (size - 1)), kind)


@pytest.mark.parametrize(
    ("hexes", "compact", "value"),
    [
        ("ffff", False, None),
        ("8000", False, None),
        ("0000", False, ""),
        ("0001 61", False, "a"),
        (f"00c8 {LONG.encode().hex()}", False, LONG),
        ("00", True, None),
        ("01", True, ""),
        ("02 61", True, "a"),
        (f"c901 {LONG.encode().hex()}", True, LONG),
    ],
)
def test_a_string_may_be_null_or_empty(hexes: str, compact: bool, value: str | None) -> None:
    one = cursor(hexes, "ff")
    assert (nullable(one, compact=compact), one.remaining) == (value, 1)
    one = cursor(hexes, "ff")
    assert (text(one, compact=compact), one.remaining) == (value or "", 1)


@pytest.mark.parametrize(
    ("hexes", "compact", "value"),
    [
        ("ffffffff", False, b""),
        ("80000000", False, b""),
        ("00000000", False, b""),
        ("00000002 ff00", False, b"\xff\0"),
        (f"00000100 {'ee' * 256}", False, b"\xee" * 256),
        ("00", True, b""),
        ("01", True, b""),
        ("03 ff00", True, b"\xff\0"),
        (f"8102 {'ee' * 256}", True, b"\xee" * 256),
    ],
)
def test_bytes_may_be_null_or_empty(hexes: str, compact: bool, value: bytes) -> None:
    one = cursor(hexes, "ff")
    assert (data_of(one, compact=compact), one.remaining) == (value, 1)


@pytest.mark.parametrize("compact", [True, False])
def test_a_string_and_bytes_end_with_the_record(compact: bool) -> None:
    for read, length in ((nullable, "0003"), (text, "0003"), (data_of, "00000003")):
        with pytest.raises(UnreadableRecordError, match=r"3 bytes at \d: only 2 are left"):
            read(cursor("04" if compact else length, "6161"), compact=compact)


def test_tagged_fields_are_kept_as_they_are() -> None:
    one = cursor("00", "ff")
    assert (tags(one), one.remaining) == ({}, 1)
    one = cursor("03", "05 02 aabb", "00 00", f"c801 8101 {'cc' * 129}", "ff")
    assert tags(one) == {5: b"\xaa\xbb", 0: b"", 200: b"\xcc" * 129}
    assert one.remaining == 1


def test_the_last_of_two_tagged_fields_of_one_number_counts() -> None:
    assert tags(cursor("02", "05 01 aa", "05 01 bb")) == {5: b"\xbb"}


@pytest.mark.parametrize(
    "hexes", ["", "01", "01 05", "01 05 02 aa", "02 05 01 aa", "ffffffff0f 00 00"]
)
def test_tagged_fields_end_with_the_record(hexes: str) -> None:
    with pytest.raises(UnreadableRecordError, match="are left"):
        tags(cursor(hexes))


@given(st.none() | st.text(max_size=300))
def test_a_written_string_is_read_back(value: str | None) -> None:
    data = string(value)
    one = Cursor(memoryview(data))
    assert nullable(one) == value
    assert one.remaining == 0


def test_a_string_is_written_with_the_length_of_its_bytes() -> None:
    assert string(None) == bytes.fromhex("ffff")
    assert string("") == bytes.fromhex("0000")
    assert string("aö") == bytes.fromhex("0003 61 c3b6")
    assert len(string("x" * 32_767)) == 2 + 32_767
    with pytest.raises(struct.error):
        string("x" * 32_768)
