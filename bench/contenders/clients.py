"""Converts records with the record classes of kafka-python and aiokafka, as a Python program would
without this project.

The classes read v2 and write v0 or v1, record by record. aiokafka's are compiled (Cython).

Not here: their speed in clients. They were not made for conversions."""

import zlib
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter, process_time
from typing import Any, Final

import aiokafka.errors
import kafka.errors
from aiokafka.record.legacy_records import LegacyRecordBatchBuilder as AiokafkaBuilder
from aiokafka.record.memory_records import MemoryRecords as AiokafkaRecords
from kafka.record.legacy_records import LegacyRecordBatchBuilder as KafkaPythonBuilder
from kafka.record.memory_records import MemoryRecords as KafkaPythonRecords

from bench.measuring.rounds import Fetch, Round

CLIENTS: Final[dict[str, tuple[Any, Any]]] = {
    "kafka-python": (KafkaPythonRecords, KafkaPythonBuilder),
    "aiokafka": (AiokafkaRecords, AiokafkaBuilder),
}
NO_CODEC: Final = (aiokafka.errors.UnsupportedCodecError, kafka.errors.UnsupportedCodecError)
UNLIMITED: Final = 2**31 - 1


class Client:
    """Converts the fetches of one segment with one client's classes, a batch at a time."""

    def __init__(
        self, name: str, to_magic: int, segment: Path, fetches: Sequence[Fetch], codec: int
    ) -> None:
        self._reader, self._builder = CLIENTS[name]
        self._to_magic = to_magic
        self._segment = segment
        self._fetches = fetches
        self._codec = codec

    def round(self) -> Round:
        """Converts all fetches. Raises one of `NO_CODEC` if a library that the client needs is not
        installed."""
        records = size = crc = 0
        seconds = cpu_seconds = 0.0
        with self._segment.open("rb") as log:
            for position, fetch_size, _ in self._fetches:
                cpu, started = process_time(), perf_counter()
                log.seek(position)
                converted, pieces = self._convert(log.read(fetch_size))
                seconds += perf_counter() - started
                cpu_seconds += process_time() - cpu
                records += converted
                for piece in pieces:
                    crc = zlib.crc32(piece, crc)
                    size += len(piece)
        return Round(records, size, seconds, cpu_seconds, crc)

    def _convert(self, data: bytes) -> tuple[int, list[bytearray]]:
        pieces = []
        count = 0
        source = self._reader(data)
        while (batch := source.next_batch()) is not None:
            builder = self._builder(self._to_magic, self._codec, UNLIMITED)
            append = builder.append
            for record in batch:
                append(record.offset, record.timestamp, record.key, record.value)
                count += 1
            pieces.append(builder.build())
        return count, pieces
