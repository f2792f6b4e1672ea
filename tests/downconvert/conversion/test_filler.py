"""Filler, byte for byte as Kafka's LazyDownConversionRecordsSend makes it."""

import pytest

from downconvert.conversion.filler import FILLER_SIZE_MAX, filler

from .ways import RUNS_ONCE

pytestmark = RUNS_ONCE


def pieces(remaining):
    """All pieces of filler for so many bytes."""
    while remaining:
        piece = filler(remaining)
        yield piece
        remaining -= len(piece)


@pytest.mark.parametrize(
    ("remaining", "expected"),
    [
        (12, "ffffffffffffffff 0000003d"),
        (84, "ffffffffffffffff 00000055" + 72 * "00"),
        (92 + 12, "ffffffffffffffff 00000069" + 92 * "00"),
        (110, "ffffffffffffffff 0000006f" + 98 * "00"),
        (146, "ffffffffffffffff 00000093" + 134 * "00"),
        (5, "ffffffffff"),
        (1, "ff"),
    ],
)
def test_filler_is_an_entry_head_with_a_size_beyond_the_response(remaining, expected):
    assert b"".join(pieces(remaining)) == bytes.fromhex(expected)


def test_long_filler_is_several_pieces_each_with_its_own_head():
    made = list(pieces(400178))
    assert [piece[:12].hex() for piece in made] == [
        "ffffffffffffffff00061b33",
        "ffffffffffffffff00041b33",
        "ffffffffffffffff00021b33",
        "ffffffffffffffff00001b33",
    ]
    assert [len(piece) for piece in made] == [FILLER_SIZE_MAX] * 3 + [400178 - 3 * FILLER_SIZE_MAX]


@pytest.mark.parametrize("remaining", [1, 11, 12, 13, 60, 61, 131071, 131072, 131073, 2**31 - 1])
def test_filler_claims_more_than_is_left_and_is_never_longer_than_that(remaining):
    piece = filler(remaining)
    assert len(piece) == min(remaining, FILLER_SIZE_MAX)
    if len(piece) >= 12:
        assert int.from_bytes(piece[8:12]) + 12 > remaining
