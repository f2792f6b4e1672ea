"""Decompresses batches and messages into the buffer that rows point into.

A small entry is decompressed at once, after the others in the buffer. A larger one, or one that
expands to more, goes through a window, so a decompression bomb takes no more memory.

Not here: uncompressed batches (rows.py), opening compressed ones (records/batches/compressed.py),
the offsets in compressed messages (records/batches/inner_offsets.py)."""

from collections.abc import Iterator
from struct import Struct
from typing import Any, Final

import numpy as np

from downconvert.spark.plan.gather import AT, FIELDS
from records import BatchHeader, CorruptRecordsError, Records, TimestampType
from records.batch import SIZE_AT
from records.batches.compressed import CompressedBytes, DecompressedWindow
from records.batches.inner_offsets import NO_MESSAGES, OffsetScan, are_relative, offset_delta
from records.checksum import MISMATCH, is_sound
from records.formats import BATCH_HEADER_SIZE, MAGIC_AT, MESSAGE_HEAD, PREFIX, SIZE_FIELD, V0, V2
from records.kernel import ROW_SIZE, Outcome

from .accumulator import BUFFER_SIZE, Accumulator

SIZE: Final = Struct(">i")
INPUT_SIZE: Final = 64 * 1024  # bytes of compressed data, at a time
KEY_AT_V0: Final = MESSAGE_HEAD[V0].size + SIZE_FIELD.size


