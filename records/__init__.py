"""Kafka's message formats v0, v1 and v2, in memory and in files."""

from records.batch import BatchHeader
from records.errors import (
    CorruptRecordsError,
    RecordsError,
    RecordTooLargeError,
    UnsupportedCodecError,
)
from records.file_records import FileRecords
from records.formats import Codec, TimestampType
from records.memory_records import MemoryRecords
from records.source import Records

__all__ = [
    "BatchHeader",
    "Codec",
    "CorruptRecordsError",
    "FileRecords",
    "MemoryRecords",
    "RecordTooLargeError",
    "Records",
    "RecordsError",
    "TimestampType",
    "UnsupportedCodecError",
]
