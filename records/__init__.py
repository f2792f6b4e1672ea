"""Kafka's message formats v0, v1 and v2: batches and records, read and built, in files and memory.

The names listed here are public. `records.codecs` is public too, and so is `records.kernel` for
callers that convert.

Not here: converting (downconvert), segments with their indexes (storage)."""

from .batch import BatchHeader
from .batches.builder import build, build_empty, build_marker
from .batches.columns import Columns
from .batches.control import ControlRecordType, EndTransactionMarker
from .batches.reader import read, read_batch
from .errors import (
    ClosedRecordsError,
    CorruptRecordsError,
    RecordsError,
    RecordTooLargeError,
    UnsupportedCodecError,
)
from .files.file_records import FileRecords
from .files.memory_records import MemoryRecords
from .files.source import Records
from .formats import Codec, TimestampType
from .record import Record

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
