"""Builds a v2 batch from a stream of records, and compresses each record as it comes.

A batch that expands to far more than its own size needs only its size in memory, and a window. The
pieces of a large record are compressed without a copy.

Not here: a batch whose records are all in memory (builder.py)."""

from typing import Final

from records.codecs import CodecLevel, open_encoder
from records.errors import RecordTooLargeError
from records.formats import BATCH_HEADER_SIZE, V2, Codec, TimestampType
from records.record import Headers, Record
from records.units import KiB
from records.varint import varint, varlong

from .builder import attributes_of, encoded_records, v2_batch
from .columns import Columns, encoded_headers

CHUNK: Final = 256 * KiB  # bytes of keys and values that are encoded at once
PIECE: Final = 64 * KiB  # bytes of a large record that are compressed at once
OVERHEAD: Final = 16  # bytes of a record beside its key and value, about


class BatchStream:
    """One batch, with offsets from 0 on.

    append_time: milliseconds under LogAppendTime; without it, records keep their own timestamps.
    producer: id, epoch and base sequence. size_max: bytes of the batch, compressed."""

    def __init__(
        self,
        codec: Codec,
        *,
        append_time: int | None,
        producer: tuple[int, int, int],
        transactional: bool,
        compression_level: CodecLevel,
        size_max: int,
    ) -> None:
        self.records_count = 0
        self._codec = codec
        self._append_time = append_time
        self._producer = producer
        self._is_transactional = transactional
        self._size_max = size_max
        self._encoder = None
        if codec:
            self._encoder = open_encoder(codec, magic=V2, compression_level=compression_level)
        self._body = bytearray()
        self._base_timestamp = self._latest = 0
        self._held: list[Record] = []
        self._held_size = 0

    def add(self, record: Record) -> None:
        """Adds a record. Its offset is the number of records before it. RecordTooLargeError: the
        batch has more than `size_max` bytes."""
        timestamp = record.timestamp if self._append_time is None else self._append_time
        if not self.records_count:
            self._base_timestamp = self._latest = timestamp
        self._latest = max(self._latest, timestamp)
        size = len(record.key or b"") + len(record.value or b"") + OVERHEAD
        if size > CHUNK:
            self._encode()
            self._add_large(record, timestamp)
        else:
            self._held.append(record)
            self._held_size += size
        self.records_count += 1
        if self._held_size > CHUNK:
            self._encode()

    def finish(self) -> bytes:
        """The batch. RecordTooLargeError."""
        self._encode()
        if self._encoder is not None:
            self._keep(self._encoder.finish())
        kind = TimestampType.CREATE if self._append_time is None else TimestampType.LOG_APPEND
        producer_id, producer_epoch, base_sequence = self._producer
        return v2_batch(
            memoryview(self._body),
            base_offset=0,
            leader_epoch=-1,
            attributes=attributes_of(self._codec, kind, self._is_transactional, False),
            last_offset_delta=self.records_count - 1,
            base_timestamp=self._base_timestamp,
            max_timestamp=self._latest,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=base_sequence,
            records_count=self.records_count,
        )

    def _encode(self) -> None:
        """Encodes the held records."""
        held, self._held, self._held_size = self._held, [], 0
        if not held:
            return
        first = self.records_count - len(held)
        own = self._append_time
        headers = [one.headers for one in held]
        columns = Columns(
            range(first, self.records_count),
            [one.timestamp if own is None else own for one in held],
            [one.key for one in held],
            [one.value for one in held],
            headers if any(headers) else (),
        )
        kind = TimestampType.CREATE if own is None else TimestampType.LOG_APPEND
        self._write(encoded_records(columns, V2, kind, 0, self._base_timestamp))

    def _add_large(self, record: Record, timestamp: int) -> None:
        tail = _headers(record.headers)
        head = b"\0" + varlong(timestamp - self._base_timestamp) + varint(self.records_count)
        key, value = _sized(record.key), _sized(record.value)
        size = len(head) + sum(map(len, (*key, *value))) + len(tail)
        for part in (varint(size), head, *key, *value, tail):
            self._write(memoryview(part))

    def _write(self, data: memoryview) -> None:
        for at in range(0, len(data), PIECE):
            piece = data[at : at + PIECE]
            self._keep(piece if self._encoder is None else self._encoder.write(piece))

    def _keep(self, data: bytes | memoryview) -> None:
        self._body += data
        size = BATCH_HEADER_SIZE + len(self._body)
        if size > self._size_max:
            raise RecordTooLargeError(size, self._size_max, 0)


def _headers(headers: Headers) -> bytes:
    return varint(len(headers)) + encoded_headers(headers)


def _sized(field: bytes | None) -> tuple[bytes, bytes]:
    return (varint(-1), b"") if field is None else (varint(len(field)), field)
