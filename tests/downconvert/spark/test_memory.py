"""A task stays within 256 MB, whatever it reads: the whole worker, with Python and Arrow in it."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from bench.measuring.bombs import bomb
from records import Codec, Record, build
from records.backend import NAME, NATIVE
from records.formats import V1, V2
from records.units import MiB

from .reading import partition

MB = 1_000_000
LIMIT = 256 * MB
MEGABYTES = 1000 if NAME == NATIVE else 50  # of a large segment; the reference takes its time


def measured(path: Path, **options: object) -> dict[str, Any]:
    given = [f"{name}={value}" for name, value in options.items()]
    command = [sys.executable, "-m", "tests.downconvert.spark.reading_process", str(path), *given]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=280)
    assert done.returncode == 0, done.stderr[-2000:]
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.slow
def test_a_segment_of_a_gigabyte(tmp_path: Path) -> None:
    records = [Record(i, 0, value=b"v" * 1000) for i in range(1000)]
    one = build(records, magic=V2)
    directory = partition(tmp_path, b"")
    with (directory / f"{0:020}.log").open("wb") as file:
        for n in range(MEGABYTES):
            file.write((1000 * n).to_bytes(8) + one[8:])  # no checksum covers the offset
    found = measured(tmp_path)
    assert found["records"] == 1000 * MEGABYTES
    assert found["largest"] <= 2 * MiB
    assert found["peak"] <= LIMIT


@pytest.mark.slow
@pytest.mark.parametrize(
    ("codec", "count"),
    [(Codec.GZIP, 300), (Codec.LZ4, 300)],  # of all codecs: tests/records/codecs/test_bombs.py
)
def test_a_batch_that_expands_to_hundreds_of_megabytes(
    tmp_path: Path, codec: Codec, count: int
) -> None:
    bomb(partition(tmp_path, b"") / f"{0:020}.log", codec, records=count, value_size=MB)
    found = measured(tmp_path)
    assert found["records"] == count
    assert found["peak"] <= LIMIT


@pytest.mark.slow
def test_a_record_of_300_mb_is_reported_and_not_held(tmp_path: Path) -> None:
    bomb(partition(tmp_path, b"") / f"{0:020}.log", Codec.GZIP, records=1, value_size=300 * MB)
    found = measured(tmp_path, mode="PERMISSIVE")
    assert (found["records"], found["corrupt"]) == (1, 1)
    assert found["peak"] <= LIMIT


@pytest.mark.slow
@pytest.mark.parametrize("magic", [V1, V2])
def test_the_largest_record_that_is_allowed(tmp_path: Path, magic: int) -> None:
    record = Record(0, 0, value=bytes(16 * MiB - 100))
    plain, packed = (build([record], magic=magic, codec=c) for c in (Codec.NONE, Codec.GZIP))
    partition(tmp_path, plain, "plain-0")
    partition(tmp_path, packed, "packed-0")
    found = measured(tmp_path)
    assert found["records"] == 2
    assert found["peak"] <= LIMIT


@pytest.mark.slow
def test_empty_records_take_little_memory(tmp_path: Path) -> None:
    """Two hundred thousand in a batch of less than a kilobyte."""
    log = partition(tmp_path, b"") / f"{0:020}.log"
    bomb(log, Codec.ZSTD, records=200_000, value_size=0)
    found = measured(tmp_path)
    assert found["records"] == 200_000
    assert found["peak"] <= LIMIT
