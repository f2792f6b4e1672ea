"""A log of arbitrary batches, and the records that clients are to get of it.

All formats and codecs, in any order; contents that compress to a thousandth or not at all, or in
zstd alone; gaps in the offsets, batches without records, markers; records larger than any window.

Not here: who reads it (world.py)."""

from collections.abc import Callable
from random import Random
from typing import Final, NamedTuple, TypeAlias

from records import Codec, Record, TimestampType, build, build_empty, build_marker
from records.batches.control import ControlRecordType
from records.formats import NO_TIMESTAMP, V0, V1, V2

LEGACY_CODECS: Final = (Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4)
SIZES: Final = (0, 20, 20, 300, 300, 2_000)
LARGE_SIZES: Final = (*SIZES, 20_000, 70_000, 200_000)
FAR: Final = 36_000  # bytes between what is repeated: zstd finds it again, gzip and snappy do not

Found: TypeAlias = tuple[int, bytes | None, bytes | None]  # offset, key, value
Content: TypeAlias = Callable[[Random, int], bytes]


class AnyLog(NamedTuple):
    """start: its first offset. data: its bytes. truth: what consumers are to get, in order."""

    start: int
    data: bytes
    truth: tuple[Found, ...]


def _zeros(_: Random, size: int) -> bytes:
    return bytes(size)


def _noise(random: Random, size: int) -> bytes:
    return random.randbytes(size)


def _half(random: Random, size: int) -> bytes:
    return random.randbytes(size // 2).ljust(size, b"-")


def _text(random: Random, size: int) -> bytes:
    return (b'{"page":"/%d","of":"%d"}' % (random.randrange(99), random.randrange(9)) * size)[:size]


CONTENTS: Final[tuple[Content, ...]] = (_zeros, _noise, _half, _text)


def any_log(random: Random, *, is_large: bool, has_zstd: bool = True) -> AnyLog:
    """Some batches. `is_large`: up to megabytes, where the usual log has kilobytes."""
    offset = start = random.choice((0, 0, 7, 2**31 - 20))
    parts: list[bytes] = []
    truth: list[Found] = []
    for _ in range(random.choice((1, 2, 4, 8, 16))):
        kind = random.random()
        if kind < 0.06:
            parts.append(build_empty(base_offset=offset, last_offset=offset + 2))
            offset += 3
        elif kind < 0.12:
            end = random.choice((ControlRecordType.ABORT, ControlRecordType.COMMIT))
            parts.append(build_marker(end, offset=offset, timestamp=1, producer_id=1))
            offset += 1
        else:
            records = _records(random, offset, is_large=is_large)
            parts.append(_batch(random, records, has_zstd=has_zstd))
            truth += ((each.offset, each.key, each.value) for each in records)
            offset = records[-1].offset + random.choice((1, 1, 1, 5))
    return AnyLog(start, b"".join(parts), tuple(truth))


def _batch(random: Random, records: list[Record], *, has_zstd: bool) -> bytes:
    magic = random.choice((V2, V2, V2, V2, V1, V0))
    codecs = tuple(Codec) if magic == V2 and has_zstd else LEGACY_CODECS
    if magic == V0:
        records = [
            Record(each.offset, NO_TIMESTAMP, TimestampType.NONE, each.key, each.value)
            for each in records
        ]
    return build(records, magic=magic, codec=random.choice(codecs))


def _records(random: Random, offset: int, *, is_large: bool) -> list[Record]:
    if is_large and random.random() < 0.1:
        return _far(random, offset)
    content = random.choice(CONTENTS)
    sizes = LARGE_SIZES if is_large else SIZES
    size, count = random.choice(sizes), random.choice((1, 1, 2, 5, 20))
    if size * count > 1_000_000:
        count = 5
    is_alike = random.random() < 0.7
    records = []
    for number in range(count):
        key = random.choice((None, b"", b"key"))
        value = content(random, size if is_alike else random.choice(sizes))
        records.append(
            Record(offset, number, TimestampType.CREATE, key, value if value or key else None)
        )
        offset += random.choice((1, 1, 1, 1, 3)) if number % 4 == 3 else 1
    return records


def _far(random: Random, offset: int) -> list[Record]:
    """Bytes that zstd makes small, and gzip does not."""
    value = random.randbytes(FAR)
    return [Record(offset + n, n, TimestampType.CREATE, None, value) for n in range(6)]