class Inflation:
    """Adds the rows of compressed entries to an accumulator.

    Positions of entries count in `records`."""

    def __init__(
        self, records: Records, transcoder: Any, accumulator: Accumulator, *, verify: bool
    ) -> None:
        self._records = records
        self._transcoder = transcoder
        self._accumulator = accumulator
        self._verify = verify
        self._input = memoryview(bytearray(INPUT_SIZE))
        self._scan = OffsetScan()

    def read(self, header: BatchHeader, entry: memoryview | None) -> Iterator[Any]:
        """Yields record batches as they fill up. `entry`: its bytes, if they are in memory.

        CorruptRecordsError is raised after all records before the damage were yielded. A damaged
        compressed v1 message yields none: only its last inner message determines the offsets."""
        compressed = CompressedBytes.of(self._records, header)
        data = None
        if entry is not None:
            data = compressed.at_once(entry[compressed.start : compressed.end], BUFFER_SIZE)
        if data is not None:
            yield from self._read_whole(header, data)
        else:
            yield from self._read_streamed(header, compressed)
        self._transcoder.leave()

    def _read_whole(self, header: BatchHeader, data: Any) -> Iterator[Any]:
        accumulator, size = self._accumulator, len(data)
        delta = self._offset_delta(header, DecompressedWindow(None, data, header.position))
        if accumulator.used + size > len(accumulator.buffer):
            yield from accumulator.flush()
            accumulator.clear()
        at = accumulator.used
        accumulator.buffer[at : at + size] = data
        accumulator.used += size
        self._enter(header, delta)
        window = DecompressedWindow.within(accumulator.buffer, at, at + size, header.position)
        yield from self._rows(header, window)

    def _read_streamed(self, header: BatchHeader, compressed: CompressedBytes) -> Iterator[Any]:
        accumulator = self._accumulator
        yield from accumulator.flush()
        accumulator.clear()

        def opened() -> DecompressedWindow:
            stream = compressed.open(self._input)
            return DecompressedWindow(stream, accumulator.buffer, header.position)

        window = opened()
        delta = self._offset_delta(header, window)
        if not window.holds_all:
            window = opened()
        window.start = 0
        self._enter(header, delta)
        yield from self._rows(header, window)
        yield from accumulator.flush(window.buffer)

    def _enter(self, header: BatchHeader, offset_delta: int) -> None:
        if header.magic == V2:
            head = bytearray(BATCH_HEADER_SIZE)
            self._records.read_into(memoryview(head), header.position)
            self._transcoder.enter_batch(head, 0)
            return
        log_append = header.timestamp_type is TimestampType.LOG_APPEND
        append_time = header.max_timestamp if log_append else None
        self._transcoder.enter_entries(header.magic, offset_delta, append_time)

    def _offset_delta(self, header: BatchHeader, window: DecompressedWindow) -> int:
        """The number to add to the offsets inside a message."""
        magic, offset = header.magic, header.base_offset
        if not are_relative(magic, offset):
            return 0
        last = self._scan.last_offset(window, lambda window: self._fill(window, header))
        if last is None:
            raise CorruptRecordsError(NO_MESSAGES, header.position)
        return offset_delta(magic, offset, last, header.position)

    def _rows(self, header: BatchHeader, window: DecompressedWindow) -> Iterator[Any]:
        accumulator, transcoder = self._accumulator, self._transcoder
        is_empty = True
        while True:
            if window.start == window.filled and window.remaining:
                yield from accumulator.flush(window.buffer)
                self._fill(window, header)
            consumed, produced, outcome = accumulator.columns(
                transcoder, window.buffer, window.start, window.filled, window.remaining
            )
            is_empty = is_empty and not consumed
            damage = None
            if header.magic != V2 and consumed:
                damage = self._check_messages(header, window, consumed, produced)
            if outcome == Outcome.DAMAGE and damage is None:
                reason, index = transcoder.damage or ("damaged", window.start)
                damage = window.damage(reason, index)
            if damage is not None:
                yield from accumulator.flush(window.buffer)
                raise damage
            window.start += consumed
            if outcome == Outcome.TARGET:
                yield from accumulator.flush(window.buffer)
            elif outcome == Outcome.SOURCE:
                yield from accumulator.flush(window.buffer)
                self._fill(window, header)
            else:
                break
        if header.magic != V2:
            if is_empty:
                raise CorruptRecordsError(NO_MESSAGES, header.position)
            return
        if window.start == window.filled and window.remaining:
            yield from accumulator.flush(window.buffer)
            self._fill(window, header)
        if window.start < window.filled:
            yield from accumulator.flush(window.buffer)
            raise window.damage("bytes left after the last record", window.start)

    def _check_messages(
        self, header: BatchHeader, window: DecompressedWindow, consumed: int, produced: int
    ) -> CorruptRecordsError | None:
        """Handles inner messages where the kernel does not: verifies their checksums. Messages of
        v0 stay without a timestamp, even if the outer message has one."""
        rows_start = self._accumulator.rows_size - produced
        rows = np.frombuffer(self._accumulator.rows, np.int64, produced // 8, rows_start)
        table = rows.reshape(-1, FIELDS)
        if header.magic == V0:
            table[:, AT["timestamp_type"]] = TimestampType.NONE
        is_append = header.timestamp_type is TimestampType.LOG_APPEND
        if not (self._verify or is_append):
            return None
        keys_v0 = []
        at = window.start
        while at < window.start + consumed:
            end = at + PREFIX.size + SIZE.unpack_from(window.buffer, at + SIZE_AT)[0]
            if self._verify and not is_sound(window, at, end):
                good = int(np.searchsorted(table[:, AT["key_at"]], at))
                self._accumulator.rows_size = rows_start + good * ROW_SIZE
                return window.damage(MISMATCH, at)
            if window.buffer[at + MAGIC_AT] == V0:
                keys_v0.append(at + KEY_AT_V0)
            at = end
        if keys_v0:
            without = np.isin(table[:, AT["key_at"]], keys_v0)
            table[without, AT["timestamp"]] = TimestampType.NONE
            table[without, AT["timestamp_type"]] = TimestampType.NONE
        return None

    def _fill(self, window: DecompressedWindow, header: BatchHeader) -> None:
        if window.is_full:
            self._accumulator.check_growth(window.filled, header.position)
        window.fill()
