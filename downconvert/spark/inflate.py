"""Compressed batches and messages: decompressed into where rows point.

A small one is decompressed in one go, after the others in the buffer. A larger one, and one that
expands to more, goes through a window, so that a decompression bomb takes no more memory.

Rules of offsets and timestamps in compressed v0 and v1 messages are those of records/reader.py.

Not here: uncompressed batches (rows.py), the codecs (records/codecs)."""

from collections.abc import Iterator
from dataclasses import dataclass
from struct import Struct
from typing import Any, Final

import numpy as np

from records import BatchHeader, Codec, CorruptRecordsError, Records, TimestampType
from records.backend import Transcoder
from records.batch import SIZE_AT, wrapped
from records.checksum import MISMATCH
from records.codecs import Decoder, decompress, open_decoder
from records.formats import (
    BATCH_HEADER_SIZE,
    MAGIC_AT,
    MESSAGE_HEAD,
    PREFIX,
    SIZE_FIELD,
    V0,
    V1,
    V2,
)
from records.kernel import ROW_SIZE, Outcome
from records.reader import EVERY_OFFSET
from records.record import is_sound
from records.window import Stretch, Window
from records.wrapper import value_range

from .accumulator import BUFFER_SIZE, Accumulator
from .gather import AT, FIELDS

SIZE: Final = Struct(">i")
INPUT_SIZE: Final = 64 * 1024  # bytes of compressed data, at a time
SCRATCH_ROWS: Final = 256
KEY_AT_V0: Final = MESSAGE_HEAD[V0].size + SIZE_FIELD.size


