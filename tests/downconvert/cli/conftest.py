"""Fixtures of the command's tests: the command itself, and small segments."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from records import Codec, TimestampType
from records.batches.builder import build
from records.record import Record
from tests.downconvert.gateway.serving import cluster

from .running import Command


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str]) -> Command:
    return Command(capsys)


def batch(base_offset: int, count: int = 3, codec: Codec = Codec.NONE) -> bytes:
    """A v2 batch of `count` records from `base_offset` on."""
    return build(
        [
            Record(base_offset + n, 1000 + n, TimestampType.CREATE, b"key", b"value %d" % n)
            for n in range(count)
        ],
        magic=2,
        codec=codec,
    )


@pytest.fixture
def segment(tmp_path: Path) -> Path:
    """Two batches of three records."""
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(batch(0) + batch(3))
    return path


@pytest.fixture
def torn(segment: Path) -> Path:
    """The same, and the first 80 bytes of a third batch."""
    segment.write_bytes(segment.read_bytes() + batch(6)[:80])
    return segment


@pytest.fixture
def damaged(tmp_path: Path) -> Path:
    """A good batch, and one whose first record says that it is longer than the batch."""
    second = bytearray(batch(3))
    second[61] = 0x7E  # the size varint: 63
    path = tmp_path / "damaged.log"
    path.write_bytes(batch(0) + second)
    return path


@pytest.fixture
def no_log(tmp_path: Path) -> Path:
    path = tmp_path / "notes.txt"
    path.write_text("This is a note, and no segment of a log at all.\n" * 3)
    return path


@pytest.fixture
def port(tmp_path: Path) -> Iterator[int]:
    """The port of a cluster's broker, which takes the same requests as Kafka 4."""
    directory = tmp_path / "log"
    directory.mkdir()
    with cluster(directory, "t") as (_, port):
        yield port
