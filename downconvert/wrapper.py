"""Compressed v0 and v1 messages: one message whose value is other messages, compressed.

Its head states the size and the CRC of all of it, so that it is complete before its first byte
can be sent; how large it may grow is the caller's limit. Format: kafka-facts 1.3,
docs/formats.md.

Not here: the messages inside (the kernel writes them), when a wrapper ends (converter.py)."""

from typing import Final

from records.backend import crc32
from records.codecs import Effort, Encoder, compress, open_encoder
from records.formats import (
    CRC_AT_LEGACY,
    LOG_APPEND_TIME,
    MAGIC_AT,
    MESSAGE_HEAD,
    PREFIX,
    SIZE_FIELD,
    V1,
    Codec,
)

_NULL_KEY: Final = SIZE_FIELD.pack(-1)
_CRC: Final = SIZE_FIELD.size


class Wrapper:
    """One compressed message in the making, written once and closed.

    Messages wait in a buffer that the caller fills: `buffer[:waiting]`. What is there when the
    wrapper is closed is compressed in one go, unless some have been flushed before."""

    __slots__ = (
        "_buffer",
        "_codec",
        "_data",
        "_effort",
        "_encoder",
        "_magic",
        "flushed",
        "waiting",
    )

    def __init__(self, codec: Codec, magic: int, effort: Effort, buffer: memoryview) -> None:
        self._codec = codec
        self._magic = magic
        self._effort = effort
        self._buffer = buffer
        self._encoder: Encoder | None = None
        self._data = bytearray()
        self.waiting = 0
        self.flushed = 0  # bytes of messages that have been compressed

    def flush(self) -> None:
        """Compresses the messages that wait."""
        if self._encoder is None:
            self._encoder = open_encoder(self._codec, magic=self._magic, effort=self._effort)
        self._data += self._encoder.write(self._buffer[: self.waiting])
        self.flushed += self.waiting
        self.waiting = 0

    @property
    def size(self) -> int:
        """Compressed bytes held."""
        return len(self._data)

    def close(self, last_offset: int, timestamp: int, append_time: int | None) -> bytes | bytearray:
        """The whole entry. `timestamp` is the largest inside; `append_time` replaces it under
        LogAppendTime."""
        waiting = self._buffer[: self.waiting]
        data: bytes | bytearray
        if self._encoder is None:
            data = compress(self._codec, waiting, magic=self._magic, effort=self._effort)
        else:
            self._data += self._encoder.write(waiting)
            self._data += self._encoder.finish()
            data = self._data
        attributes = int(self._codec)
        fields: tuple[int, ...] = ()
        if self._magic == V1:
            attributes |= LOG_APPEND_TIME if append_time is not None else 0
            fields = (timestamp if append_time is None else append_time,)
        head = MESSAGE_HEAD[self._magic]
        size = head.size + 2 * SIZE_FIELD.size - PREFIX.size + len(data)
        start = bytearray(
            head.pack(last_offset, size, 0, self._magic, attributes, *fields)
            + _NULL_KEY
            + SIZE_FIELD.pack(len(data))
        )
        crc = crc32(data, 0, len(data), crc32(start, MAGIC_AT, len(start)))
        start[CRC_AT_LEGACY : CRC_AT_LEGACY + _CRC] = crc.to_bytes(_CRC, "big")
        return start + data
