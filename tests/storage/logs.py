"""Small logs to test with: batches by a few numbers, and directories of them."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from records.builder import build
from records.formats import V2
from records.record import Record
from records.formats import TimestampType
from storage.names import Kind, file_name
from storage.open_files import OpenFiles
from storage.segment import Segment


def record(offset: int, timestamp: int = 0, size: int = 10, key: bytes | None = None) -> Record:
    """A record whose value says its offset."""
    value = f"{offset} ".encode() * (1 + size // 4)
    return Record(offset, timestamp, TimestampType.CREATE, key, value[:size])


def batch(*offsets: int, timestamp: int | None = None, size: int = 10, **options: Any) -> bytes:
    """A batch of records with these offsets; their timestamps are ten times that, or as given."""
    records = [
        record(offset, 10 * offset if timestamp is None else timestamp, size) for offset in offsets
    ]
    return build(records, magic=options.pop("magic", V2), **options)


def write_segment(directory: Path, base_offset: int, batches: Iterable[bytes] = ()) -> Segment:
    """A log file without indexes."""
    directory.mkdir(exist_ok=True)
    (directory / file_name(base_offset, Kind.LOG)).write_bytes(b"".join(batches))
    return Segment(directory, base_offset, OpenFiles())


def offsets(found: Iterable[Record]) -> list[int]:
    return [record.offset for record in found]
