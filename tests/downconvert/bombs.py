"""Small segments that are large inside: written piece by piece, never held.

The checksum is left zero: conversion does not verify it, as Kafka's does not."""

import zlib
from collections.abc import Iterator
from pathlib import Path

from records.codecs import open_encoder
from records.formats import BATCH_HEADER, Codec
from records.varint import varint

MB = 1_000_000


def record(index: int, size: int) -> Iterator[bytes]:
    """A v2 record of `size` bytes of value, in pieces."""
    head = bytes([0, 0]) + varint(index) + varint(-1) + varint(size)
    yield varint(len(head) + size + 1) + head
    for _ in range(size // MB):
        yield b"v" * MB
    yield b"v" * (size % MB) + b"\0"


def write_bomb(path: Path, codec: Codec, records_count: int, record_size: int) -> None:
    """One v2 batch of repetitive records."""
    with path.open("wb") as file:
        file.write(bytes(BATCH_HEADER.size))
        encoder = zlib.compressobj(9, wbits=31) if codec is Codec.GZIP else None
        other = None if encoder else open_encoder(codec, magic=2, effort="kafka")
        for index in range(records_count):
            for piece in record(index, record_size):
                file.write(encoder.compress(piece) if encoder else other.write(piece))
        file.write(encoder.flush() if encoder else other.finish())
        size = file.tell() - 12
        file.seek(0)
        file.write(
            BATCH_HEADER.pack(
                0, size, 0, 2, 0, codec, records_count - 1, 0, 0, -1, -1, -1, records_count
            )
        )
