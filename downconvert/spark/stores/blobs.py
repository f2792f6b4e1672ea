"""Bytes that are not a plain file of this machine: an object in a store or a part of one, a member
of a tar, a gzipped file, a segment in chunks.

A blob states where the bytes are and how they were packed. It is small, and is sent to the tasks.

Not here: stores (stores.py), chunks (chunks.py), reading ahead (range_records.py)."""

import gzip
import io
import os
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from downconvert.storage.errors import CorruptFileError
from records.units import MiB

from .chunks import Chunks, Reader
from .stores import ObjectReader, is_stored, shown

PIECE_SIZE: Final = 8 * MiB  # bytes of one request
SMALL_SIZE_MAX: Final = 64 * MiB  # bytes; no checkpoint is larger
LOG_SIZE_MAX: Final = 2**31 - 1  # bytes; positions in a segment's index are of 32 bits


@dataclass(frozen=True, slots=True)
class Blob:
    """`size` bytes of an object or a file from `start` on, as they are stored.

    path: a URI, or a path of this machine. modified: nanoseconds since the epoch. is_gzipped: the
    bytes are gzipped, and the content is the decompressed bytes. chunks: how the content was cut,
    compressed and encrypted. Then `size` is the size of the content."""

    path: str
    size: int
    start: int = 0
    modified: int = 0
    is_gzipped: bool = False
    chunks: Chunks | None = None

    @property
    def name(self) -> str:
        """The blob's name in messages."""
        return shown(self.path) if is_stored(self.path) else self.path

    def open(self) -> Reader:
        """Opens the blob. FileNotFoundError: it is gone. StoreError. ValueError: it is gzipped, and
        can only be read from the beginning."""
        if self.is_gzipped:
            raise ValueError(f"{self.name} is gzipped")
        whole: Reader = ObjectReader(self.path) if is_stored(self.path) else _FileReader(self.path)
        if self.chunks is not None:
            stored = sum(self.chunks.stored_sizes)
            return self.chunks.reader(_PartReader(whole, self.start, stored), self.name)
        return whole if self.start == 0 else _PartReader(whole, self.start, self.size)

    def pieces(self) -> Iterator[bytes]:
        """The whole content, a few MiB at a time. CorruptFileError: packed data is damaged."""
        raw = Blob(self.path, self.size, self.start, chunks=self.chunks)
        return _inflated(self.name, raw) if self.is_gzipped else _pieces(raw)

    def read(self) -> bytes:
        """The whole content of a small blob."""
        return b"".join(self.pieces())

    def save_current(self, target: Path) -> None:
        """Writes the content of a small file as it is now. Brokers replace their checkpoints, so it
        may have another size than when it was listed. FileNotFoundError: it is gone."""
        is_part = self.start or self.is_gzipped or self.chunks is not None
        if is_part or not self.size:
            target.write_bytes(self.read())
            return
        with closing(self.open()) as reader:
            target.write_bytes(reader.read(0, SMALL_SIZE_MAX))

    def save(self, target: Path) -> None:
        """Writes the content to a file, with the blob's modification time."""
        with target.open("wb") as file:
            for piece in self.pieces():
                file.write(piece)
        if self.modified:
            os.utime(target, ns=(self.modified, self.modified))


def _pieces(blob: Blob) -> Iterator[bytes]:
    if not blob.size:
        return
    with closing(blob.open()) as reader:
        position = 0
        while position < blob.size:
            piece = reader.read(position, min(PIECE_SIZE, blob.size - position))
            if not piece:
                raise CorruptFileError(f"ends at byte {position} of {blob.size}", blob.name)
            yield piece
            position += len(piece)


def _inflated(name: str, raw: Blob) -> Iterator[bytes]:
    """Decompresses gzip of one or several members, some KiB at a time, as far as that is
    possible."""
    total = 0
    try:
        if not raw.size:
            raise EOFError
        with (
            closing(raw.open()) as reader,
            io.BufferedReader(BlobFile(raw, reader), PIECE_SIZE) as stored,
            gzip.GzipFile(fileobj=stored) as file,
        ):
            while piece := file.read1(PIECE_SIZE):
                total += len(piece)
                if total > LOG_SIZE_MAX:
                    raise CorruptFileError("decompresses to more than a segment holds", name)
                yield piece
    except EOFError as error:
        raise CorruptFileError("is gzipped, and ends too early", name) from error
    except (gzip.BadGzipFile, zlib.error) as error:
        raise CorruptFileError(f"cannot be read as gzip: {error}", name) from error


def inflated(blob: Blob) -> tuple[int, CorruptFileError | None]:
    """Decompresses a gzipped blob to an unnamed file, as far as that is possible. Returns the
    file's descriptor, and the damage that ended the decompression."""
    damage = None
    with tempfile.TemporaryFile() as file:
        try:
            for piece in blob.pieces():
                file.write(piece)
        except CorruptFileError as error:
            damage = error
        file.flush()
        return os.dup(file.fileno()), damage


class BlobFile(io.RawIOBase):
    """The stored bytes of a blob as a file."""

    def __init__(self, blob: Blob, reader: Reader) -> None:
        self._size = blob.size
        self._reader = reader
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, position: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        self._position = max(0, base + position)
        return self._position

    def tell(self) -> int:
        return self._position

    def readinto(self, target: "memoryview") -> int:  # type: ignore[override]
        size = min(len(target), max(0, self._size - self._position))
        data = self._reader.read(self._position, size) if size else b""
        target[: len(data)] = data
        self._position += len(data)
        return len(data)


class _FileReader:
    """A file of this machine."""

    def __init__(self, path: str) -> None:
        self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)

    def read(self, position: int, size: int) -> bytes:
        return os.pread(self._fd, size, position)

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


class _PartReader:
    """Reads a part of a file: one member of a tar."""

    def __init__(self, whole: Reader, start: int, size: int) -> None:
        self._whole = whole
        self._start = start
        self._size = size

    def read(self, position: int, size: int) -> bytes:
        size = min(size, self._size - position)
        return self._whole.read(self._start + position, size) if size > 0 else b""

    def close(self) -> None:
        self._whole.close()
