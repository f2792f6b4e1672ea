"""The compiled kernel. Only this file imports `records._kernel`.

ImportError: it has not been built. Besides the functions of every kernel (kernel.py) it has codecs
for data in memory, from its own libraries. `gzip_compress(source, start, end, level)` makes one
member, by libdeflate. `decompress(codec, source, start, end, magic, limit)` decompresses data of
message format `magic`. It returns None if the output is more than `limit` bytes, or if the data is
damaged or framed in an unusual way. records/codecs then decides. `Record` is the class of
records.record under this kernel.

Not here: which kernel runs (backend.py)."""

from . import zipped  # noqa: F401 - finds the kernel where all of this is in a zip
from ._kernel import (
    ArrowColumns,
    Record,
    Transcoder,
    crc32,
    decompress,
    encode,
    file_stamps,
    gzip_compress,
    keyed_batch,
    make_inner_records,
    make_records,
    read_entries,
    summarize_batch,
)

__all__ = [
    "ArrowColumns",
    "Record",
    "Transcoder",
    "crc32",
    "decompress",
    "encode",
    "file_stamps",
    "gzip_compress",
    "keyed_batch",
    "make_inner_records",
    "make_records",
    "read_entries",
    "summarize_batch",
]
