"""Counts the records that a transcoder has kept, and checks which record may follow.

Not here: reading the records (items.py)."""

from typing import Final

from records.formats import MESSAGE_OVERHEAD, NO_TIMESTAMP, PREFIX, V1
from records.kernel import Outcome

from .call import Damaged, Stop
from .places import Inside, wrapped

INT32_MAX: Final = 2**31 - 1
EMPTY_WRAPPER: Final = (0, -1, -1, NO_TIMESTAMP)

Wrapper = tuple[int, int, int, int]  # records, first and last offset, latest timestamp


class Account:
    """The totals and counts of the current batch and wrapper, for transcode and measure."""

    def __init__(self) -> None:
        self.records = 0
        self.batches = 0
        self.temporary_bytes = 0
        self.decompressed_bytes = 0  # of recoded entries
        self.wrapper: Wrapper = EMPTY_WRAPPER
        self.first_offset: int | None = None  # of this batch
        self.last_offset: int | None = None

    @property
    def totals(self) -> tuple[int, int, int, int]:
        return self.records, self.batches, self.temporary_bytes, self.decompressed_bytes

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
        content = max(key_size, 0) + max(value_size, 0)
        if MESSAGE_OVERHEAD[place.to_magic] - PREFIX.size + content > INT32_MAX:
            raise Damaged("record is too large for a message")

    def offset_in(self, place: Inside, offset: int, *, split_at_gaps: bool) -> int:
        """Rule 6 of records. Returns the offset to write in the next message."""
        records, first_offset, last_offset, _ = self.wrapper
        if not (place.is_wrapper and place.to_magic == V1):
            return offset
        if not records:
            return 0
        if split_at_gaps and offset != last_offset + 1:
            raise Stop(Outcome.GAP)
        return wrapped(offset - first_offset)

    def keep(self, place: Inside, offset: int, timestamp: int, message_size: int) -> None:
        """Counts a record of a batch, or an entry of a message, that has become a message."""
        if self.first_offset is None:
            self.first_offset = offset
            self.batches += 1
            self.temporary_bytes += place.source_size
        self.last_offset = offset
        self.records += 1
        self.temporary_bytes += message_size
        if place.is_wrapper:
            records, first_offset, _, latest = self.wrapper
            self.wrapper = (
                records + 1,
                first_offset if records else offset,
                offset,
                max(latest, timestamp),
            )

    def keep_message(self, source_size: int, message_size: int) -> None:
        """Counts an uncompressed message of a log that has become another."""
        self.records += 1
        self.batches += 1
        self.temporary_bytes += source_size + message_size


def check_timestamp(timestamp: int) -> None:
    if timestamp < NO_TIMESTAMP:
        raise Damaged("negative timestamp")
