"""Common helpers for tests of codecs: streams cut into windows, and the results of decoding
them."""

import random
from collections.abc import Callable, Iterator
from functools import cache
from itertools import count
from typing import Final

from records.codecs import Pull, decompress, open_decoder
from records.errors import CorruptRecordsError
from records.formats import V0, V1, V2, Codec
from records.kernel import Buffer

CODECS: Final = [  # each in every message format that has it
    (codec, magic)
    for codec in Codec
    for magic in (V0, V1, V2)
    if codec != Codec.ZSTD or magic == V2
]
SIZES: Final = (0, 1, 1000, 65536, 98304, 200001)
ALL: Final = 2**31 - 1  # a limit, or a size, that nothing here reaches


def noise(size: int) -> bytes:
    """Bytes that do not compress."""
    return random.Random(size).randbytes(size)


@cache
def text(size: int) -> bytes:
    """Bytes that compress to about a third."""
    chance = random.Random(size)
    lines = (
        b'{"user": "u-%04d", "n": %d}\n' % divmod(chance.getrandbits(33), 2**20) for _ in count()
    )
    parts: list[bytes] = []
    made = 0
    while made < size:
        parts.append(next(lines))
        made += len(parts[-1])
    return b"".join(parts)[:size]


PAYLOADS: Final[dict[str, Callable[[int], bytes]]] = {"noise": noise, "text": text, "zeros": bytes}


def pull_from(data: bytes, sizes: Iterator[int]) -> Pull:
    """Windows of these sizes. All use the same buffer, so keeping an old window is an error."""
    buffer = bytearray()
    at = 0

    def pull() -> Buffer:
        nonlocal buffer, at
        size = min(next(sizes), len(data) + 1)
        if len(buffer) < size:
            buffer = bytearray(size)
        buffer[:] = b"\xaa" * len(buffer)
        part = data[at : at + size]
        at += len(part)
        buffer[: len(part)] = part
        return memoryview(buffer)[: len(part)]

    return pull


def of(size: int) -> Iterator[int]:
    """Windows, or targets, of one size."""
    while True:
        yield size


def between(low: int, high: int, seed: int) -> Iterator[int]:
    """Windows, or targets, of many sizes."""
    chance = random.Random(seed)
    while True:
        yield chance.randint(low, high)


def decoded(
    codec: Codec,
    data: bytes,
    *,
    magic: int = V2,
    windows: Iterator[int] | None = None,
    targets: Iterator[int] | None = None,
) -> tuple[bytes, tuple[str, int] | None]:
    """The bytes that a decoder returns, and the damage that ends the stream. Without windows and
    targets, the same data is also decompressed at once, with the same result."""
    content, damage = _decoded(codec, data, magic, windows or of(16384), targets or of(16384))
    if windows is None and targets is None:
        assert at_once(codec, data, magic=magic) == (None if damage else content, damage)
    return content, damage


def _decoded(
    codec: Codec, data: bytes, magic: int, windows: Iterator[int], targets: Iterator[int]
) -> tuple[bytes, tuple[str, int] | None]:
    decoder = open_decoder(codec, pull_from(data, windows), magic=magic)
    given = bytearray()
    for size in targets:
        target = memoryview(bytearray(size))
        try:
            read = decoder.read_into(target)
        except CorruptRecordsError as damage:
            return bytes(given), (damage.reason, damage.position)
        if not read:
            break
        given += target[:read]
    return bytes(given), None


def damage(codec: Codec, data: bytes, *, magic: int = V2) -> tuple[str, int] | None:
    """The damage in a stream: the same for decoders, whatever their windows, and for
    `decompress`."""
    content, seen = decoded(codec, data, magic=magic)
    assert decoded(codec, data, magic=magic, windows=of(1)) == (content, seen)
    assert decoded(codec, data, magic=magic, targets=of(1)) == (content, seen)
    return seen


def at_once(
    codec: Codec, data: bytes, *, magic: int = V2
) -> tuple[bytes | None, tuple[str, int] | None]:
    """The result of `decompress`, or the damage that it meets."""
    try:
        content = decompress(codec, memoryview(data), limit=ALL, magic=magic)
    except CorruptRecordsError as met:
        return None, (met.reason, met.position)
    assert content is not None
    return bytes(content), None
