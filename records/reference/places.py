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
from records.kernel import UNKNOWN, Buffer

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
    is_wrapper: bool  # the messages written will be compressed into one message
    source_size: int  # in a log. 0 for entered data


@dataclass(slots=True)
class Batch(Inside):
    """The place in the records of a v2 batch."""

    base_offset: int
    base_timestamp: int
    records_left: int
    bytes_left: int  # UNKNOWN if they are decompressed

    @classmethod
    def of(cls, header: Header, to_magic: int, *, is_wrapper: bool, in_log: bool) -> Self:
        size = PREFIX.size + header.size
        return cls(
            to_magic,
            header.append_time,
            is_wrapper,
            size if in_log else 0,
            header.base_offset,
            header.base_timestamp,
            max(header.records_count, 0),
            size - BATCH_HEADER_SIZE if in_log else UNKNOWN,
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
