"""Compression codecs: gzip, snappy, lz4, zstd, none, as Kafka reads and writes them.

`decompress` and `compress` take a batch at once, which is fast: the compiled kernel decompresses
nearly everything by libraries of its own, and leaves the rest to the packages for Python.
`open_decoder` and `open_encoder` take it as a stream: memory is bounded by the codec's window,
whatever the input claims or expands to.

Functions may be called from several threads; a decoder or encoder is used by one at a time.

Not here: which codec a batch has (batch.py), and which one it gets (the conversion's policy)."""

from collections.abc import Callable, Iterator
from typing import Final, TypeAlias

from records import backend_name
from records.formats import Codec
from records.kernel import Buffer

from . import gzip, lz4, none, snappy, zstd
from .stream import CodecLevel, CompressionLevel, Decoder, Encoder, PieceDecoder, Pull, Windows

__all__ = [
    "CodecLevel",
    "CompressionLevel",
    "Decoder",
    "Encoder",
    "Pull",
    "compress",
    "decompress",
    "open_decoder",
    "open_encoder",
]

Pieces: TypeAlias = Callable[[Windows, int], Iterator[Buffer]]
Decompress: TypeAlias = Callable[[Buffer, int, int], Buffer | None]
Compress: TypeAlias = Callable[[Buffer, int, CodecLevel], bytes]
OpenEncoder: TypeAlias = Callable[[int, CodecLevel], Encoder]

# Functions by the codec's number, not modules: a batch of 16 KB takes 10 us, and notices a look-up.
_CODECS: Final = (none, gzip, snappy, lz4, zstd)
_PIECES: Final[tuple[Pieces, ...]] = tuple(codec.pieces for codec in _CODECS)
_DECOMPRESS: Final[tuple[Decompress, ...]] = tuple(codec.decompress for codec in _CODECS)
_COMPRESS: Final[tuple[Compress, ...]] = tuple(codec.compress for codec in _CODECS)
_OPEN_ENCODER: Final[tuple[OpenEncoder, ...]] = tuple(codec.open_encoder for codec in _CODECS)
_native: Callable[[int, Buffer, int, int, int, int], bytes | None] | None = None
if backend_name.NAME == backend_name.NATIVE:
    from records import native

    _native = native.decompress
_NAMES: Final = tuple(codec.name.lower() for codec in Codec)


def decompress(codec: Codec, data: Buffer, *, limit: int, magic: int) -> Buffer | None:
    """All of `data`; None if that would be more than `limit` bytes, which it is then not reserved
    for.

    `magic` is the message format that the data is in. CorruptRecordsError: its position counts in
    `data`."""
    if _native is not None:
        content = _native(codec, data, 0, len(data), magic, limit)
        if content is not None:
            return content
    return _DECOMPRESS[codec](data, limit, magic)


def compress(codec: Codec, data: Buffer, *, magic: int, compression_level: CodecLevel) -> bytes:
    """`data` as one compressed stream. `compression_level`: "fast", or "kafka" for about the size
    that Kafka makes, or a level that the codec has itself.

    ValueError: message format `magic` has no such codec."""
    return _COMPRESS[codec](data, magic, compression_level)


def open_decoder(codec: Codec, pull: Pull, *, magic: int) -> Decoder:
    """A decoder of what `pull` returns: window after window, the last one empty.

    A window is used until the next one is pulled. The first `read_into` that meets damage raises
    CorruptRecordsError; its position counts in what was pulled."""
    return PieceDecoder(_PIECES[codec](Windows(pull, _NAMES[codec]), magic))


def open_encoder(codec: Codec, *, magic: int, compression_level: CodecLevel) -> Encoder:
    """An encoder, which makes the same stream however its data is written. Otherwise as
    `compress`."""
    return _OPEN_ENCODER[codec](magic, compression_level)
