"""Compressed v0 and v1 messages: one message with other messages, compressed, as its value.

Its head states the size and the CRC of the whole message. So the whole message is in memory before
its first byte is sent. The caller limits its size.

Not here: the messages inside (the kernel writes them), when a wrapper ends (body_converter.py), its
format (records.batches.wrapper)."""

from records.batches.wrapper import build_wrapper
from records.codecs import CompressionLevel, Encoder, compress, open_encoder
from records.formats import LOG_APPEND_TIME, V1, Codec
from records.kernel import Buffer


class Wrapper:
    """One compressed message, written once and then closed.

    Messages wait in a buffer that the caller fills: `buffer[:waiting]`. Closing the wrapper
    compresses them all at once, unless some have been flushed before."""

    __slots__ = (
        "_buffer",
        "_codec",
        "_data",
        "_encoder",
        "_level",
        "_magic",
        "flushed",
        "waiting",
    )

    def __init__(
        self, codec: Codec, magic: int, level: CompressionLevel, buffer: memoryview
    ) -> None:
        self._codec = codec
        self._magic = magic
        self._level = level
        self._buffer = buffer
        self._encoder: Encoder | None = None
        self._data = bytearray()
        self.waiting = 0
        self.flushed = 0  # bytes of messages already compressed

    def flush(self) -> None:
        """Compresses the waiting messages."""
        if self._encoder is None:
            self._encoder = open_encoder(
                self._codec, magic=self._magic, compression_level=self._level
            )
        self._data += self._encoder.write(self._buffer[: self.waiting])
        self.flushed += self.waiting
        self.waiting = 0

    def finish(self) -> None:
        """Ends the compressed data: no message can be added any more."""
        if self._encoder is not None:
            self.flush()
            self._data += self._encoder.finish()
            self._encoder = None

    @property
    def size(self) -> int:
        """Compressed bytes held. An encoder may hold more, until the wrapper is finished."""
        return len(self._data)

    def close(self, last_offset: int, timestamp: int, *, is_append_time: bool) -> bytes:
        """The whole entry. `timestamp` is the largest inside: the append time, under
        LogAppendTime."""
        self.finish()
        data: Buffer = self._data
        if not data:
            waiting = self._buffer[: self.waiting]
            data = compress(self._codec, waiting, magic=self._magic, compression_level=self._level)
        attributes = int(self._codec)
        if self._magic == V1 and is_append_time:
            attributes |= LOG_APPEND_TIME
        return build_wrapper(
            data, magic=self._magic, offset=last_offset, attributes=attributes, timestamp=timestamp
        )
