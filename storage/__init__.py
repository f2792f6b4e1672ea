"""The log on disk: segments, indexes, logs and log directories, as every broker keeps them."""

from storage.config import LogConfig
from storage.errors import (
    CorruptFileError,
    CorruptIndexError,
    DiskFullError,
    LogDirOfflineError,
    LogInUseError,
    OffsetOutOfRangeError,
    OffsetOverflowError,
    StorageError,
)
from storage.log import Log
from storage.log_dir import LogDir
from storage.names import TopicPartition
from storage.offset_index import OffsetIndex
from storage.segment import Segment
from storage.time_index import TimeIndex
from storage.transaction_index import AbortedTransaction

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
