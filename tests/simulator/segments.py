"""Small segments for the simulator's tests."""

from collections.abc import Sequence
from pathlib import Path

from records import Codec, TimestampType
from records.batches.builder import build, build_marker
from records.batches.control import ControlRecordType
from records.record import Record


def batch(offsets: Sequence[int], codec: Codec = Codec.NONE, magic: int = 2) -> bytes:
    """A batch (or messages) of records at these offsets, each with a value of 100 bytes."""
    return build(
        [Record(offset, 1000, TimestampType.CREATE, None, b"%100d" % offset) for offset in offsets],
        magic=magic,
        codec=codec,
    )


def marker(offset: int) -> bytes:
    """The end of a transaction, which no client is given."""
    return build_marker(ControlRecordType.COMMIT, offset=offset, timestamp=1000, producer_id=1)


def written(directory: Path, *batches: bytes, name: str = "00000000000000000000.log") -> Path:
    path = directory / name
    path.write_bytes(b"".join(batches))
    return path
