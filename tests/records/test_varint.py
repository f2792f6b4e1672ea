"""Varints, by Kafka's own examples (ByteUtilsTest) and by rules."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from records.varint import (
    VarintCutError,
    VarintTooLongError,
    read_varint,
    read_varlong,
    uvarint,
    varint,
    varlong,
)

Read = Callable[[bytes, int, int], tuple[int, int]]

VARINTS = {
    0: "00",
    -1: "01",
    1: "02",
    63: "7e",
    -64: "7f",
    64: "8001",
    -65: "8101",
    8191: "fe7f",
    -8192: "ff7f",
    8192: "808001",
    -8193: "818001",
    1048575: "feff7f",
    -1048576: "ffff7f",
    1048576: "80808001",
    -1048577: "81808001",
    134217727: "feffff7f",
    -134217728: "ffffff7f",
    134217728: "8080808001",
    -134217729: "8180808001",
    2**31 - 1: "feffffff0f",
    -(2**31): "ffffffff0f",
}
VARLONGS = {
    17179869183: "feffffff7f",
    -17179869184: "ffffffff7f",
    17179869184: "808080808001",
    -17179869185: "818080808001",
    2199023255551: "feffffffff7f",
    2199023255552: "80808080808001",
    281474976710655: "feffffffffff7f",
    281474976710656: "8080808080808001",
    36028797018963967: "feffffffffffff7f",
    36028797018963968: "808080808080808001",
    4611686018427387903: "feffffffffffffff7f",
    4611686018427387904: "80808080808080808001",
    2**63 - 1: "feffffffffffffffff01",
    -(2**63): "ffffffffffffffffff01",
}
UVARINTS = {
    0: "00",
    1: "01",
    63: "3f",
    64: "40",
    8191: "ff3f",
    8192: "8040",
    1048575: "ffff3f",
    1048576: "808040",
    2**31 - 1: "ffffffff07",
    -(2**31): "8080808008",
    -1: "ffffffff0f",
    -64: "c0ffffff0f",
    -8192: "80c0ffff0f",
    -8193: "ffbfffff0f",
}
EACH_READ = pytest.mark.parametrize(("read", "size_max"), [(read_varint, 5), (read_varlong, 10)])


@pytest.mark.parametrize(("number", "encoded"), (VARINTS | VARLONGS).items())
def test_varints_and_varlongs_are_kafkas(number: int, encoded: str) -> None:
    data = bytes.fromhex(encoded)
    if number in VARINTS:
        assert varint(number) == data
        assert read_varint(data, 0, len(data)) == (number, len(data))
    assert varlong(number) == data
    assert read_varlong(data, 0, len(data)) == (number, len(data))


@pytest.mark.parametrize(("number", "encoded"), UVARINTS.items())
def test_unsigned_varints_are_kafkas(number: int, encoded: str) -> None:
    data = bytes.fromhex(encoded)
    assert uvarint(number) == data


@EACH_READ
def test_a_number_that_continues_is_too_long(read: Read, size_max: int) -> None:
    with pytest.raises(VarintTooLongError):
        read(b"\xff" * size_max + b"\x01", 0, size_max + 1)


@EACH_READ
def test_a_number_is_too_long_whether_or_not_more_bytes_follow(read: Read, size_max: int) -> None:
    with pytest.raises(VarintTooLongError):
        read(b"\xff" * size_max, 0, size_max)


@EACH_READ
def test_a_number_that_runs_past_the_end_is_cut(read: Read, size_max: int) -> None:
    for size in range(size_max):
        with pytest.raises(VarintCutError):
            read(b"\xff" * size + b"\x01", 0, size)


def test_excess_bits_of_the_last_byte_are_dropped() -> None:
    assert read_varint(bytes.fromhex("ffffffff7f"), 0, 5) == (-(2**31), 5)
    assert read_varlong(bytes.fromhex("ffffffffffffffffff7f"), 0, 10) == (-(2**63), 10)


def test_longer_encodings_than_needed_are_read() -> None:
    assert read_varint(bytes.fromhex("8200"), 0, 2) == (1, 2)
    assert read_varlong(bytes.fromhex("8280808000"), 0, 5) == (1, 5)


@pytest.mark.parametrize(
    ("encode", "number"),
    [
        *((varint, 2**31), (varint, -(2**31) - 1), (varlong, 2**63), (varlong, -(2**63) - 1)),
        *((uvarint, 2**32), (uvarint, -(2**31) - 1)),
    ],
)
def test_a_number_of_too_many_bits_is_not_written(
    encode: Callable[[int], bytes], number: int
) -> None:
    with pytest.raises(ValueError, match=f"{64 if encode is varlong else 32}-bit number"):
        encode(number)


@given(st.integers(-(2**63), 2**63 - 1), st.binary(max_size=3), st.binary(max_size=3))
def test_written_numbers_are_read_back(number: int, before: bytes, behind: bytes) -> None:
    encoded = varlong(number)
    data = before + encoded + behind
    end = len(before) + len(encoded)
    assert read_varlong(data, len(before), len(data)) == (number, end)
