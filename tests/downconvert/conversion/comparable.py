"""The part of converted bytes that does not depend on a compressor, to compare conversions."""

from collections.abc import Iterator
from typing import Any

from records import BatchHeader, Codec, MemoryRecords
from records.codecs import decompress
from records.formats import MESSAGE_OVERHEAD


def comparable(converted: bytes) -> Iterator[tuple[Any, ...]]:
    """Yields each entry's bytes, or for a compressed message its head and the bytes inside. Then
    yields the bytes after the last whole entry."""
    end = 0
    for header in MemoryRecords(converted).batches():
        end = header.position + header.size
        entry = converted[header.position : end]
        if header.codec is Codec.NONE or header.magic not in MESSAGE_OVERHEAD:
            yield entry, None
            continue
        start = MESSAGE_OVERHEAD[header.magic]
        inner = decompress(header.codec, entry[start:], limit=2**24, magic=header.magic)
        yield head(header), inner and bytes(inner)
    yield converted[end:], None


def head(header: BatchHeader) -> dict[str, Any]:
    return header._asdict() | dict.fromkeys(("position", "size", "crc"), 0)
