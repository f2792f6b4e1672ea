"""The same bytes as a part of memory, of a file, and of records that have no descriptor."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

from records import FileRecords, MemoryRecords, Records
from tests.downconvert.promises.without_descriptor import WithoutDescriptor


@contextmanager
def parts(data: bytes, directory: Path, random: Random) -> Iterator[tuple[Records, ...]]:
    """The bytes lie somewhere in a file, with others before and after them."""
    before = random.randbytes(random.choice((0, 1, 5_000)))
    path = directory / "00000000000000000000.log"
    path.write_bytes(before + data + random.randbytes(random.choice((0, 100))))
    with FileRecords.open(path) as file:
        part = len(before), len(data)
        memory = MemoryRecords(path.read_bytes()).slice(*part)
        yield memory, file.slice(*part), WithoutDescriptor(file).slice(*part)
