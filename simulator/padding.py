"""Takes the padding out of an answer, so that it can be compared with one that has none."""

from records import Codec, MemoryRecords
from records.formats import V2
from records.wrapper import unpadded


def without_padding(data: bytes | bytearray | memoryview) -> bytes:
    """Compressed messages of v0 and v1 with null for their keys; all else, and what follows the
    last whole message, as it is."""
    parts: list[bytes] = []
    end = 0
    for header in MemoryRecords(data).batches():
        end = header.position + header.size
        message = bytes(data[header.position : end])
        is_wrapper = header.magic < V2 and header.codec is not Codec.NONE
        parts.append(unpadded(message) if is_wrapper else message)
    return b"".join([*parts, bytes(data[end:])])
