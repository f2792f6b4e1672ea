"""The log on disk: segments, indexes, logs and log directories, as every broker keeps them."""

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
from .log import Log
from .log_dir import LogDir
from .names import TopicPartition
from .offset_index import OffsetIndex
from .segment import Segment
from .time_index import TimeIndex
from .transaction_index import AbortedTransaction

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
