"""The available deflate library, for gzip: libdeflate in the compiled kernel, isal, or zlib.

libdeflate takes only whole buffers. Its level 6 reaches zlib's size in half the time, and the
kernel uses it for data in memory before this module is used (records.codecs). isal also streams.
Its level 1 compresses large data fastest, but its output is some 10 % larger on text. zlib is
always available.

All of them decompress valid data alike, and all of them report damaged data, some bytes sooner or
later. All functions may be called from several threads.

Not here: gzip's framing of streams, and the rules for damage (gzip.py)."""

import zlib
from contextlib import suppress
from struct import Struct
from typing import Final, Protocol, cast

from records import backend_name
from records.kernel import Buffer
from records.units import KiB

from .stream import CodecLevel

RAW: Final = -15  # deflate without framing, with the largest window: 32 KiB
GZIP: Final = 31  # the same, framed
LEVEL_FAST: Final = 1
LEVEL_KAFKA: Final = 6  # Java's default; libdeflate's 6 reaches the size of zlib's
LEVEL_DEFAULT: Final = -1  # in zlib and Kafka
# isal does not get smaller data: its output for less than 4 KiB differed between threads. (For so
# little data it clears only a part of its hash table, which may be the cause.)
ISAL_SIZE_MIN: Final = 8 * KiB
SIZE_FIELD: Final = Struct("<I")  # the end of a member: the size of its content


class Inflater(Protocol):
    """The needed part of zlib's decompression object."""

    @property
    def eof(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    @property
    def unconsumed_tail(self) -> bytes: ...
    def decompress(self, data: Buffer, max_length: int, /) -> bytes: ...


class Deflater(Protocol):
    """The needed part of zlib's compression object."""

    def compress(self, data: Buffer, /) -> bytes: ...
    def flush(self) -> bytes: ...


class Library(Protocol):
    """zlib, or a module with its interface."""

    def compress(self, data: Buffer, /, level: int, wbits: int) -> bytes: ...
    def compressobj(self, level: int, method: int, wbits: int) -> Deflater: ...
    def decompressobj(self, wbits: int) -> Inflater: ...
    def crc32(self, data: Buffer, value: int, /) -> int: ...


class Native(Protocol):
    """The compiled kernel's functions for gzip (records/native.py)."""

    def gzip_compress(self, source: Buffer, start: int, end: int, level: int) -> bytes: ...
    def crc32(self, source: Buffer, start: int, end: int, value: int = 0) -> int: ...


library = cast(Library, zlib)
DAMAGE: tuple[type[Exception], ...] = (zlib.error,)
with suppress(ImportError):
    from isal import isal_zlib

    library = cast(Library, isal_zlib)
    DAMAGE += (cast(type[Exception], isal_zlib.error),)

native: Native | None = None
if backend_name.NAME == "native":
    from records import native as compiled

    native = compiled


def compress(data: Buffer, compression_level: CodecLevel) -> bytes:
    """One gzip member, without a name or a time."""
    level = _level(compression_level)
    if compression_level == "fast" and library is not zlib and len(data) >= ISAL_SIZE_MIN:
        return library.compress(data, level, GZIP)
    if native is not None:
        return native.gzip_compress(data, 0, len(data), level)
    return zlib.compress(data, level, GZIP)


def decompress(data: Buffer, limit: int) -> bytes | None:
    """The content of one valid gzip member, up to `limit` bytes; None for anything else."""
    if len(data) < SIZE_FIELD.size:
        return None
    claimed = SIZE_FIELD.unpack_from(data, len(data) - SIZE_FIELD.size)[0]
    if claimed > limit:
        return None
    inflate = library.decompressobj(GZIP)
    try:
        content = inflate.decompress(data, claimed + 1)
    except DAMAGE:
        return None
    return content if inflate.eof and not inflate.unused_data else None


def deflater(compression_level: CodecLevel) -> Deflater:
    """For a stream. libdeflate does not support streams, so Kafka's size costs zlib's time here."""
    level = _level(compression_level)
    if compression_level == "fast":
        return library.compressobj(level, zlib.DEFLATED, GZIP)
    return zlib.compressobj(level, zlib.DEFLATED, GZIP)


def _level(compression_level: CodecLevel) -> int:
    if compression_level == "fast":
        return LEVEL_FAST
    if compression_level in ("kafka", LEVEL_DEFAULT):
        return LEVEL_KAFKA
    return int(compression_level)


def inflater() -> Inflater:
    """For the content of a member in a stream."""
    return library.decompressobj(RAW)


def crc32(data: Buffer, value: int) -> int:
    if native is not None:
        return native.crc32(data, 0, len(data), value)
    return library.crc32(data, value)
