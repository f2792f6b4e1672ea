"""Valid batches that expand to far more than their size. A converter must survive them.

They are written through a codec's stream, so building one needs little memory, too."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from crc32c import crc32c

from records import Codec
from records.codecs import open_encoder
from records.formats import ATTRIBUTES_AT_BATCH, BATCH_HEADER, CRC_AT_BATCH, PREFIX, V2
from records.varint import varint

PIECE: Final = b"v" * 65536  # compresses best: 900 MB are 893 KB of gzip
TIMESTAMP: Final = 1_700_000_000_000
NO_PRODUCER: Final = (-1, -1, -1)


def bomb(path: Path, codec: Codec, *, records: int, value_size: int) -> Path:
    """One v2 batch of so many records with a value of `value_size` bytes."""
    encoder = open_encoder(codec, magic=V2, compression_level="kafka")
    pieces = [encoder.write(piece) for n in range(records) for piece in record(n, value_size)]
    body = b"".join((*pieces, encoder.finish()))
    size = BATCH_HEADER.size - PREFIX.size + len(body)
    times = (TIMESTAMP, TIMESTAMP)
    fields = (0, size, -1, V2, 0, codec, records - 1, *times, *NO_PRODUCER, records)
    header = bytearray(BATCH_HEADER.pack(*fields))
    crc = crc32c(body, crc32c(header[ATTRIBUTES_AT_BATCH:]))
    header[CRC_AT_BATCH:ATTRIBUTES_AT_BATCH] = crc.to_bytes(4, "big")
    path.write_bytes(header + body)
    return path


def record(offset_delta: int, value_size: int) -> Iterator[bytes]:
    """The bytes of a record without key and headers, in pieces."""
    head = b"\0" + varint(0) + varint(offset_delta) + varint(-1) + varint(value_size)
    yield varint(len(head) + value_size + 1) + head
    for at in range(0, value_size, len(PIECE)):
        yield PIECE[: value_size - at]
    yield varint(0)
