"""Compression codecs: gzip, snappy, lz4, zstd, none, as Kafka reads and writes them.

`decompress` and `compress` take a batch at once, which is fast: the compiled kernel decompresses
nearly everything with its own libraries, and leaves the rest to Python packages. `open_decoder` and
`open_encoder` take a stream: memory is limited by the codec's window, whatever the input claims or
expands to.

Functions may be called from several threads, but a decoder or encoder from one at a time.

Not here: the codec of a batch (batch.py), the choice of a codec (the conversion's policy)."""

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

# Functions by the codec's number, not modules: a look-up shows in the 10 us for a batch of 16 KB.
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
    """The decompressed `data`. None if that would be more than `limit` bytes. The limit is not
    allocated in advance.

    `magic` is the message format of the data. CorruptRecordsError: its position is relative to
    `data`."""
    if _native is not None:
        content = _native(codec, data, 0, len(data), magic, limit)
        if content is not None:
            return content
    return _DECOMPRESS[codec](data, limit, magic)


def compress(codec: Codec, data: Buffer, *, magic: int, compression_level: CodecLevel) -> bytes:
    """`data` as one compressed stream. `compression_level`: "fast", or "kafka" for about Kafka's
    size, or a level of the codec itself.

    ValueError: message format `magic` has no such codec."""
    return _COMPRESS[codec](data, magic, compression_level)


def open_decoder(codec: Codec, pull: Pull, *, magic: int) -> Decoder:
    """A decoder of the windows that `pull` returns, up to an empty one.

    A window is used until the next one is pulled. The first `read_into` that meets damage raises
    CorruptRecordsError, with a position relative to all pulled bytes."""
    return PieceDecoder(_PIECES[codec](Windows(pull, _NAMES[codec]), magic))


def open_encoder(codec: Codec, *, magic: int, compression_level: CodecLevel) -> Encoder:
    """An encoder. It makes the same stream for any split of its data. The arguments are those of
    `compress`."""
    return _OPEN_ENCODER[codec](magic, compression_level)
