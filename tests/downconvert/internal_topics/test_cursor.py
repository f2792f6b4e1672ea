"""A position in untrusted bytes: it moves forward, and never past the end."""

from collections.abc import Callable
from typing import ClassVar

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from downconvert.internal_topics.cursor import VARINT_BITS, Cursor, UnreadableRecordError
from records import RecordsError

NUMBERS_MAX = (1 << VARINT_BITS) - 1


class OwnError(Exception):
    """The error of another reader."""


class OwnCursor(Cursor):
    """As that of requests."""

    error: ClassVar[type[Exception]] = OwnError


def cursor(data: bytes, position: int = 0) -> Cursor:
    return Cursor(memoryview(data), position)


def varint(value: int) -> bytes:
    found = bytearray()
    while value >= 0x80:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*found, value])


@given(st.binary(max_size=20), st.integers(0, 20), st.lists(st.integers(0, 8), max_size=8))
@example(b"abc", 1, [1, 1, 0, 1])  # to the end, and past it
@example(b"abc", 1, [3])
@example(b"", 0, [0, 1])
def test_bytes_are_taken_one_after_the_other_and_not_past_the_end(
    data: bytes, start: int, sizes: list[int]
) -> None:
    at = min(start, len(data))
    one = cursor(data, at)
    for size in sizes:
        left = len(data) - at
        assert (one.position, one.remaining) == (at, left)
        if size <= left:
            assert one.take(size) == at
            at += size
        else:
            with pytest.raises(
                UnreadableRecordError, match=f"^{size} bytes at {at}: only {left} are left$"
            ):
                one.take(size)


def test_a_length_that_is_huge_takes_nothing() -> None:
    one = cursor(b"abc", 1)
    with pytest.raises(UnreadableRecordError, match="bytes at 1: only 2 are left"):
        one.take(2**63)
    assert one.position == 1


def test_a_text_is_utf_8() -> None:
    data = "xäöy".encode()
    one = cursor(data, 1)
    assert (one.text(4), one.position) == ("äö", 5)
    with pytest.raises(
        UnreadableRecordError, match=r"^a name at 2 is not UTF-8: invalid start byte"
    ):
        cursor(data, 2).text(2, "a name")
    with pytest.raises(UnreadableRecordError, match=r"^a string at 4 is not UTF-8: "):
        cursor(data, 4).text(2)
    with pytest.raises(UnreadableRecordError, match="2 bytes at 5: only 1 are left"):
        cursor(data, 5).text(2)


@given(st.integers(0, NUMBERS_MAX), st.binary(max_size=3))
@example(0, b"\xff")
@example(127, b"\xff")
@example(128, b"")  # its first byte is 0x80
@example(1 << 14, b"")
@example(1 << 21, b"")
@example(1 << 28, b"\x01")
@example(1 << 31, b"")
@example(NUMBERS_MAX, b"\xff")
def test_a_number_of_up_to_32_bits_is_read(value: int, rest: bytes) -> None:
    data = b"\xff" + varint(value) + rest
    one = cursor(data, 1)
    assert one.uvarint() == value
    assert one.remaining == len(rest)


@pytest.mark.parametrize(
    ("data", "end"),
    [
        (varint(NUMBERS_MAX + 1), 5),
        (varint(2**35 - 1), 5),
        (varint(2**35), 5),
        (b"\x80" * 4 + b"\x80\x00", 5),  # zero, in too many bytes
        (b"\xff" * 20, 5),
    ],
)
def test_a_number_of_more_bits_is_an_error(data: bytes, end: int) -> None:
    with pytest.raises(UnreadableRecordError, match=f"more than 32 bits before {end + 1}$"):
        cursor(b"\0" + data, 1).uvarint()


@pytest.mark.parametrize("size", range(5))
def test_a_number_that_is_cut_off_is_an_error(size: int) -> None:
    with pytest.raises(UnreadableRecordError, match=f"1 bytes at {size}: only 0 are left"):
        cursor(b"\xff" * size).uvarint()


def test_every_error_is_of_the_cursors_own_type() -> None:
    reads: tuple[Callable[[Cursor], object], ...] = (
        lambda one: one.take(9),
        lambda one: one.text(2),
        lambda one: one.text(9),
        lambda one: one.uvarint(),
    )
    for read in reads:
        with pytest.raises(OwnError):
            read(OwnCursor(memoryview(b"\xff" * 6)))
        with pytest.raises(RecordsError):
            read(cursor(b"\xff" * 6))
