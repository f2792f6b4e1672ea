"""The compiled kernel, native/src/python. Its contract is in kernel.py and kernel_functions.py."""

from . import kernel, kernel_functions
from .kernel import Buffer
from .python_record import Record as Record

Transcoder: type[kernel.Transcoder]
ArrowColumns: type[kernel_functions.ArrowColumns]
encode: kernel_functions.Encode
crc32: kernel_functions.Crc32
file_stamps: kernel_functions.FileStamps
keyed_batch: kernel_functions.KeyedBatch
make_records: kernel_functions.MakeRecords
make_inner_records: kernel_functions.MakeInnerRecords
read_entries: kernel_functions.ReadEntries
summarize_batch: kernel_functions.SummarizeBatch

def gzip_compress(source: Buffer, start: int, end: int, level: int) -> bytes: ...
def decompress(
    codec: int, source: Buffer, start: int, end: int, magic: int, limit: int
) -> bytes | None: ...
