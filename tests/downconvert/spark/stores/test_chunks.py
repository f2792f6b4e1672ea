"""Segments in chunks: any range is read back, and a chunk that is not as it was stored is damage.

Not here: segments as Aiven's plugin itself stored them (test_tiers_aiven.py)."""

import os
import random
import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from itertools import accumulate
from typing import Final

import pytest
import zstandard
from Crypto.Cipher import AES

from downconvert.spark.stores.chunks import IV_SIZE, Chunks, Key
from downconvert.storage.errors import CorruptFileError
from records.units import MiB

KEY: Final = Key(bytes(range(32)), b"additional")
DATA: Final = random.Random(1).randbytes(1010)  # the last chunk is shorter
SIZE: Final = 100
PACKED: Final = [(False, None), (True, None), (False, KEY), (True, KEY)]


def encrypted(data: bytes, key: Key) -> bytes:
    nonce = os.urandom(IV_SIZE)
    cipher = AES.new(key.key, AES.MODE_GCM, nonce=nonce)
    cipher.update(key.aad)
    sealed, tag = cipher.encrypt_and_digest(data)
    return nonce + sealed + tag


def stored_chunks(*, is_compressed: bool, key: Key | None) -> tuple[Chunks, list[bytes]]:
    """Chunks, and the stored bytes of each."""
    parts = [DATA[at : at + SIZE] for at in range(0, len(DATA), SIZE)]
    if is_compressed:
        parts = [zstandard.ZstdCompressor().compress(part) for part in parts]
    if key is not None:
        parts = [encrypted(part, key) for part in parts]
    sizes = tuple(map(len, parts))
    return Chunks(SIZE, len(DATA), sizes, is_compressed, key), parts


class Object:
    """A stored object that notes what is asked of it."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.asked: list[tuple[int, int]] = []
        self.is_closed = False

    def read(self, position: int, size: int) -> bytes:
        self.asked.append((position, size))
        return self.data[position : position + size]

    def close(self) -> None:
        self.is_closed = True


@pytest.mark.parametrize(("is_compressed", "key"), PACKED)
def test_any_range_has_the_stored_bytes(is_compressed: bool, key: Key | None) -> None:
    chunks, parts = stored_chunks(is_compressed=is_compressed, key=key)
    reader = chunks.reader(Object(b"".join(parts)), "name")
    generator = random.Random(2)
    edges = [(0, 1), (0, 100), (99, 1), (99, 2), (100, 100), (900, 200), (1009, 5), (0, 5000)]
    drawn = [(generator.randrange(1020), generator.randrange(1, 400)) for _ in range(50)]
    for position, size in (*edges, *drawn):
        assert reader.read(position, size) == DATA[position : position + size], (position, size)
    assert reader.read(1010, 5) == reader.read(5, 0) == b""


@pytest.mark.parametrize(
    ("position", "size", "first", "last"),
    [(0, 100, 0, 0), (99, 2, 0, 1), (100, 100, 1, 1), (250, 200, 2, 4), (1000, 100, 10, 10)],
)
def test_only_the_chunks_of_a_range_are_asked_for(
    position: int, size: int, first: int, last: int
) -> None:
    chunks, parts = stored_chunks(is_compressed=True, key=None)
    stored = Object(b"".join(parts))
    chunks.reader(stored, "name").read(position, size)
    ends = [0, *accumulate(map(len, parts))]
    assert stored.asked == [(ends[first], ends[last + 1] - ends[first])]


def _another_key(chunks: Chunks, parts: list[bytes]) -> tuple[Chunks, list[bytes]]:
    key = Key(KEY.key, b"other data")
    return Chunks(chunks.size, chunks.total, chunks.stored_sizes, chunks.is_compressed, key), parts


def _a_flipped_bit(chunks: Chunks, parts: list[bytes]) -> tuple[Chunks, list[bytes]]:
    middle = bytearray(parts[1])
    middle[len(middle) // 2] ^= 1
    return chunks, [parts[0], bytes(middle), *parts[2:]]


def _too_short(chunks: Chunks, parts: list[bytes]) -> tuple[Chunks, list[bytes]]:
    return chunks, [*parts[:-1], parts[-1][:-1]]


def _one_for_another(chunks: Chunks, parts: list[bytes]) -> tuple[Chunks, list[bytes]]:
    """The last chunk has another size than the one whose place it takes."""
    moved = [parts[-1], *parts[1:]]
    sizes = tuple(map(len, moved))
    return Chunks(chunks.size, chunks.total, sizes, chunks.is_compressed, chunks.key), moved


@pytest.mark.parametrize(
    ("is_compressed", "key", "spoil"),
    [
        (False, KEY, _another_key),
        (True, KEY, _a_flipped_bit),
        (False, KEY, _a_flipped_bit),
        (False, None, _too_short),
        (True, None, _too_short),
        (True, None, _one_for_another),
        (False, None, _one_for_another),
    ],
)
def test_a_changed_chunk_is_damage(
    is_compressed: bool,
    key: Key | None,
    spoil: Callable[[Chunks, list[bytes]], tuple[Chunks, list[bytes]]],
) -> None:
    chunks, parts = spoil(*stored_chunks(is_compressed=is_compressed, key=key))
    with pytest.raises(CorruptFileError, match="the name"):
        chunks.reader(Object(b"".join(parts)), "the name").read(0, len(DATA))


def test_a_chunk_that_claims_to_be_larger_is_not_decompressed() -> None:
    chunks, parts = stored_chunks(is_compressed=True, key=None)
    bomb = zstandard.ZstdCompressor().compress(bytes(16 * MiB))
    sizes = (len(bomb), *chunks.stored_sizes[1:])
    reader = replace(chunks, stored_sizes=sizes).reader(Object(bomb + b"".join(parts[1:])), "name")
    tracemalloc.start()
    with pytest.raises(CorruptFileError, match="chunk 0 is damaged"):
        reader.read(0, SIZE)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < MiB


def test_a_damaged_chunk_is_requested_once() -> None:
    """A reader comes back to it: to report it, and to look for what follows."""
    chunks, parts = stored_chunks(is_compressed=True, key=None)
    stored = Object(bytes(len(parts[0])) + b"".join(parts[1:]))
    reader = chunks.reader(stored, "name")
    for _ in range(3):
        with pytest.raises(CorruptFileError, match="chunk 0 is damaged"):
            reader.read(5, 10)
    assert len(stored.asked) == 1


def test_the_object_is_closed_with_its_reader() -> None:
    chunks, parts = stored_chunks(is_compressed=False, key=None)
    stored = Object(b"".join(parts))
    chunks.reader(stored, "name").close()
    assert stored.is_closed


def test_a_key_is_not_shown() -> None:
    assert repr(KEY) == "Key(...)"
