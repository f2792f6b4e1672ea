"""The memory of reading: a record and a window, never a batch."""

import subprocess
import sys
import zlib
from pathlib import Path

import pytest

from records import MemoryRecords, RecordTooLargeError
from records.batches.reader import read
from records.files.window import WINDOW_SIZE
from records.units import MiB

from .examples import batch, message, record
from .reading import GZIP

RECORD_SIZE = 1_000_000  # bytes
RECORDS = 80

# The high-water mark of this process alone; getrusage also counts what it was forked from.
CHILD = """
import sys
from records import FileRecords
from records.batches.reader import read

def peak():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM")) * 1024

with FileRecords.open(sys.argv[1]) as small:
    assert len(list(read(small))) == 1
with FileRecords.open(sys.argv[2]) as log:
    before = peak()
    count = sum(1 for record in read(log))
    print(count, peak() - before)
"""


@pytest.mark.parametrize("kind", ["v2", "v1"])
def test_a_batch_that_expands_to_anything_is_read_in_a_few_of_its_records(
    kind: str, tmp_path: Path
) -> None:
    small, bomb = tmp_path / "small", tmp_path / "bomb"
    small.write_bytes(entry(kind, 1))
    bomb.write_bytes(entry(kind, RECORDS))
    assert bomb.stat().st_size < MiB
    child = subprocess.run(
        [sys.executable, "-c", CHILD, small, bomb], capture_output=True, text=True, check=True
    )
    count, grown = map(int, child.stdout.split())
    assert count == RECORDS
    assert grown <= 8 * MiB


def entry(kind: str, count: int) -> bytes:
    """A compressed batch, or message, of `count` large records."""
    squeeze = zlib.compressobj(1, wbits=31)
    value = bytes(RECORD_SIZE)
    compressed = bytearray()
    for number in range(count):
        if kind == "v2":
            compressed += squeeze.compress(record(number, None, value))
        else:
            compressed += squeeze.compress(message(int(kind[1]), number, None, value))
    compressed += squeeze.flush()
    if kind == "v2":
        return batch(compressed=bytes(compressed), attributes=GZIP, records_count=count)
    return message(int(kind[1]), count - 1, None, bytes(compressed), attributes=GZIP)


@pytest.mark.parametrize("kind", ["v2", "v1"])
def test_a_record_above_the_limit_is_refused_and_not_held(kind: str) -> None:
    log = MemoryRecords(entry(kind, 2))
    assert len(list(read(log, record_size_max=RECORD_SIZE + 100))) == 2
    with pytest.raises(RecordTooLargeError, match="larger than record_size_max"):
        list(read(log, record_size_max=100_000))


@pytest.mark.parametrize("kind", ["v2", "v1"])
def test_a_record_is_refused_when_more_than_its_limit_is_in_memory(kind: str) -> None:
    """A window of exactly the limit may grow once more."""
    size = 20 * WINDOW_SIZE
    value = record(0, None, bytes(size)) if kind == "v2" else message(1, 0, None, bytes(size))
    squeezed = zlib.compress(value, 1, 31)
    log = MemoryRecords(
        batch(compressed=squeezed, attributes=GZIP, records_count=1)
        if kind == "v2"
        else message(1, 0, None, squeezed, attributes=GZIP)
    )
    for limit, held in (
        (2 * WINDOW_SIZE - 1, 2 * WINDOW_SIZE),
        (2 * WINDOW_SIZE, 4 * WINDOW_SIZE),
        (2 * WINDOW_SIZE + 1, 4 * WINDOW_SIZE),
    ):
        with pytest.raises(RecordTooLargeError, match=f"{held} bytes") as caught:
            list(read(log, record_size_max=limit))
        assert caught.value.position == 0
