"""Segments for measurements: the same bytes on every machine, in every shape that figures use.

Values of the plain shapes are half random and half a cycle of seven letters, so codecs find some
redundancy, and a higher level finds no more. Events are JSON like the logs of services, and
compress better at a higher level. A segment is built once, with `records.build`, and kept in
`build/segments`."""

import json
import os
import uuid
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Final, TypeAlias

from records.batches.builder import build
from records.formats import V2, Codec, TimestampType
from records.record import Record
from records.units import MiB

BATCH_SIZE: Final = 16_384  # batch.size, a producer's default
RECORD_OVERHEAD: Final = (
    12  # of a record in a batch, about: sizes, deltas, attributes, header count
)
SEED: Final = 283
FIRST_TIMESTAMP: Final = 1_700_000_000_000

CACHE: Final = Path(__file__).parents[2] / "build" / "segments"

Headers: TypeAlias = tuple[tuple[str, bytes | None], ...]
Content: TypeAlias = tuple[bytes | None, bytes | None, Headers]
Contents: TypeAlias = Callable[[Random], Iterator[Content]]


@dataclass(frozen=True, slots=True)
class Shape:
    """The records of a segment. `size`: before compression. If `batch_size` is 0, each batch has
    one record."""

    name: str
    codec: Codec
    size: int
    contents: Contents
    batch_size: int = BATCH_SIZE


def plain(value_size: int) -> Contents:
    """Keys of 8 bytes, and values of `value_size` bytes."""
    random_size = value_size // 2
    cycle = (b"abcdefg" * (value_size // 7 + 2))[: value_size - random_size]

    def contents(random: Random) -> Iterator[Content]:
        while True:
            yield random.randbytes(8), random.randbytes(random_size) + cycle, ()

    return contents


def with_header(random: Random) -> Iterator[Content]:
    """100 bytes, and a header as from a tracing library."""
    for key, value, _ in plain(100)(random):
        yield key, value, (("traceparent", random.randbytes(16)),)


def mixed(random: Random) -> Iterator[Content]:
    """Records of 10 B to 10 KB, the same number of each order of magnitude. Some have null keys or
    headers, and a few are tombstones."""
    noise = random.randbytes(2 * 10_240)
    while True:
        size = int(10 * 1024 ** random.random())
        at = random.randrange(10_240)
        key = None if random.random() < 0.3 else random.randbytes(random.randrange(1, 33))
        value = None if random.random() < 0.02 else noise[at : at + size]
        headers = tuple(
            (f"header-{n}", None if random.random() < 0.1 else noise[at : at + 16])
            for n in range(random.choice((0, 0, 0, 1, 2, 3)))
        )
        yield key, value, headers


def events(random: Random) -> Iterator[Content]:
    """Reports of a shop's front end about its visitors."""
    kinds = ("page_view", "page_view", "page_view", "search", "add_to_cart", "checkout", "click")
    agents = tuple(
        f"Mozilla/5.0 ({system}) AppleWebKit/537.36 (KHTML, like Gecko) {browser} Safari/537.36"
        for system in (
            "Windows NT 10.0; Win64; x64",
            "Macintosh; Intel Mac OS X 10_15_7",
            "X11; Linux",
        )
        for browser in ("Chrome/120.0.6099.129", "Chrome/119.0.6045.160", "Edg/120.0.2210.91")
    )
    sections = ("books", "music", "garden", "kitchen", "outdoor", "toys", "electronics", "pets")
    countries = ("DE", "US", "GB", "FR", "NL", "JP", "BR", "IN", "SE", "PL")
    milliseconds = FIRST_TIMESTAMP
    while True:
        milliseconds += random.randrange(40)
        user = random.randrange(2_000_000)
        section = random.choice(sections)
        event = {
            "event_id": str(uuid.UUID(int=random.getrandbits(128), version=4)),
            "time": milliseconds,
            "type": random.choice(kinds),
            "user": {
                "id": user,
                "session": f"{random.getrandbits(64):016x}",
                "country": random.choice(countries),
                "agent": random.choice(agents),
            },
            "page": {
                "path": f"/{section}/{random.randrange(40_000)}",
                "referrer": random.choice(("", "search", f"/{random.choice(sections)}")),
                "load_ms": int(random.gammavariate(3.0, 120.0)),
            },
            "basket": [
                {"sku": f"{section[:3].upper()}-{random.randrange(9999):04}", "count": 1 + n % 3}
                for n in range(random.choice((0, 0, 0, 1, 2, 4)))
            ],
            "is_member": random.random() < 0.4,
        }
        yield str(user).encode(), json.dumps(event, separators=(",", ":")).encode(), ()


SHAPES: Final = {
    shape.name: shape
    for shape in (
        Shape("none-100", Codec.NONE, 64 * MiB, plain(100)),
        Shape("header-100", Codec.NONE, 64 * MiB, with_header),
        Shape("none-1000", Codec.NONE, 64 * MiB, plain(1000)),
        Shape("single-100", Codec.NONE, 64 * MiB, plain(100), batch_size=0),
        Shape("single-1000", Codec.NONE, 64 * MiB, plain(1000), batch_size=0),
        Shape("mixed", Codec.NONE, 64 * MiB, mixed),
        Shape("gzip-100", Codec.GZIP, 16 * MiB, plain(100)),
        Shape("gzip-1000", Codec.GZIP, 16 * MiB, plain(1000)),
        Shape("gzip-json", Codec.GZIP, 16 * MiB, events),
        Shape("lz4-100", Codec.LZ4, 32 * MiB, plain(100)),
        Shape("snappy-100", Codec.SNAPPY, 32 * MiB, plain(100)),
        Shape("zstd-100", Codec.ZSTD, 32 * MiB, plain(100)),
    )
}


def segment(shape: Shape, *, size: int | None = None, directory: Path = CACHE) -> Path:
    """The file of a shape, built if it does not exist."""
    size = size or shape.size
    recipe = zlib.crc32(Path(__file__).read_bytes())  # a change of this file makes new segments
    path = directory / f"{shape.name}-{size}-{recipe:08x}.log"
    if not path.exists():
        directory.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_suffix(f".{os.getpid()}")
        with unfinished.open("wb") as file:
            for records in batches(shape, size):
                file.write(build(records, magic=V2, codec=shape.codec))
        unfinished.rename(path)
    return path


def batches(shape: Shape, size: int) -> Iterator[list[Record]]:
    """Records in batches, until they are `size` bytes."""
    batch: list[Record] = []
    batch_size = total = 0
    for offset, (key, value, headers) in enumerate(shape.contents(Random(SEED))):
        record = Record(
            offset=offset,
            timestamp=FIRST_TIMESTAMP + offset,
            timestamp_type=TimestampType.CREATE,
            key=key,
            value=value,
            headers=headers,
        )
        record_size = RECORD_OVERHEAD + len(key or b"") + len(value or b"") + 32 * len(headers)
        if batch and batch_size + record_size > shape.batch_size:
            yield batch
            batch, batch_size = [], 0
            if total >= size:
                return
        batch.append(record)
        batch_size += record_size
        total += record_size
