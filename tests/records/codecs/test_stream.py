"""Windows of compressed bytes, whatever their sizes, and decoders made of pieces."""

import gc
import random
import weakref
from collections.abc import Iterator

import pytest

from records.codecs.stream import PieceDecoder, Windows, gather, whole
from records.errors import CorruptRecordsError

from .streams import between, of, pull_from

DATA = bytes(range(256)) * 20


def windows(size: int) -> Windows:
    return Windows(pull_from(DATA, of(size)), "any")


@pytest.mark.parametrize("size", [1, 2, 3, 7, 256, 10_000])
def test_items_are_the_same_whatever_the_windows(size: int) -> None:
    taken = windows(size)
    at = 0
    chance = random.Random(size)
    while at < len(DATA):
        assert taken.position == at
        length = min(chance.choice([0, 1, 2, 4, 19, 300]), len(DATA) - at)
        expected = DATA[at : at + length]
        match chance.randrange(5):
            case 0:
                assert taken.take(length) == expected
            case 1:
                assert taken.peek(length) == expected
                taken.use(length)
            case 2:
                taken.skip(length)
            case 3:
                assert taken.peek(length) == expected
                continue
            case 4:
                part = taken.some(max(length, 1))
                assert 0 < len(part) <= max(length, 1)
                assert part == DATA[at : at + len(part)]
                length = len(part)
        at += length
    assert not taken.peek(1)
    assert not taken.some(1)
    assert taken.position == len(DATA)


def test_bytes_used_can_be_given_back() -> None:
    taken = windows(100)
    taken.use(len(taken.peek(150)))
    taken.back(149)
    assert taken.position == 1
    assert taken.take(300) == DATA[1:301]


@pytest.mark.parametrize("size", [1, 3, 10_000])
def test_an_item_longer_than_the_stream_is_damage_at_its_end(size: int) -> None:
    for how in "take", "skip":
        taken = windows(size)
        taken.take(5000)
        with pytest.raises(CorruptRecordsError, match="any data ends too early, at byte 5120"):
            getattr(taken, how)(121)
    assert windows(size).peek(10**9) == DATA


def test_after_the_last_window_none_is_pulled() -> None:
    pulled = iter([b"ab", b""])
    taken = Windows(lambda: next(pulled), "any")
    assert taken.peek(5).tobytes() == b"ab"
    assert taken.take(2).tobytes() == b"ab"
    assert not taken.some(1)
    assert not taken.peek(1)


def test_complete_data_is_not_copied() -> None:
    data = bytearray(DATA)
    for part in whole(data, "any").peek(len(DATA) + 1), whole(data, "any").some(len(DATA)):
        assert part.obj is data


def pieces(damage: bool = False) -> Iterator[bytes]:
    yield b""
    yield DATA[:1000]
    yield b""
    yield DATA[1000:1001]
    yield DATA[1001:]
    if damage:
        raise CorruptRecordsError("broken", 7)


@pytest.mark.parametrize("sizes", [of(1), of(100), of(10_000), between(1, 2000, seed=1)])
def test_targets_are_filled_as_far_as_data_is_available(sizes: Iterator[int]) -> None:
    for damage in False, True:
        decoder = PieceDecoder(pieces(damage))
        given = b""
        while len(given) < len(DATA):
            target = memoryview(bytearray(next(sizes)))
            read = decoder.read_into(target)
            assert read == min(len(target), len(DATA) - len(given))
            given += target[:read]
        assert given == DATA
        target = memoryview(bytearray(1))
        for _ in range(2):
            if damage:
                with pytest.raises(CorruptRecordsError, match="broken"):
                    decoder.read_into(target)
            else:
                assert decoder.read_into(target) == 0


def test_an_empty_target_consumes_nothing() -> None:
    decoder = PieceDecoder(pieces())
    assert decoder.read_into(memoryview(bytearray())) == 0
    assert decoder.read_into(memoryview(bytearray(5))) == 5


class Memory:
    """Stands for the memory that a codec holds while it decodes."""


def test_memory_is_freed_immediately_after_damage() -> None:
    memory = Memory()

    def broken(_: Memory) -> Iterator[bytes]:
        yield DATA
        raise CorruptRecordsError("broken", 7)

    decoder = PieceDecoder(broken(memory))
    gone = weakref.ref(memory)
    del memory
    target = memoryview(bytearray(len(DATA) + 1))
    gc.disable()
    try:
        assert decoder.read_into(target) == len(DATA)
        with pytest.raises(CorruptRecordsError, match="broken, at byte 7"):
            decoder.read_into(target)
        assert gone() is None
    finally:
        gc.enable()


def test_pieces_are_gathered_up_to_the_limit() -> None:
    assert gather(pieces(), len(DATA)) == DATA
    assert gather(pieces(damage=True), len(DATA) - 1) is None
    with pytest.raises(CorruptRecordsError):
        gather(pieces(damage=True), len(DATA))
