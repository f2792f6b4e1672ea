"""The compiled kernel, native/src/python. Its contract is kernel.py and kernel_functions.py."""

from . import kernel_functions
from .kernel import Buffer
from .kernel import Transcoder as _Transcoder
from .python_record import Record as Record

Transcoder: type[_Transcoder]
ArrowColumns: type[kernel_functions.ArrowColumns]
encode: kernel_functions.Encode
read_entries: kernel_functions.ReadEntries
make_records: kernel_functions.MakeRecords
make_inner_records: kernel_functions.MakeInnerRecords
crc32: kernel_functions.Crc32
file_stamps: kernel_functions.FileStamps

def gzip_compress(source: Buffer, start: int, end: int, level: int) -> bytes: ...
def decompress(
    codec: int, source: Buffer, start: int, end: int, magic: int, limit: int
) -> bytes | None: ...
