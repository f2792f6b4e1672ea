"""The checksum of an entry: CRC-32C of a v2 batch, CRC-32 of a v0 or v1 message.

It is computed a window at a time, so a batch of any size needs no memory.

Not here: the checksums of messages inside a compressed one (reader.py; downconvert)."""

from collections.abc import Iterator
from typing import Final

from .backend import crc32
from .batch import BatchHeader
from .crc32c import crc32c
from .errors import CorruptRecordsError
from .files.source import Records
from .files.window import Stretch
from .formats import ATTRIBUTES_AT_BATCH, MAGIC_AT, V2
from .units import KiB

WINDOW_SIZE: Final = 64 * KiB  # bytes
MISMATCH: Final = "checksum does not match"


def verify_checksum(records: Records, header: BatchHeader) -> None:
    """Reads the whole entry. CorruptRecordsError: its checksum does not match.

    The checksum does not cover offset, size and the leader epoch of v2, so that brokers may change
    them."""
    view, end = records.view, header.position + header.size
    if view is not None and header.size <= WINDOW_SIZE and end <= len(view):
        check_entry(view, header.position, header, records.origin + header.position)
        return
    for _ in verifying(records, header):
        pass


def verifying(records: Records, header: BatchHeader) -> Iterator[int]:
    """As `verify_checksum`, in steps. Yields the number of bytes that each step has read."""
    covered = ATTRIBUTES_AT_BATCH if header.magic == V2 else MAGIC_AT
    stretch = Stretch(records, header.position + covered, header.position + header.size)
    window = memoryview(bytearray(min(WINDOW_SIZE, header.size - covered)))
    is_batch = header.magic == V2
    crc = 0
    while read := stretch.read_into(window):
        crc = crc32c(window[:read], crc) if is_batch else crc32(window, 0, read, crc)
        yield read
    if crc != header.crc:
        raise CorruptRecordsError(MISMATCH, records.origin + header.position)


def check_entry(view: memoryview, at: int, header: BatchHeader, position: int) -> None:
    """As `verify_checksum`, for the entry at `view[at:]`; `position` is for the error."""
    end = at + header.size
    if header.magic == V2:
        crc = crc32c(view[at + ATTRIBUTES_AT_BATCH : end])
    else:
        crc = crc32(view, at + MAGIC_AT, end)
    if crc != header.crc:
        raise CorruptRecordsError(MISMATCH, position)
