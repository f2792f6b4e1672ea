"""Reading hostile bytes raises only errors about invalid records."""

import gzip
import random
from collections.abc import Callable
from contextlib import suppress

import pytest

from records import CorruptRecordsError, MemoryRecords
from records.batches.reader import read_batch
from records.formats import V0, V1
from tests import corpus

from .examples import batch, message, record, wrapper
from .reading import GZIP, LOG_APPEND

SMALL = 20_000  # bytes: of segments that are mutated
NUMBERS = [n.to_bytes(4, "big", signed=True) for n in (-1, 0, 2**31 - 1, -(2**31))]


def read_to_the_end(data: bytes) -> None:
    """Reads everything that can be read, past damage inside of batches."""
    records = MemoryRecords(data)
    end = 0
    with suppress(CorruptRecordsError):
        for header in records.batches():
            end = header.position + header.size
            damage = None
            try:
                for found in read_batch(records, header, verify=False):
                    assert -(2**63) <= found.offset < 2**63
            except CorruptRecordsError as error:
                damage = error.position
            assert damage is None or header.position <= damage <= end
    assert end <= len(data)


def mutated(data: bytes, chance: random.Random) -> bytes:
    """Flipped bits, other lengths and counts, bytes cut off or spliced in."""
    changed = bytearray(data)
    for _ in range(chance.randint(1, 4)):
        at = chance.randrange(min(len(changed), chance.choice((30, 100, len(changed)))))
        match chance.randrange(5):
            case 0:
                changed[at] ^= 1 << chance.randrange(8)
            case 1:
                changed[at] = chance.choice(b"\0\1\x7f\x80\xff")
            case 2:
                changed[at : at + 4] = chance.choice(NUMBERS)
            case 3:
                del changed[at + 1 :]
            case 4:
                start = chance.randrange(len(changed))
                changed[at:at] = changed[start : start + chance.randrange(20)]
    return bytes(changed)


@pytest.mark.parametrize("name", [n for n in corpus.inputs() if 0 < len(corpus.segment(n)) < SMALL])
def test_a_mutated_segment_is_read_up_to_its_damage(name: str) -> None:
    segment = corpus.segment(name)
    entries = [
        segment[header.position : header.position + header.size]
        for header in MemoryRecords(segment).batches()
    ]
    chance = random.Random(name)
    for _ in range(50):
        read_to_the_end(mutated(chance.choice(entries or [segment]), chance) + segment[:1000])


def messages(magic: int, chance: random.Random) -> bytes:
    inner = b"".join(message(chance.choice((magic, V0, V1)), n * 3) for n in range(4))
    attributes = chance.choice((0, LOG_APPEND))
    offset = chance.choice((0, 9, 2**62))
    return wrapper(magic, offset, mutated(inner, chance), attributes=attributes)


def records(_: int, chance: random.Random) -> bytes:
    inner = b"".join(record(n, headers=[(b"h", None)] * n) for n in range(4))
    return batch(
        compressed=gzip.compress(mutated(inner, chance)),
        records_count=chance.choice((3, 4, 5, 2**31 - 1)),
        base_offset=chance.choice((0, 2**63 - 2)),
        attributes=GZIP | chance.choice((0, LOG_APPEND)),
    )


@pytest.mark.parametrize(("make", "magic"), [(messages, V0), (messages, V1), (records, 2)])
def test_mutated_records_in_good_compressed_data_are_read_up_to_their_damage(
    make: Callable[[int, random.Random], bytes], magic: int
) -> None:
    chance = random.Random(magic)
    for _ in range(2000):
        read_to_the_end(make(magic, chance))
