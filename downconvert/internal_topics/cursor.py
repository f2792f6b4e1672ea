"""A position in untrusted bytes, which only moves forward, by `take`, and never past the end.

A length or a count in the bytes allocates nothing. Every error is an UnreadableRecordError, with a
description and a position.

Not here: the data types (primitives.py; for requests, protocol/decoder.py)."""

from typing import ClassVar, Final

from records import RecordsError

VARINT_BITS: Final = 32


class UnreadableRecordError(RecordsError):
    """A record of a broker's own topic that is damaged, or has an unknown version."""


class Cursor:
    """A position in a record's key or value."""

    error: ClassVar[type[Exception]] = UnreadableRecordError

    __slots__ = ("data", "position")

    def __init__(self, data: memoryview, position: int = 0) -> None:
        self.data = data
        self.position = position

    @property
    def remaining(self) -> int:
        return len(self.data) - self.position

    def take(self, size: int) -> int:
        """Moves forward by `size` bytes. Returns the position where they begin."""
        position = self.position
        if size > len(self.data) - position:
            raise self.error(f"{size} bytes at {position}: only {self.remaining} are left")
        self.position = position + size
        return position

    def text(self, size: int, what: str = "a string") -> str:
        """Reads `size` bytes of UTF-8; `what`: the field's name in an error."""
        start = self.take(size)
        try:
            return str(self.data[start : start + size], "utf-8")
        except UnicodeDecodeError as error:
            raise self.error(f"{what} at {start} is not UTF-8: {error.reason}") from None

    def uvarint(self) -> int:
        """An unsigned variable-length number of at most 32 bits."""
        data, position, end = self.data, self.position, len(self.data)
        value = 0
        for shift in range(0, VARINT_BITS, 7):
            if position == end:
                self.position = position
                self.take(1)  # raises
            byte = data[position]
            position += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                break
        self.position = position
        if byte >= 0x80 or value >> VARINT_BITS:
            raise self.error(f"a number of more than 32 bits before {self.position}")
        return value
