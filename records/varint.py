"""Numbers of variable size: seven bits in a byte, lowest bits first. The top bit is set if more
bytes follow.

Signed ones are zigzag: 0, -1, 1, -2 are written as 0, 1, 2, 3. Kafka's rules (ByteUtils): encodings
that are longer than needed are accepted, and excess bits in the last possible byte are dropped. A
number that continues after that byte is too long.

Not here: the meaning of such numbers (kernel.py: records of v2)."""

from functools import lru_cache
from typing import Final

from .kernel import Buffer

VARINT_SIZE_MAX: Final = 5  # 32 bits, 7 a byte
VARLONG_SIZE_MAX: Final = 10  # 64 bits

_MORE: Final = 0x80
_BITS: Final = 0x7F
REMEMBERED_MAX: Final = 1024  # encodings: most are sizes of fields, which repeat


class VarintError(ValueError):
    """The bytes are not a valid number."""


class VarintCutError(VarintError):
    """The bytes end within a number."""


class VarintTooLongError(VarintError):
    """A number continues after its last possible byte."""


@lru_cache(maxsize=REMEMBERED_MAX)
def varint(number: int) -> bytes:
    """A signed 32-bit number."""
    return _encoded(_zigzag(number, 32))


def varlong(number: int) -> bytes:
    """A signed 64-bit number."""
    return _encoded(_zigzag(number, 64))


def uvarint(number: int) -> bytes:
    """A 32-bit number without zigzag: an unsigned one, or a signed one of Kafka read as
    unsigned."""
    if not -(2**31) <= number < 2**32:
        raise ValueError(f"{number} is no 32-bit number")
    return _encoded(number % 2**32)


def read_varint(source: Buffer, at: int, end: int) -> tuple[int, int]:
    """The signed 32-bit number at `source[at:end]`, and its end."""
    raw, at = _decoded(source, at, end, VARINT_SIZE_MAX)
    return _unzigzag(raw % 2**32), at


def read_varlong(source: Buffer, at: int, end: int) -> tuple[int, int]:
    """The signed 64-bit number at `source[at:end]`, and its end."""
    raw, at = _decoded(source, at, end, VARLONG_SIZE_MAX)
    return _unzigzag(raw % 2**64), at


def _zigzag(number: int, bits: int) -> int:
    if not -(2 ** (bits - 1)) <= number < 2 ** (bits - 1):
        raise ValueError(f"{number} is no {bits}-bit number")
    return 2 * number if number >= 0 else -2 * number - 1


def _unzigzag(raw: int) -> int:
    return raw // 2 if raw % 2 == 0 else -(raw // 2) - 1


def _encoded(raw: int) -> bytes:
    encoded = bytearray()
    while raw > _BITS:
        encoded.append(raw & _BITS | _MORE)
        raw >>= 7
    encoded.append(raw)
    return bytes(encoded)


def _decoded(source: Buffer, at: int, end: int, size_max: int) -> tuple[int, int]:
    raw = 0
    for index in range(size_max):
        if at == end:
            raise VarintCutError("the bytes end inside of a number")
        byte = source[at]
        at += 1
        raw |= (byte & _BITS) << (7 * index)
        if not byte & _MORE:
            return raw, at
    raise VarintTooLongError(f"a number of more than {size_max} bytes")
