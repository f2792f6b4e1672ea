"""Small logs to test with: batches of a few numbers, and directories of them."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from downconvert.storage import LogConfig
from downconvert.storage.disk.files import Disk, DiskFile, WritableFile
from downconvert.storage.disk.open_files import OpenFiles
from downconvert.storage.names import Kind, file_name
from downconvert.storage.segments.segment import Segment
from downconvert.storage.segments.segment_writer import SegmentWriter
from records import MemoryRecords
from records.batches.builder import build
from records.formats import V0, V2, TimestampType
from records.record import Record


class UnsyncedFile(DiskFile):
    def sync(self) -> None:
        """Nothing: the machine does not die here, and a disk would take its time."""


class UnsyncedDisk(Disk):
    def open(self, path: Path) -> WritableFile:
        return UnsyncedFile(path)

    def sync_directory(self, path: Path) -> None:
        """Nothing."""


UNSYNCED: Final = UnsyncedDisk()


def batch(*offsets: int, timestamp: int | None = None, size: int = 10, **options: Any) -> bytes:
    """A batch of records with these offsets, whose values say them; timestamps are ten times the
    offsets, unless one is given for all."""
    magic = options.pop("magic", V2)
    records = []
    for offset in offsets:
        time = 10 * offset if timestamp is None else timestamp
        kind = TimestampType.NONE if magic == V0 else TimestampType.CREATE
        value = (f"{offset} ".encode() * (1 + size // 2))[:size]
        records.append(Record(offset, -1 if magic == V0 else time, kind, None, value))
    return build(records, magic=magic, **options)


def segment(directory: Path, base_offset: int, *batches: bytes) -> Segment:
    """A log file without indexes."""
    directory.mkdir(exist_ok=True)
    (directory / file_name(base_offset, Kind.LOG)).write_bytes(b"".join(batches))
    return Segment(directory, base_offset, OpenFiles())


def indexed_segment(
    directory: Path, base_offset: int, *batches: bytes, interval: int = 0
) -> Segment:
    """A closed segment with its indexes."""
    made = segment(directory, base_offset)
    config = LogConfig(index_interval_bytes=interval)
    writer = SegmentWriter(made, 0, base_offset, config, UNSYNCED)
    for data in batches:
        append(writer, data)
    writer.close()
    return made


def append(writer: SegmentWriter, data: bytes) -> None:
    headers = list(MemoryRecords(data).batches())
    writer.append(data, headers, headers[-1].last_offset + 1, [])


def offsets(found: Iterable[Record]) -> list[int]:
    return [record.offset for record in found]
