"""The log on disk: segments, indexes, logs and log directories, as every broker keeps them.

>>> from pathlib import Path
>>> from tempfile import mkdtemp
>>> from records import MemoryRecords, Record, build, read
>>> directory = Path(mkdtemp(), "clicks-0")
>>> directory.mkdir()
>>> batch = build([Record(offset=0, timestamp=0, value=b"hello")], magic=2)
>>> with Log.open(directory, writable=True) as log:
...     log.writer.append(batch)  # the next offset
1
>>> with Log.open(directory) as log:
...     [record.value for record in read(log.read(0, 1 << 20))]
[b'hello']"""

from .config import LogConfig
from .errors import (
    CorruptFileError,
    CorruptIndexError,
    DiskFullError,
    LogDirOfflineError,
    LogInUseError,
    OffsetOutOfRangeError,
    OffsetOverflowError,
    StorageError,
)
from .indexes.offset_index import OffsetIndex
from .indexes.time_index import TimeIndex
from .indexes.transaction_index import AbortedTransaction
from .log import Log
from .log_dir import LogDir
from .names import TopicPartition
from .segments.segment import Segment

__all__ = [
    "AbortedTransaction",
    "CorruptFileError",
    "CorruptIndexError",
    "DiskFullError",
    "Log",
    "LogConfig",
    "LogDir",
    "LogDirOfflineError",
    "LogInUseError",
    "OffsetIndex",
    "OffsetOutOfRangeError",
    "OffsetOverflowError",
    "Segment",
    "StorageError",
    "TimeIndex",
    "TopicPartition",
]
