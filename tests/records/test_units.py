"""Sizes and times as text."""

import pytest

from records.units import (
    format_count,
    format_rate,
    format_seconds,
    format_size,
    parse_size,
    plain_size,
)


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("0", 0),
        ("1500", 1500),
        ("64KiB", 65536),
        ("64k", 65536),
        ("64 kb", 65536),
        ("1.5m", 1572864),
        ("2GiB", 2**31),
        (" 7b ", 7),
    ],
)
def test_a_size_is_read_as_people_write_it(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "KiB", "-1", "1e6", "12 apples", "0x10", "1TiB"])
def test_an_invalid_size_is_refused_with_an_explanation(text: str) -> None:
    with pytest.raises(ValueError, match="is not a size: write bytes, or a number with KiB"):
        parse_size(text)


@pytest.mark.parametrize("size", [0, 1, 1023, 1024, 1000000, 65536, 2**31 - 1, 3 * 2**30])
def test_a_plain_size_has_the_largest_unit_without_a_rest(size: int) -> None:
    unit = {0: "0", 1024: "1KiB", 65536: "64KiB", 3 * 2**30: "3GiB"}.get(size, str(size))
    assert plain_size(size) == unit


@pytest.mark.parametrize("size", [0, 1, 1023, 1024, 1000000, 65536, 2**31 - 1, 3 * 2**30])
def test_a_plain_size_is_read_back_as_it_was(size: int) -> None:
    assert parse_size(plain_size(size)) == size


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1 KiB"),
        (1536, "1.5 KiB"),
        (16384, "16 KiB"),
        (1023 * 1024, "1 MiB"),
        (1048575, "1 MiB"),
        (1268776, "1.21 MiB"),
        (44_500_000, "42.4 MiB"),
        (400 * 2**20, "400 MiB"),
        (2**30, "1 GiB"),
    ],
)
def test_a_size_has_three_digits_and_a_unit(size: int, text: str) -> None:
    assert format_size(size) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        *((0, "0.00 ms"), (0.00035, "0.35 ms"), (-0.00035, "-0.35 ms"), (0.001, "1 ms")),
        *((0.0121, "12.1 ms"), (0.5, "500 ms"), (0.9995, "1 s"), (1.234, "1.23 s"), (75, "75 s")),
    ],
)
def test_a_time_has_a_unit_that_suits_it(seconds: float, text: str) -> None:
    assert format_seconds(seconds) == text


@pytest.mark.parametrize(
    ("rate", "text"),
    [
        (12, "12"),
        (999, "999"),
        (1000, "1 k"),
        (1500, "1.5 k"),
        (850_000, "850 k"),
        (4_210_000, "4.21 M"),
    ],
)
def test_a_rate_has_a_prefix(rate: float, text: str) -> None:
    assert format_rate(rate) == text


def test_a_number_below_the_next_unit_is_not_rounded_to_a_thousand_of_its_own() -> None:
    for share in 0.9, 0.9994, 0.99949, 0.9995, 0.99951, 0.9997, 0.99999, 1, 1.0004:
        for unit in 2**20, 2**30:
            assert float(format_size(share * unit * 1000 / 1024).split()[0]) < 1000
        assert float(format_seconds(share).split()[0]) < 1000
        for unit in 10**3, 10**6, 10**9:
            assert float(format_rate(share * unit).split()[0]) < 1000


def test_a_size_is_at_most_that_of_a_file() -> None:
    assert parse_size("8589934591GiB") == (2**33 - 1) * 2**30
    with pytest.raises(ValueError, match="larger than any file can be"):
        parse_size("8589934592GiB")


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 logs"), (1, "1 log"), (2, "2 logs"), (1200, "1,200 logs")]
)
def test_a_count_is_of_one_or_of_several(count: int, text: str) -> None:
    assert format_count(count, "log") == text
