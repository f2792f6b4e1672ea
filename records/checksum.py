"""The checksum of an entry: CRC-32C of a v2 batch, CRC-32 of a v0 or v1 message.

It is computed a window at a time, so that a batch of any size costs no memory.

Not here: the messages inside of a compressed message, which have one each (reader.py)."""

from typing import Final

from .backend import crc32
from .batch import BatchHeader
from .crc32c import crc32c
from .errors import CorruptRecordsError
from .formats import ATTRIBUTES_AT_BATCH, MAGIC_AT, V2
from .source import Records
from .window import Stretch

WINDOW_SIZE: Final = 64 * 1024  # bytes
MISMATCH: Final = "checksum does not match"


def verify_checksum(records: Records, header: BatchHeader) -> None:
    """Reads the whole entry. CorruptRecordsError where its checksum is not that of its bytes.

    Not covered, and free to change: offset and size, and the leader epoch of v2."""
    covered = ATTRIBUTES_AT_BATCH if header.magic == V2 else MAGIC_AT
    stretch = Stretch(records, header.position + covered, header.position + header.size)
    window = memoryview(bytearray(min(WINDOW_SIZE, header.size - covered)))
    is_batch = header.magic == V2
    crc = 0
    while read := stretch.read_into(window):
        crc = crc32c(window[:read], crc) if is_batch else crc32(window, 0, read, crc)
    if crc != header.crc:
        raise CorruptRecordsError(MISMATCH, records.origin + header.position)
