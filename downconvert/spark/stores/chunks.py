"""Segments as Aiven's plugin for tiered storage (KIP-405) stores them: cut into chunks of one size.
Each chunk is optionally compressed with zstd, then optionally encrypted with AES-GCM.

The stored sizes of the chunks are in the segment's manifest (tiers.py).

Not here: which segments there are (tiers.py), the operator's keys (data_keys.py)."""

from dataclasses import dataclass
from itertools import accumulate
from typing import Final, Protocol

import zstandard

from downconvert.storage.errors import CorruptFileError
from records.units import MiB

CHUNK_SIZE_MAX: Final = 64 * MiB  # bytes; the plugin's default is 4 MiB. A task holds a few chunks
IV_SIZE: Final = 12  # bytes, before the encrypted data
TAG_SIZE: Final = 16  # after it
SEAL_SIZE: Final = IV_SIZE + TAG_SIZE  # bytes that encryption adds


class Reader(Protocol):
    """An open blob. Several threads may read it."""

    def read(self, position: int, size: int) -> bytes:
        """The bytes there; fewer only at the end."""

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Key:
    """The data key of one segment, and its additional authenticated data."""

    key: bytes
    aad: bytes

    def __repr__(self) -> str:
        return "Key(...)"


@dataclass(frozen=True, slots=True)
class Chunks:
    """How a segment was cut: chunks of `size` bytes (the last may be shorter), and the stored size
    of each."""

    size: int
    total: int
    stored_sizes: tuple[int, ...]
    is_compressed: bool
    key: Key | None

    def reader(self, stored: Reader, name: str) -> "ChunkReader":
        return ChunkReader(self, stored, name)


class ChunkReader:
    """Reads the original bytes of a segment that was cut, compressed and encrypted."""

    def __init__(self, chunks: Chunks, stored: Reader, name: str) -> None:
        self._chunks = chunks
        self._stored = stored
        self._name = name
        self._ends = list(accumulate(chunks.stored_sizes, initial=0))
        self._damaged: dict[int, CorruptFileError] = {}  # by number: these are not read again

    def read(self, position: int, size: int) -> bytes:
        """The bytes there; fewer only at the end. CorruptFileError: a chunk is damaged."""
        chunks = self._chunks
        end = min(position + size, chunks.total)
        if position >= end:
            return b""
        first, last = position // chunks.size, (end - 1) // chunks.size
        if first in self._damaged:
            raise self._damaged[first]
        data = self._stored.read(self._ends[first], self._ends[last + 1] - self._ends[first])
        found = bytearray()
        for index in range(first, last + 1):
            at = self._ends[index] - self._ends[first]
            found += self._restored(data[at : at + chunks.stored_sizes[index]], index)
        at = position - first * chunks.size
        return bytes(found[at : at + end - position])

    def close(self) -> None:
        self._stored.close()

    def _restored(self, data: bytes, index: int) -> bytes:
        try:
            return self._plain(data, index)
        except CorruptFileError as error:
            self._damaged[index] = error
            raise

    def _plain(self, data: bytes, index: int) -> bytes:
        if self._chunks.key is not None:
            data = decrypted(data, self._chunks.key, self._name, f"chunk {index}")
        size = min(self._chunks.size, self._chunks.total - index * self._chunks.size)
        if self._chunks.is_compressed:
            try:
                if zstandard.frame_content_size(data) != size:
                    raise zstandard.ZstdError(f"it is not one of {size} bytes")
                data = zstandard.ZstdDecompressor().decompress(data)
            except zstandard.ZstdError as error:
                raise CorruptFileError(f"chunk {index} is damaged: {error}", self._name) from error
        if len(data) != size:
            raise CorruptFileError(f"chunk {index} has {len(data)} bytes, not {size}", self._name)
        return data


def decrypted(data: bytes, key: Key, name: str, part: str) -> bytes:
    """Decrypts `data`, a part of the file called `name`. CorruptFileError: it was not encrypted
    with this key."""
    from Crypto.Cipher import AES

    try:
        cipher = AES.new(key.key, AES.MODE_GCM, nonce=data[:IV_SIZE])
        cipher.update(key.aad)
        return bytes(cipher.decrypt_and_verify(data[IV_SIZE:-TAG_SIZE], data[-TAG_SIZE:]))
    except ValueError as error:
        reason = f"{part} is damaged, or was encrypted with another key"
        raise CorruptFileError(reason, name) from error
