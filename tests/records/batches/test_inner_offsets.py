"""Offsets inside compressed messages, including those of old producers."""

import pytest

from records import CorruptRecordsError
from records.batches.compressed import DecompressedWindow
from records.batches.inner_offsets import ROWS_MAX, OffsetScan, are_relative, offset_delta
from records.formats import PREFIX, V0, V1
from tests.records.examples import message

POSITION = 5000


class Whole:
    """A stream over bytes in memory."""

    def __init__(self, data: bytes) -> None:
        self._data = memoryview(data)

    def read_into(self, target: memoryview) -> int:
        piece = self._data[: len(target)]
        target[: len(piece)] = piece
        self._data = self._data[len(piece) :]
        return len(piece)


def window(*messages: bytes, size: int = 200) -> DecompressedWindow:
    return DecompressedWindow(Whole(b"".join(messages)), bytearray(size), POSITION)


def last_offset(*messages: bytes, size: int = 200) -> int | None:
    return OffsetScan().last_offset(window(*messages, size=size), lambda window: window.fill())


@pytest.mark.parametrize(
    ("magic", "offset", "last_inner", "delta"),
    [
        (V1, 102, 2, 100),
        (V1, 102, 102, 0),
        (V1, 0, 2, 0),  # an old librdkafka: 0, whatever is inside
        (V1, -5, -6, 1),
        (V0, 102, 2, 0),
        (V1, 2**63 - 1, -(2**63), -1),  # as 64-bit integers wrap
    ],
)
def test_the_number_added_to_inner_offsets(
    magic: int, offset: int, last_inner: int, delta: int
) -> None:
    assert are_relative(magic, offset) or delta == 0
    assert offset_delta(magic, offset, last_inner, POSITION) == delta


def test_a_message_cannot_be_at_a_lower_offset_than_its_last() -> None:
    with pytest.raises(CorruptRecordsError, match="at a lower offset than its last") as caught:
        offset_delta(V1, 5, 9, POSITION)
    assert caught.value.position == POSITION


@pytest.mark.parametrize("count", [1, 3, ROWS_MAX, ROWS_MAX + 1])
@pytest.mark.parametrize("size", [200, 100_000])
def test_the_last_offset_is_found_among_any_number_of_messages(count: int, size: int) -> None:
    messages = [message(V1, 2 * n, value=b"v" * 50) for n in range(count)]
    assert last_offset(*messages, size=size) == 2 * (count - 1)


def test_the_last_offset_is_that_of_the_last_message_even_if_offsets_decrease() -> None:
    assert last_offset(message(V1, 9), message(V1, 9), message(V0, 3)) == 3


def test_a_message_without_inner_messages_has_no_last_offset() -> None:
    assert last_offset() is None
    assert last_offset(b"\0" * 11) is None  # less than a prefix is ignored


@pytest.mark.parametrize("stray", range(PREFIX.size))
@pytest.mark.parametrize("extra", range(PREFIX.size + 1))
def test_bytes_after_the_last_message_change_nothing(stray: int, extra: int) -> None:
    """The window may end anywhere in them."""
    last = message(V1, 5)
    assert last_offset(message(V1, 4), last, bytes(stray), size=2 * len(last) + extra) == 5


def test_a_large_message_makes_the_window_grow_or_is_skipped() -> None:
    messages = message(V1, 0), message(V1, 1, value=bytes(1000)), message(V1, 2)
    assert last_offset(*messages) == 2
    assert last_offset(*messages[:2]) == 1

    def skip(window: DecompressedWindow) -> int | None:
        if not window.is_full:
            window.fill()
            return None
        offset: int
        offset, size = PREFIX.unpack_from(window.buffer, window.start)
        window.skip_to(window.base + window.start + PREFIX.size + size)
        return offset

    first = message(V1, 0, value=bytes(1000))  # relative offsets begin with 0
    for ones, last in (
        (messages, 2),
        (messages[:2], 1),
        ((first,), 0),
        ((messages[2], first), 0),
        ((first, messages[1]), 1),
    ):
        forward = window(*ones)
        assert OffsetScan().last_offset(forward, skip) == last
        assert len(forward.buffer) == 200


def test_damage_names_the_message_that_is_damaged() -> None:
    first = message(V1, 0)
    with pytest.raises(CorruptRecordsError, match="smaller than a message header") as caught:
        last_offset(first, PREFIX.pack(1, 3) + bytes(100))
    assert (caught.value.position, caught.value.inside) == (POSITION, len(first))


def test_one_scan_serves_several_messages_in_turn() -> None:
    scan = OffsetScan()
    found = [
        scan.last_offset(window(*(message(V1, n) for n in range(count))), lambda each: each.fill())
        for count in (3, 0, 1)
    ]
    assert found == [2, None, 0]
