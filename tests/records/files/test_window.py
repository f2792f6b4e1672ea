"""A window over a stream: what it holds, and what makes it grow."""

import random

import pytest

from records import CorruptRecordsError, MemoryRecords
from records.files.source import TRUNCATED
from records.files.window import Stretch, Window
from records.kernel import UNKNOWN

DATA = random.Random(1).randbytes(10_000)


class Dripping:
    """A stream that has a few bytes at a time."""

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
    window = Window(Dripping(DATA), bytearray(100), 0)
    seen = b""
    while window.remaining:
        window.fill()
        used = held(window)[:60]
        seen += used
        window.start += len(used)
    assert seen == DATA
    assert len(window.buffer) == 100


def test_a_window_knows_its_position_in_the_stream() -> None:
    window = Window(Dripping(DATA), bytearray(100), 0)
    window.fill()
    window.start = 40
    window.fill()
    assert (window.base, window.start, window.filled) == (40, 0, 100)
    assert held(window) == DATA[40:140]


def test_a_window_grows_only_if_it_is_full_of_unused_bytes() -> None:
    window = Window(Dripping(DATA), bytearray(100), 0)
    sizes = []
    for _ in range(4):
        window.fill()
        sizes.append(len(window.buffer))
    assert sizes == [100, 200, 400, 800]
    assert held(window) == DATA[:800]


def test_the_end_is_known_once_it_has_been_seen() -> None:
    window = Window(Dripping(DATA[:50]), bytearray(100), 0)
    assert window.remaining == UNKNOWN
    assert not window.ended
    window.fill()
    assert window.remaining == 50
    assert window.ended
    window.start = 20
    window.fill()
    assert window.remaining == 30
    assert held(window) == DATA[20:50]


def test_a_window_holds_the_whole_stream_until_it_moves() -> None:
    window = Window(Dripping(DATA[:150]), bytearray(100), 0)
    window.fill()
    assert not window.holds_all
    window.start = 60
    window.fill()
    assert window.ended
    assert not window.holds_all
    window = Window(Dripping(DATA[:50]), bytearray(100), 0)
    window.fill()
    window.start = 50
    window.fill()
    assert window.holds_all


def test_without_a_stream_the_buffer_is_the_whole_content() -> None:
    window = Window(None, DATA, 0)
    assert (window.remaining, window.ended, window.holds_all) == (len(DATA), True, True)
    window.start = len(DATA)
    assert not window.has_more()


def test_a_window_has_more_until_the_stream_ends() -> None:
    window = Window(Dripping(DATA[:101]), bytearray(100), 0)
    sizes = []
    while window.has_more():
        sizes.append(window.filled)
        window.start = window.filled
    assert sizes == [100, 1]


def test_damage_is_reported_at_its_position_in_the_file() -> None:
    window = Window(Dripping(DATA), bytearray(100), 5000)
    window.fill()
    window.start = 40
    window.fill()
    assert window.damage("wrong", 3).position == 5043


def test_a_stretch_is_read_to_its_end_and_not_beyond() -> None:
    stretch = Stretch(MemoryRecords(DATA), 100, 250)
    target = memoryview(bytearray(100))
    assert [stretch.read_into(target) for _ in range(3)] == [100, 50, 0]
    assert target[:50] == DATA[200:250]


def test_a_stretch_missing_from_its_file_is_an_error_and_not_the_end() -> None:
    stretch = Stretch(MemoryRecords(DATA).slice(1000, 500), 400, 600)
    target = memoryview(bytearray(1000))
    assert stretch.read_into(target) == 100
    with pytest.raises(CorruptRecordsError, match=TRUNCATED) as caught:
        stretch.read_into(target)
    assert caught.value.position == 1500
