"""The face of the compiled kernel: the one file that touches `records._kernel`.

ImportError where it has not been built. Beside what every kernel does (kernel.py) it has gzip in
one go, by libdeflate: `gzip_compress(source, start, end, level)` makes one member;
`gzip_decompress(source, start, end, limit)` gives the content of one good member, or None where the
bytes are anything else, or hold more than `limit`.

Not here: which kernel runs (backend.py)."""

from typing import TYPE_CHECKING

from ._kernel import Transcoder, crc32, encode, gzip_compress, gzip_decompress

if TYPE_CHECKING:
    from . import kernel

    _transcoder: type[kernel.Transcoder] = Transcoder
    _encode: kernel.Encode = encode
    _crc32: kernel.Crc32 = crc32

__all__ = ["Transcoder", "crc32", "encode", "gzip_compress", "gzip_decompress"]
