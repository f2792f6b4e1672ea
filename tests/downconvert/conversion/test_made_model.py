"""A response ends where a simple model says, for messages of any sizes."""

from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from downconvert.conversion.made import Made
from downconvert.conversion.stats import Counts
from records.formats import PREFIX

from .ways import RUNS_ONCE

pytestmark = RUNS_ONCE

SIZE_MAX = 60  # bytes of a message


@dataclass(frozen=True)
class Piece:
    data: bytes
    is_whole: bool  # whether its last message ends with it


def message(number: int, size: int) -> bytes:
    return PREFIX.pack(number, size - PREFIX.size).ljust(size, b"v")


@st.composite
def pieces(draw: st.DrawFn) -> list[Piece]:
    """Some messages at a time, or parts of one. The first part states the message's size."""
    made: list[Piece] = []
    for number in range(draw(st.integers(1, 8))):
        sizes = draw(st.lists(st.integers(PREFIX.size, SIZE_MAX), min_size=1, max_size=3))
        one = b"".join(message(number, size) for size in sizes)
        at = draw(st.integers(len(one) - sizes[-1] + PREFIX.size, len(one)))
        cut = draw(st.integers(at, len(one)))
        parts = [each for each in (one[:at], one[at:cut], one[cut:]) if each]
        made += [Piece(part, n == len(parts)) for n, part in enumerate(parts, 1)]
    return made


def ends_of(data: bytes) -> list[int]:
    ends, at = [], 0
    while at < len(data):
        at += PREFIX.size + PREFIX.unpack_from(data, at)[1]
        ends.append(at)
    return ends


@given(pieces=pieces(), enough=st.integers(1, 400), room=st.integers(1, 400))
def test_a_response_has_the_messages_up_to_the_first_that_makes_it_enough(
    pieces: list[Piece], enough: int, room: int
) -> None:
    """Those that do not fit in the room are left out, with all after them."""
    made, given = Made(enough, room), b""
    every = ends_of(b"".join(piece.data for piece in pieces))
    for piece in pieces:
        made.add(piece.data, is_whole=piece.is_whole)
        given += piece.data
        size = 0
        for end in every:
            if end <= min(len(given), room) and size < enough:
                size = end
        assert made.size == size
        assert made.is_all == (size == len(given))
        assert made.wanted == (0 if len(given) > room else enough - size)
    held = made.hold(Counts())
    assert (b"" if held is None else held.messages) == given[:size]
