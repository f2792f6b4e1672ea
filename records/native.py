"""The compiled kernel: this is the one file that touches `records._kernel`.

ImportError where it has not been built. Besides what every kernel does (kernel.py) it has codecs
for data in memory, from the libraries that it is built with. `gzip_compress(source, start, end,
level)` makes one member, by libdeflate. `decompress(codec, source, start, end, magic, limit)`
returns what data of message format `magic` decompresses to, or None where that is more than
`limit`, or the data is damaged or framed in an unusual way: records/codecs tells which.

Not here: which kernel runs (backend.py)."""

from typing import TYPE_CHECKING

from ._kernel import Transcoder, crc32, decompress, encode, gzip_compress

if TYPE_CHECKING:
    from . import kernel

    _transcoder: type[kernel.Transcoder] = Transcoder
    _encode: kernel.Encode = encode
    _crc32: kernel.Crc32 = crc32

__all__ = ["Transcoder", "crc32", "decompress", "encode", "gzip_compress"]
