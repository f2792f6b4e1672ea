"""Counts the records that a transcoder has kept, and checks which record may follow.

Not here: reading the records (items.py)."""

from typing import Final

from records.formats import MESSAGE_OVERHEAD, NO_TIMESTAMP, PREFIX, V1
from records.kernel import Outcome

from .call import Damaged, Stop
from .places import Inside, wrapped

INT32_MAX: Final = 2**31 - 1
EMPTY_WRAPPER: Final = (0, -1, -1, NO_TIMESTAMP, 0)

Wrapper = tuple[int, int, int, int, int]  # records, first and last offset, latest timestamp, bytes


class Account:
    """The totals and counts of the current batch and wrapper, for transcode and measure."""

    def __init__(self) -> None:
        self.records = 0
        self.batches = 0
        self.source_bytes = 0
        self.produced_bytes = 0
        self.copied_bytes = 0
        self.decompressed_bytes = 0  # of recoded entries
        self.wrapper: Wrapper = EMPTY_WRAPPER
        self.first_offset: int | None = None  # of this batch
        self.last_offset: int | None = None

    @property
    def totals(self) -> tuple[int, int, int, int, int]:
        return (
            self.records,
            self.batches,
            self.source_bytes,
            self.produced_bytes,
            self.copied_bytes,
        )

    def start_batch(self) -> None:
        self.first_offset = self.last_offset = None

    def start_wrapper(self) -> None:
        self.wrapper = EMPTY_WRAPPER

    def check(
        self, place: Inside, offset: int, timestamp: int, key_size: int, value_size: int
    ) -> None:
        """Rule 5 of records: whether this record may follow the last one kept of the batch."""
        check_timestamp(timestamp)
        if self.last_offset is not None and offset <= self.last_offset:
            raise Damaged("offset does not increase")
        if self.first_offset is not None and offset - self.first_offset > INT32_MAX:
            raise Damaged("offset delta is too large")
        size = (
            MESSAGE_OVERHEAD[place.to_magic] - PREFIX.size + max(key_size, 0) + max(value_size, 0)
        )
        if size > INT32_MAX:
            raise Damaged("record is too large for a message")

    def check_gap(self, place: Inside, offset: int) -> None:
        """Rule 6 of records: whether the record at this offset may be in the wrapper."""
        records, _, last_offset, _, _ = self.wrapper
        may_split = place.is_wrapper and place.split_at_gaps and place.to_magic == V1
        if may_split and records and offset != last_offset + 1:
            raise Stop(Outcome.GAP)

    def relative(self, place: Inside, offset: int) -> int:
        """The offset to write in the next message."""
        if not (place.is_wrapper and place.to_magic == V1):
            return offset
        records, first_offset, _, _, _ = self.wrapper
        return wrapped(offset - first_offset) if records else 0

    def keep(self, place: Inside, offset: int, timestamp: int, message_size: int) -> None:
        """Counts a record of a batch, or an entry of a message, that has become a message."""
        self.records += 1
        self.produced_bytes += message_size
        if not place.has_kept:
            place.has_kept = True
            self.batches += 1
            self.source_bytes += place.source_size
        if self.first_offset is None:
            self.first_offset = offset
        self.last_offset = offset
        if place.is_wrapper:
            records, first_offset, _, latest, size = self.wrapper
            self.wrapper = (
                records + 1,
                first_offset if records else offset,
                offset,
                max(latest, timestamp),
                size + message_size,
            )

    def keep_message(self, source_size: int, message_size: int) -> None:
        """Counts an uncompressed message of a log that has become another."""
        self.records += 1
        self.batches += 1
        self.source_bytes += source_size
        self.produced_bytes += message_size


def check_timestamp(timestamp: int) -> None:
    if timestamp < NO_TIMESTAMP:
        raise Damaged("negative timestamp")