class Inflation:
    """Adds the rows of compressed entries to an accumulator.

    Entries are those of `records`, in which their positions count."""

    def __init__(
        self, records: Records, transcoder: Any, accumulator: Accumulator, *, verify: bool
    ) -> None:
        self._records = records
        self._transcoder = transcoder
        self._accumulator = accumulator
        self._verify = verify
        self._input = memoryview(bytearray(INPUT_SIZE))
        self._scan = Transcoder(V0, EVERY_OFFSET, 0, False)
        self._scratch = bytearray(SCRATCH_ROWS * ROW_SIZE)

    def read(self, header: BatchHeader, entry: memoryview | None) -> Iterator[Any]:
        """Yields record batches as they fill up. `entry`: its bytes, if they are in memory.

        CorruptRecordsError is raised when all records before the damage were yielded. Of a
        compressed v1 message that is none: its offsets are known only from its last entry."""
        if header.magic == V2:
            if header.records_count is not None and header.records_count < 0:
                raise CorruptRecordsError("negative record count", header.position)
            start, end = BATCH_HEADER_SIZE, header.size
        elif header.codec is Codec.ZSTD:
            reason = "codec does not exist in this message format"
            raise CorruptRecordsError(reason, header.position)
        else:
            start, end = value_range(self._records, header.position, header.size, header.magic)
        whole = None if entry is None else _decompressed(header, entry[start:end])
        if whole is not None:
            yield from self._read_whole(header, whole)
        else:
            yield from self._read_streamed(header, start, end)
        self._transcoder.leave()

    def _read_whole(self, header: BatchHeader, data: Any) -> Iterator[Any]:
        accumulator, size = self._accumulator, len(data)
        delta = self._offset_delta(header, Held(data, 0, size))
        if accumulator.used + size > len(accumulator.buffer):
            yield from accumulator.flush()
            accumulator.clear()
        at = accumulator.used
        accumulator.view[at : at + size] = data
        accumulator.used += size
        self._enter(header, delta)
        yield from self._rows(header, Held(accumulator.buffer, at, at + size, base=-at))

    def _read_streamed(self, header: BatchHeader, start: int, end: int) -> Iterator[Any]:
        accumulator = self._accumulator
        yield from accumulator.flush()
        accumulator.clear()

        def opened() -> Window:
            stretch = Stretch(self._records, header.position + start, header.position + end)
            return Window(_Decoded(header, stretch, self._input), accumulator.buffer)

        window = opened()
        delta = self._offset_delta(header, window)
        if window.base or not window.holds_all:
            window = opened()
        window.start = 0
        self._enter(header, delta)
        yield from self._rows(header, window)
        yield from accumulator.flush(window.buffer)

    def _enter(self, header: BatchHeader, offset_delta: int) -> None:
        if header.magic == V2:
            head = bytearray(BATCH_HEADER_SIZE)
            self._records.read_into(memoryview(head), header.position)
            self._transcoder.enter_batch(head, 0, False, True, False)
            return
        log_append = header.timestamp_type is TimestampType.LOG_APPEND
        append_time = header.max_timestamp if log_append else None
        self._transcoder.enter_entries(header.magic, offset_delta, append_time, False, True, False)

    def _offset_delta(self, header: BatchHeader, window: "Held | Window") -> int:
        """What to add to the offsets inside of a v1 message. They are relative; the last one is the
        message's own. (Old librdkafka producers left that at 0: then nothing is added.)"""
        if header.magic != V1 or not header.base_offset:
            return 0
        self._scan.enter_entries(V1, 0, None, False, False, False)
        last = 0
        while True:
            if window.start == window.filled:
                self._fill(window, header)
            consumed, produced, outcome = self._scan.columns(
                window.buffer,
                window.start,
                window.filled,
                window.remaining,
                self._scratch,
                0,
                len(self._scratch),
            )
            if produced:
                row = np.frombuffer(self._scratch, np.int64, FIELDS, produced - ROW_SIZE)
                last = int(row[AT["offset"]])
            window.start += consumed
            if outcome == Outcome.SOURCE:
                self._fill(window, header)
            elif outcome == Outcome.DAMAGE:
                raise _damage(self._scan, header, window)
            elif outcome != Outcome.TARGET:
                break
        if last > header.base_offset:
            reason = "compressed message is at a lower offset than its last"
            raise CorruptRecordsError(reason, header.position)
        return wrapped(header.base_offset - last)

    def _rows(self, header: BatchHeader, window: "Held | Window") -> Iterator[Any]:
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
                damage = _damage(transcoder, header, window)
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
                raise CorruptRecordsError("compressed message holds no messages", header.position)
            return
        if window.start == window.filled and window.remaining:
            yield from accumulator.flush(window.buffer)
            self._fill(window, header)
        if window.start < window.filled:
            yield from accumulator.flush(window.buffer)
            inside = window.base + window.start
            reason = "bytes left after the last record"
            raise CorruptRecordsError(reason, header.position, inside=inside)

    def _check_messages(
        self, header: BatchHeader, window: "Held | Window", consumed: int, produced: int
    ) -> CorruptRecordsError | None:
        """What the kernel does not do for messages inside of a message: compares their checksums,
        and leaves those of v0 without a timestamp, whatever the outer message has."""
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
            if self._verify and not is_sound(window, at, end):  # type: ignore[arg-type]
                good = int(np.searchsorted(table[:, AT["key_at"]], at))
                self._accumulator.rows_size = rows_start + good * ROW_SIZE
                inside = window.base + at
                return CorruptRecordsError(MISMATCH, header.position, inside=inside)
            if window.buffer[at + MAGIC_AT] == V0:
                keys_v0.append(at + KEY_AT_V0)
            at = end
        if keys_v0:
            without = np.isin(table[:, AT["key_at"]], keys_v0)
            table[without, AT["timestamp"]] = TimestampType.NONE
            table[without, AT["timestamp_type"]] = TimestampType.NONE
        return None

    def _fill(self, window: "Held | Window", header: BatchHeader) -> None:
        if window.start == 0 and window.filled == len(window.buffer):
            self._accumulator.check_growth(window.filled, header.position)
        window.fill()


@dataclass(slots=True)
class Held:
    """Decompressed bytes that are all there, as a window is: `buffer[start:filled]`."""

    buffer: Any
    start: int
    filled: int
    base: int = 0  # of the buffer's first byte, in the decompressed bytes

    @property
    def remaining(self) -> int:
        return self.filled - self.start

    def fill(self) -> None:
        """There is no more."""


class _Decoded:
    """A decoder's output. Its errors name the batch: a position in compressed data is of no use."""

    def __init__(self, header: BatchHeader, stretch: Stretch, window: memoryview) -> None:
        self._position = header.position

        def pull() -> memoryview:
            return window[: stretch.read_into(window)]

        self._decoder: Decoder = open_decoder(header.codec, pull, magic=header.magic)

    def read_into(self, target: memoryview) -> int:
        try:
            return self._decoder.read_into(target)
        except CorruptRecordsError as error:
            raise CorruptRecordsError(error.reason, self._position) from error


def _decompressed(header: BatchHeader, data: memoryview) -> Any:
    """All of it; None where it is large, or damaged: then it is read through a window, up to the
    damage."""
    try:
        return decompress(header.codec, data, limit=BUFFER_SIZE, magic=header.magic)
    except CorruptRecordsError:
        return None


def _damage(transcoder: Any, header: BatchHeader, window: Held | Window) -> CorruptRecordsError:
    reason, index = transcoder.damage or ("damaged", window.start)
    return CorruptRecordsError(reason, header.position, inside=window.base + index)
