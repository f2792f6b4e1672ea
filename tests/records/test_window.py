"""A window over a stream: what it holds, and what makes it grow."""

import random

import pytest

from records import CorruptRecordsError, MemoryRecords
from records.kernel import UNKNOWN
from records.source import TRUNCATED
from records.window import Stretch, Window

DATA = random.Random(1).randbytes(10_000)


class Dripping:
    """A stream that gives a few bytes at a time."""

    def __init__(self, data: bytes) -> None:
        self._data = memoryview(data)

    def read_into(self, target: memoryview) -> int:
        piece = self._data[: min(7, len(target))]
        target[: len(piece)] = piece
        self._data = self._data[len(piece) :]
        return len(piece)


def held(window: Window) -> bytes:
    return bytes(window.view[window.start : window.filled])


def test_using_bytes_up_makes_room_for_the_next_in_the_same_buffer() -> None:
    window = Window(Dripping(DATA), bytearray(100))
    seen = b""
    while window.remaining:
        window.fill()
        used = held(window)[:60]
        seen += used
        window.start += len(used)
    assert seen == DATA
    assert len(window.buffer) == 100


def test_it_knows_where_in_the_stream_it_is() -> None:
    window = Window(Dripping(DATA), bytearray(100))
    window.fill()
    window.start = 40
    window.fill()
    assert (window.base, window.start, window.filled) == (40, 0, 100)
    assert held(window) == DATA[40:140]


def test_it_grows_only_when_it_is_full_and_none_of_it_is_used_up() -> None:
    window = Window(Dripping(DATA), bytearray(100))
    sizes = []
    for _ in range(4):
        window.fill()
        sizes.append(len(window.buffer))
    assert sizes == [100, 200, 400, 800]
    assert held(window) == DATA[:800]


def test_the_end_is_known_once_it_has_been_seen() -> None:
    window = Window(Dripping(DATA[:50]), bytearray(100))
    assert window.remaining == UNKNOWN
    window.fill()
    assert window.remaining == 50
    assert window.holds_all
    window.start = 20
    window.fill()
    assert window.remaining == 30
    assert not window.holds_all


def test_a_stretch_is_read_to_its_end_and_not_beyond() -> None:
    stretch = Stretch(MemoryRecords(DATA), 100, 250)
    target = memoryview(bytearray(100))
    assert [stretch.read_into(target) for _ in range(3)] == [100, 50, 0]
    assert target[:50] == DATA[200:250]


def test_a_stretch_that_its_file_no_longer_has_is_an_error_and_no_end() -> None:
    stretch = Stretch(MemoryRecords(DATA).slice(1000, 500), 400, 600)
    target = memoryview(bytearray(1000))
    assert stretch.read_into(target) == 100
    with pytest.raises(CorruptRecordsError, match=TRUNCATED) as caught:
        stretch.read_into(target)
    assert caught.value.position == 1500
