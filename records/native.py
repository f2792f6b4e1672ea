"""The compiled kernel: this is the one file that takes something from `records._kernel`.

ImportError where it has not been built. Besides what every kernel does (kernel.py) it has codecs
for data in memory, from the libraries that it is built with. `gzip_compress(source, start, end,
level)` makes one member, by libdeflate. `decompress(codec, source, start, end, magic, limit)`
returns what data of message format `magic` decompresses to, or None where that is more than
`limit`, or the data is damaged or framed in an unusual way: records/codecs tells which. `Record` is
the class of records.record where this kernel runs.

Not here: which kernel runs (backend.py)."""

from typing import TYPE_CHECKING

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
    make_inner_records,
    make_records,
    read_entries,
)

if TYPE_CHECKING:
    from . import kernel, kernel_functions

    _transcoder: type[kernel.Transcoder] = Transcoder
    _arrow_columns: type[kernel_functions.ArrowColumns] = ArrowColumns
    _encode: kernel_functions.Encode = encode
    _crc32: kernel_functions.Crc32 = crc32
    _file_stamps: kernel_functions.FileStamps = file_stamps
    _make_records: kernel_functions.MakeRecords = make_records
    _make_inner_records: kernel_functions.MakeInnerRecords = make_inner_records
    _read_entries: kernel_functions.ReadEntries = read_entries

__all__ = [
    "ArrowColumns",
    "Record",
    "Transcoder",
    "crc32",
    "decompress",
    "encode",
    "file_stamps",
    "gzip_compress",
    "make_inner_records",
    "make_records",
    "read_entries",
]
