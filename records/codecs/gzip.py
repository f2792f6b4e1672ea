"""gzip, read by the rules of Java's GZIPInputStream, which Kafka uses.

Memory: deflate's window of 32 KiB, and a piece, whatever the data expands to (it can be a
thousandfold).

Sources: RFC 1952, the JDK's GZIPInputStream."""

from collections.abc import Iterator
from struct import Struct
from typing import Final

from records.errors import CorruptRecordsError
from records.kernel import Buffer
from records.units import KiB

from . import deflate
from .stream import CodecLevel, Encoder, Windows, gather, whole

NAME: Final = "gzip"

HEADER: Final = Struct("<2sBBIBB")  # magic, method, flags, time, extra flags, operating system
MAGIC: Final = b"\x1f\x8b"
DEFLATE: Final = 8
FLAG_CHECKSUM: Final = 0x02  # of the header
FLAG_EXTRA: Final = 0x04
FLAG_NAME: Final = 0x08
FLAG_COMMENT: Final = 0x10
SHORT: Final = Struct("<H")
TRAILER: Final = Struct("<II")  # CRC-32 and size modulo 2**32 of the content
# Java ignores data after a member that is shorter than this.
FURTHER_SIZE_MIN: Final = HEADER.size + TRAILER.size + 1

# Bytes that the library gets at once. The number is small, because the library copies unused input.
# It is the same for all windows, so that damage is always found after the same bytes.
INPUT_SIZE: Final = 4096
PIECE_SIZE: Final = 32 * KiB


class _NoMemberError(CorruptRecordsError):
    """No header of a member. This is damage at the beginning of the data, and is ignored after a
    member."""


def pieces(windows: Windows, _magic: int) -> Iterator[Buffer]:
    """The content of all members, one after the other.

    Java's rules. They check the magic, the method, the header's checksum if it has one, and the
    content's CRC and size, but not reserved flags. Another member may follow. Data after a member
    is ignored if it has no gzip header, or no more than 18 bytes."""
    start = windows.position
    _skip_header(windows)
    while True:
        yield from _content(windows, start)
        start = windows.position
        if len(windows.peek(FURTHER_SIZE_MIN)) < FURTHER_SIZE_MIN:
            return
        try:
            _skip_header(windows)
        except _NoMemberError:
            return


def _skip_header(windows: Windows) -> None:
    start = windows.position
    crc = 0

    def take(size: int) -> memoryview:
        nonlocal crc
        item = windows.peek(size)
        if len(item) < size:
            ended = windows.ended()
            raise _NoMemberError(ended.reason, ended.position)
        windows.use(size)
        crc = deflate.crc32(item, crc)
        return item

    magic, method, flags, _, _, _ = HEADER.unpack(take(HEADER.size))
    if magic != MAGIC:
        raise _NoMemberError("not gzip data", start)
    if method != DEFLATE:
        raise _NoMemberError("gzip data of an unknown method", start)
    if flags & FLAG_EXTRA:
        take(SHORT.unpack(take(SHORT.size))[0])
    for flag in FLAG_NAME, FLAG_COMMENT:
        if flags & flag:
            while (end := windows.peek(INPUT_SIZE).tobytes().find(0)) < 0:
                take(INPUT_SIZE)
            take(end + 1)
    expected = crc & 0xFFFF
    if flags & FLAG_CHECKSUM and SHORT.unpack(take(SHORT.size))[0] != expected:
        raise _NoMemberError("gzip header checksum does not match", start)


def _content(windows: Windows, start: int) -> Iterator[bytes]:
    """The content of the member that began at `start`, whose header has been taken."""
    inflater = deflate.inflater()
    crc = size = 0
    while not inflater.eof:
        data: Buffer = windows.peek(INPUT_SIZE)
        if not data:
            raise windows.ended()
        windows.use(len(data))
        while True:
            try:
                piece = inflater.decompress(data, PIECE_SIZE)
            except deflate.DAMAGE:
                raise CorruptRecordsError("gzip data is damaged", start) from None
            if piece:
                crc = deflate.crc32(piece, crc)
                size += len(piece)
                yield piece
            data = inflater.unconsumed_tail
            if inflater.eof or (not data and len(piece) < PIECE_SIZE):
                break
    windows.back(len(inflater.unused_data))
    expected_crc, expected_size = TRAILER.unpack(windows.take(TRAILER.size))
    if crc != expected_crc:
        raise CorruptRecordsError("gzip checksum does not match", start)
    if size & 0xFFFF_FFFF != expected_size:
        raise CorruptRecordsError("gzip size does not match", start)


def decompress(data: Buffer, limit: int, magic: int) -> Buffer | None:
    """Decompresses one valid member as a whole."""
    content = deflate.decompress(data, limit)
    if content is not None:
        return content
    return gather(pieces(whole(data, NAME), magic), limit)


def compress(data: Buffer, _magic: int, compression_level: CodecLevel) -> bytes:
    return deflate.compress(data, compression_level)


def open_encoder(_magic: int, compression_level: CodecLevel) -> Encoder:
    return _Encoder(compression_level)


class _Encoder:
    __slots__ = ("_deflater",)

    def __init__(self, compression_level: CodecLevel) -> None:
        self._deflater = deflate.deflater(compression_level)

    def write(self, data: Buffer) -> bytes:
        return self._deflater.compress(data)

    def finish(self) -> bytes:
        return self._deflater.flush()
