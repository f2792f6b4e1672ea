"""Kafka's message formats v0, v1 and v2: batches and records, read and built, in files and memory.

What is listed here is public; so are `records.codecs`, and `records.kernel` for who converts.

Not here: converting (downconvert), segments with their indexes (storage)."""

from records.batch import BatchHeader
from records.builder import build, build_empty, build_marker
from records.columns import Columns
from records.control import ControlRecordType, EndTransactionMarker
from records.errors import (
    CorruptRecordsError,
    RecordsError,
    RecordTooLargeError,
    UnsupportedCodecError,
)
from records.file_records import FileRecords
from records.formats import Codec, TimestampType
from records.memory_records import MemoryRecords
from records.reader import read, read_batch
from records.record import Record
from records.source import Records

__all__ = [
    "BatchHeader",
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
