"""No compression, with the interface of a codec: the output is the input."""

from collections.abc import Iterator
from typing import Final

from records.kernel import Buffer

from .stream import CodecLevel, Encoder, Windows

PIECE_SIZE_MAX: Final = 2**31  # every window is a piece


def pieces(windows: Windows, _magic: int) -> Iterator[Buffer]:
    while piece := windows.some(PIECE_SIZE_MAX):
        yield piece


def decompress(data: Buffer, limit: int, _magic: int) -> Buffer | None:
    return data if len(data) <= limit else None


def compress(data: Buffer, _magic: int, _level: CodecLevel) -> bytes:
    return bytes(data)


def open_encoder(_magic: int, _level: CodecLevel) -> Encoder:
    return _Through()


class _Through:
    def write(self, data: Buffer) -> bytes:
        return bytes(data)

    def finish(self) -> bytes:
        return b""
