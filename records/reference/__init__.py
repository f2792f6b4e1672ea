"""The kernel in Python, written as plainly as possible.

The native kernel is compared with it, and it runs if the native one was not built. It follows the
rules of records/kernel.py one by one, in their order. It is not meant to be fast. If the two
differ, read the rules, then this, then the native one.

- call.py: one call: its window, its target, the reason for its return
- items.py: the fields of a record or a message, and their errors
- places.py: the place of a transcoder
- account.py: counts of kept records, and which record may follow
- transcoder.py: the rules of a log, of a batch's records and of a message's entries
- recode.py: a compressed entry to compressed messages
- advance.py: from a file to a target
- sources.py: a file's bytes, by their position
- encode.py: rows to bytes of records
- keyed.py: keys and values to a batch
- stamps.py: metadata of files
- rows.py, making.py, gathering.py: rows to records, and to columns"""

import zlib

from records.kernel import Buffer

from .encode import encode
from .gathering import ArrowColumns
from .keyed import keyed_batch
from .making import make_inner_records, make_records, read_entries, summarize_batch
from .stamps import file_stamps
from .transcoder import Transcoder

__all__ = [
    "ArrowColumns",
    "Transcoder",
    "crc32",
    "encode",
    "file_stamps",
    "keyed_batch",
    "make_inner_records",
    "make_records",
    "read_entries",
    "summarize_batch",
]


def crc32(source: Buffer, start: int, end: int, value: int = 0) -> int:
    """See `Crc32` in kernel_functions.py."""
    view = memoryview(source).cast("B")
    if not 0 <= start <= end <= len(view):
        raise ValueError("the range is not inside of the source")
    return zlib.crc32(view[start:end], value)
