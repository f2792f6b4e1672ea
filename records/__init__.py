"""Kafka's message formats v0, v1 and v2: batches and records, read and built, in files and memory.

What is listed here is public; so are `records.codecs`, and `records.kernel` for callers that
convert.

Not here: converting (downconvert), segments with their indexes (storage)."""

from .batch import BatchHeader
from .builder import build, build_empty, build_marker
from .columns import Columns
from .control import ControlRecordType, EndTransactionMarker
from .errors import (
    ClosedRecordsError,
    CorruptRecordsError,
    RecordsError,
    RecordTooLargeError,
    UnsupportedCodecError,
)
from .file_records import FileRecords
from .formats import Codec, TimestampType
from .memory_records import MemoryRecords
from .reader import read, read_batch
from .record import Record
from .source import Records

__all__ = [
    "BatchHeader",
    "ClosedRecordsError",
    "Codec",
    "Columns",
    "ControlRecordType",
    "CorruptRecordsError",
    "EndTransactionMarker",
    "FileRecords",
    "MemoryRecords",
    "Record",
    "RecordTooLargeError",
    "Records",
    "RecordsError",
    "TimestampType",
    "UnsupportedCodecError",
    "build",
    "build_empty",
    "build_marker",
    "read",
    "read_batch",
]
