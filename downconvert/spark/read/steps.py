"""Reads one entry step by step: a large, damaged or unusual one.

The bytes go through a window, so a decompression bomb takes no more memory. The window grows only
for a larger record, while its bytes are read, up to a limit.

Not here: ordinary entries (rows.py), the windows (records/batches/batch_reader.py)."""

from collections.abc import Iterator
from operator import attrgetter
from typing import Any, Final

import numpy as np

from downconvert.spark.plan.gather import AT, FIELDS, Gatherer
from records import BatchHeader, CorruptRecordsError, Records, RecordTooLargeError, TimestampType
from records.backend import make_inner_records
from records.batches.batch_reader import BatchReader, is_message
from records.checksum import MISMATCH
from records.files.window import Window
from records.formats import V0
from records.kernel import ROW_SIZE

WINDOW_SIZE: Final = 256 * 1024  # bytes; stays in a core's own cache until its rows are in columns

# No smaller limit applies: ordinary entries are of this size, also decompressed.
RECORD_BYTES_MIN: Final = 1024 * 1024

TIMES: Final = attrgetter("timestamp", "timestamp_type")


class StepReader:
    """Adds the records of entries to columns."""

    def __init__(
        self, records: Records, gatherer: Gatherer, record_bytes_max: int, *, verify: bool
    ) -> None:
        """`verify`: whether checksums inside compressed messages are compared."""
        limit = max(record_bytes_max, RECORD_BYTES_MIN)
        self._reader = BatchReader(records, False, limit, WINDOW_SIZE)
        self._gatherer = gatherer
        self._record_bytes_max = record_bytes_max
        self._verify = verify

    def read(self, header: BatchHeader, entry: memoryview | None) -> Iterator[Any]:
        """Yields record batches as they fill up. `entry`: its bytes, if they are in memory.

        CorruptRecordsError is raised after all records before the damage were added. A damaged
        compressed v1 message adds none: only its last inner message determines the offsets."""
        try:
            for size, window in self._reader.parts(header, entry):
                rows, damage = self._reader.buffer[:size], None
                if is_message(header):
                    count, damage = self._checked(rows, window, header)
                    rows = rows[: count * ROW_SIZE]
                yield from self._gatherer.add(rows, window.buffer)
                if damage is not None:
                    raise damage
        except RecordTooLargeError as error:
            raise CorruptRecordsError(
                f"a record is larger than {self._record_bytes_max} bytes, which the option "
                "maxRecordBytes allows",
                header.position,
            ) from error

    def _checked(
        self, rows: memoryview, window: Window, header: BatchHeader
    ) -> tuple[int, CorruptRecordsError | None]:
        """Checks inner messages, which the kernel does not do here. Returns the number of messages
        before the first wrong checksum, and the error for that one. Messages of v0 stay without a
        timestamp, even if the outer message has one."""
        table = np.frombuffer(rows, np.int64).reshape(-1, FIELDS)
        if header.magic == V0:
            table[:, AT["timestamp_type"]] = TimestampType.NONE
        kind = header.timestamp_type
        if not (self._verify or kind is TimestampType.LOG_APPEND):
            return len(table), None
        found, at = make_inner_records(
            rows, 0, len(rows), window.buffer, window.start, kind, self._verify
        )
        times = np.array(list(map(TIMES, found)), np.int64).reshape(-1, 2)
        table[: len(found), [AT["timestamp"], AT["timestamp_type"]]] = times
        damage = window.damage(MISMATCH, at) if len(found) < len(table) else None
        return len(found), damage
