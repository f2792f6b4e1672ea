"""Reading an entry, and reading one up to its damage."""

import gzip

import pytest

from records import CorruptRecordsError, MemoryRecords
from records.batches.reader import Record, read
from records.kernel import Buffer

from .examples import batch

GZIP = 1
LOG_APPEND = 0x08
ORIGIN = 1000  # where entries lie in what they are a slice of, so that positions in errors show it


def all_records(entry: Buffer, *, verify: bool = True) -> list[Record]:
    return list(read(MemoryRecords(entry), verify=verify))


def until_damage(entry: Buffer) -> tuple[int, CorruptRecordsError]:
    """How many records come before the damage, and the damage."""
    reading = read(MemoryRecords(bytes(ORIGIN) + entry).slice(ORIGIN, len(entry)))
    good: list[Record] = []
    with pytest.raises(CorruptRecordsError) as caught:
        good.extend(reading)
    return len(good), caught.value


def gzipped(*records: bytes, **fields: int) -> bytes:
    """A v2 batch whose records are compressed."""
    fields = {"attributes": GZIP, "records_count": len(records), **fields}
    return batch(compressed=gzip.compress(b"".join(records), mtime=0), **fields)
