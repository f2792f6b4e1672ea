"""Decompressing a snappy block in steps: every kind of element and of false claim, compared with
the library."""

import cramjam
import pytest
from hypothesis import given
from hypothesis import strategies as st

from records.codecs import snappy_steps
from records.codecs.snappy_steps import ALL, block_in_steps
from records.codecs.stream import Windows, gather
from records.errors import CorruptRecordsError

from .streams import between, noise, of, pull_from, text


def steps(block: bytes, size: int = ALL, windows: int = 16384) -> bytes:
    pulled = Windows(pull_from(block, of(windows)), "snappy")
    content = gather(block_in_steps(pulled, size, 0), 2**40)
    assert content is not None
    return content


def library(block: bytes) -> bytes | None:
    try:
        return bytes(cramjam.snappy.decompress_raw(block))
    except cramjam.DecompressionError:
        return None


def literal(data: bytes, size_bytes: int = 0) -> bytes:
    """A literal whose size is in so many bytes after the tag, or in the tag."""
    size = len(data) - 1
    if not size_bytes:
        return bytes([size << 2]) + data
    return bytes([59 + size_bytes << 2]) + size.to_bytes(size_bytes, "little") + data


def copy(length: int, offset: int, offset_bytes: int) -> bytes:
    if offset_bytes == 1:
        return bytes([offset >> 8 << 5 | length - 4 << 2 | 1, offset & 0xFF])
    kind = 2 if offset_bytes == 2 else 3
    return bytes([length - 1 << 2 | kind]) + offset.to_bytes(offset_bytes, "little")


@pytest.mark.parametrize("size_bytes", [0, 1, 2, 3, 4])
@pytest.mark.parametrize("size", [5, 60])
def test_each_form_of_a_literal(size_bytes: int, size: int) -> None:
    block = bytes([size]) + literal(noise(size), size_bytes)
    assert steps(block) == library(block) == noise(size)


@pytest.mark.parametrize("offset_bytes", [1, 2, 4])
@pytest.mark.parametrize("offset", [1, 2, 3, 10, 50])
@pytest.mark.parametrize("length", [4, 11])
def test_each_form_of_a_copy_including_overlapping_ones(
    offset_bytes: int, offset: int, length: int
) -> None:
    block = bytes([50 + length]) + literal(noise(50)) + copy(length, offset, offset_bytes)
    assert steps(block) == library(block)
    assert steps(block, windows=1) == library(block)
    assert len(steps(block)) == 50 + length


def test_offsets_and_lengths_of_every_width() -> None:
    data = noise(3000)
    elements = literal(data, 2)
    for length, offset, offset_bytes in [(4, 2047, 1), (64, 2999, 2), (1, 2500, 4), (64, 1, 2)]:
        elements += copy(length, offset, offset_bytes)
    size = 3000 + 4 + 64 + 1 + 64
    block = bytes([size & 0x7F | 0x80, size >> 7]) + elements
    assert steps(block) == library(block)


@pytest.mark.parametrize(
    "block",
    [
        b"\x05" + literal(b"hell"),
        b"\x04" + literal(b"hello"),
        b"\x05" + literal(b"hello") + b"\x00",
        b"\x05" + copy(5, 1, 2),
        b"\x0a" + literal(b"hello") + copy(5, 0, 2),
        b"\x0a" + literal(b"hello") + copy(5, 6, 2),
        b"\x0a" + literal(b"hello") + copy(5, 2**32 - 1, 4),
        b"\x09" + literal(b"hello") + copy(5, 1, 2),
        b"\x00\x00",
        b"\x05" + literal(b"hello", 4)[:2],
        b"\x05",
        b"\x80",
        b"\x80" * 11,
        b"\xff\xff\xff\xff\x1f",
    ],
)
def test_a_block_with_a_false_size_is_damage(block: bytes) -> None:
    assert library(block) is None
    with pytest.raises(CorruptRecordsError, match=r"damaged|too early|reaches back") as whole:
        steps(block)
    with pytest.raises(CorruptRecordsError) as dripping:
        steps(block, windows=1)
    assert str(dripping.value) == str(whole.value)


def test_a_literal_that_runs_past_its_block_is_damage() -> None:
    block = b"\x05" + literal(b"hello")
    with pytest.raises(CorruptRecordsError, match="damaged"):
        steps(block, size=len(block) - 1)


def test_the_next_block_is_left_alone() -> None:
    block = b"\x05" + literal(b"hello")
    windows = Windows(pull_from(block + b"next", of(3)), "snappy")
    assert gather(block_in_steps(windows, len(block), 0), 100) == b"hello"
    assert windows.take(4).tobytes() == b"next"


def test_copies_that_reach_back_too_far_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snappy_steps, "HISTORY_SIZE", 100)
    far = b"\xc8\x01" + literal(noise(150), 1) + copy(50, 101, 2)
    with pytest.raises(CorruptRecordsError, match="reaches back more than"):
        steps(far)
    near = b"\xc8\x01" + literal(noise(150), 1) + copy(50, 100, 2)
    assert steps(near) == library(near)


def test_the_kept_history_is_bounded_and_suffices_for_real_encoders() -> None:
    data = text(4_000_000)
    assert steps(bytes(cramjam.snappy.compress_raw(data))) == data


@given(
    elements=st.lists(
        st.one_of(
            st.binary(min_size=1, max_size=60).map(literal),
            st.binary(min_size=5, max_size=300).map(lambda data: literal(data, 2)),
            st.builds(copy, st.integers(4, 11), st.integers(0, 700), st.just(1)),
            st.builds(copy, st.integers(1, 64), st.integers(0, 700), st.just(2)),
            st.builds(copy, st.integers(1, 64), st.integers(0, 700), st.just(4)),
            st.binary(max_size=3),
        ),
        max_size=30,
    ),
    claimed=st.integers(0, 4000),
    seed=st.integers(0, 2**32),
)
def test_any_block_is_decompressed_as_by_the_library(
    elements: list[bytes], claimed: int, seed: int
) -> None:
    # The library takes a long literal for damaged where less than four bytes follow its tag.
    body = b"".join(elements) + literal(b"12345678")
    for claim in {claimed, made(body)}:
        block = bytes([claim & 0x7F | 0x80, claim >> 7]) + body
        expected = library(block)
        windows = Windows(pull_from(block, between(1, 200, seed)), "snappy")
        try:
            content = gather(block_in_steps(windows, len(block), 0), 2**40)
        except CorruptRecordsError:
            assert expected is None
        else:
            assert content == expected


def made(body: bytes) -> int:
    """The number of bytes that the recognizable elements make."""
    at = size = 0
    while at < len(body):
        tag = body[at]
        if tag & 3:
            size += 4 + (tag >> 2 & 7) if tag & 3 == 1 else (tag >> 2) + 1
            at += (2, 3, 5)[(tag & 3) - 1]
            continue
        length, after = (tag >> 2) + 1, 0
        if length > 60:
            after = length - 60
            length = int.from_bytes(body[at + 1 : at + 1 + after], "little") + 1
        size += length
        at += 1 + after + length
    return min(size, 2**14 - 1)
