"""The places of a transcoder besides a log: in a batch, or in a message.

Not here: the rules of each place (transcoder.py)."""

from dataclasses import dataclass
from typing import Self

from records.formats import (
    BATCH_HEADER,
    BATCH_HEADER_FIELDS,
    BATCH_HEADER_SIZE,
    LOG_APPEND_TIME,
    PREFIX,
)
from records.kernel import UNKNOWN, Buffer, Recodes

from .items import RecordHead


def wrapped(number: int) -> int:
    """Wraps a sum to a 64-bit integer."""
    return (number + 2**63) % 2**64 - 2**63


@dataclass(frozen=True, slots=True)
class Header:
    """The header of a v2 batch."""

    base_offset: int
    size: int  # of the bytes after the size field
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    records_count: int

    @classmethod
    def read(cls, source: Buffer, at: int) -> Self:
        fields = BATCH_HEADER.unpack_from(source, at)
        return cls(**dict(zip(BATCH_HEADER_FIELDS, fields, strict=True)))

    def ends_before(self, offset: int) -> bool:
        """Whether the whole batch is below an offset, including records that compaction removed.
        Its last offset may be above all existing ones: the sum does not wrap."""
        return self.base_offset + self.last_offset_delta < offset

    @property
    def append_time(self) -> int | None:
        return self.max_timestamp if self.attributes & LOG_APPEND_TIME else None


@dataclass(slots=True)
class Inside:
    """Common state inside of batches and messages."""

    to_magic: int  # of the messages that are written
    append_time: int | None
    trim: bool  # records below the first offset are dropped
    is_wrapper: bool  # the messages written will be compressed into one message
    split_at_gaps: bool
    source_size: int  # in a log. 0 for entered data
    has_kept: bool  # whether a record was kept so far


@dataclass(slots=True)
class Batch(Inside):
    """The place in the records of a v2 batch."""

    base_offset: int
    base_timestamp: int
    records_left: int
    bytes_left: int  # UNKNOWN if they are decompressed

    @classmethod
    def in_log(cls, header: Header, to_magic: int) -> Self:
        return cls(
            to_magic=to_magic,
            append_time=header.append_time,
            trim=True,
            is_wrapper=False,
            split_at_gaps=False,
            source_size=PREFIX.size + header.size,
            has_kept=False,
            base_offset=header.base_offset,
            base_timestamp=header.base_timestamp,
            records_left=header.records_count,
            bytes_left=PREFIX.size + header.size - BATCH_HEADER_SIZE,
        )

    @classmethod
    def decompressed(
        cls, header: Header, to_magic: int, *, is_wrapper: bool, recodes: Recodes
    ) -> Self:
        return cls(
            to_magic=to_magic,
            append_time=header.append_time,
            trim=recodes.trim or not is_wrapper,
            is_wrapper=is_wrapper,
            split_at_gaps=recodes.split_at_gaps,
            source_size=0,
            has_kept=False,
            base_offset=header.base_offset,
            base_timestamp=header.base_timestamp,
            records_left=max(header.records_count, 0),
            bytes_left=UNKNOWN,
        )

    def offset_and_timestamp(self, head: RecordHead) -> tuple[int, int]:
        """Rule 4 of records."""
        offset = wrapped(self.base_offset + head.offset_delta)
        if self.append_time is not None:
            return offset, self.append_time
        return offset, wrapped(self.base_timestamp + head.timestamp_delta)

    def pass_record(self, size: int) -> None:
        self.records_left -= 1
        if self.bytes_left != UNKNOWN:
            self.bytes_left -= size


@dataclass(slots=True)
class Entries(Inside):
    """The place in the entries of a compressed v0 or v1 message."""

    offset_delta: int
