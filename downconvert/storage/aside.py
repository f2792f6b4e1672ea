"""Keeps bytes that recovery removes from a log. They are kept in files of the partition's directory
that are not part of the log.

Such a file has the name of a log file with another suffix, `.aside`. Neither this package nor a
broker reads it as part of a log. It stays until somebody removes it, or the partition is deleted.
It has the format of a segment, so every command reads it under a name that ends in `.log`.

Not here: choosing these bytes (recovery.py)."""

from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Final

from records import BatchHeader, CorruptRecordsError, FileRecords
from records.checksum import verify_checksum
from records.formats import BATCH_HEADER_SIZE
from records.units import MiB

from .disk.files import TEMPORARY_SUFFIX, Files
from .indexes.offset_index import RELATIVE_MAX
from .segments.segment import Segment

SUFFIX: Final = ".aside"
WINDOW_SIZE: Final = MiB  # bytes

# Bytes may look like the heads of many large batches. After comparing checksums of this many bytes
# without a match, the search ends, and the bytes are kept.
VERIFIED_MAX: Final = 256 << 20


def move_aside(path: Path, files: Files) -> Path:
    """Renames a log file so that it is not part of the log any more. Returns the new path."""
    target = next(name for name in _names(path) if not _is_taken(name))
    files.rename(path, target)
    return target


def copy_aside(segment: Segment, position: int, files: Files) -> Path:
    """Copies a log file from `position` on to a file beside it. Returns the copy's path when it is
    synced. Runs of zeros take no space.

    A file with the same bytes is not written twice, because recovery may have been interrupted.
    DiskFullError: the copy was removed."""
    records = segment.slice(position, segment.size)
    for target in _names(segment.path()):
        if not _is_taken(target):
            break
        if _has_bytes(target, records):
            return target
    temporary = target.with_name(target.name + TEMPORARY_SUFFIX)
    files.remove(temporary)  # a crash may have left one
    file = files.open(temporary)
    try:
        file.truncate(records.size)
        for at, piece in _windows(records):
            if any(piece):
                file.write_at(piece, at)
        file.sync()
    except BaseException:
        files.remove(temporary)
        raise
    finally:
        file.close()
    files.rename(temporary, target)
    files.sync_directory(target.parent)
    return target


def holds_batch(segment: Segment, position: int) -> bool:
    """Whether any whole batch begins after `position`, with a right checksum and an offset that
    belongs to this segment."""
    records = segment.slice(position, segment.size)
    left = VERIFIED_MAX
    for at, piece in _windows(records, BATCH_HEADER_SIZE - 1):
        for start in _starts(piece, segment.base_offset) if any(piece) else ():
            header = _header(piece, start, at + start)
            if header is None or at + start + header.size > records.size:
                continue
            if not 0 <= header.last_offset - segment.base_offset <= RELATIVE_MAX:
                continue
            left -= header.size
            if left < 0 or _is_sound(records, header):
                return True
    return False


def _names(path: Path) -> Iterator[Path]:
    """The possible names of a copy of a log file."""
    for number in count(1):
        yield path.with_name(f"{path.name}{SUFFIX}{number if number > 1 else ''}")


def _is_taken(path: Path) -> bool:
    return path.exists() or path.is_symlink()


def _has_bytes(path: Path, records: FileRecords) -> bool:
    """Whether a file has exactly these bytes."""
    if path.is_symlink() or not path.is_file() or path.stat().st_size != records.size:
        return False
    with path.open("rb") as file:
        return all(file.read(len(piece)) == piece for _, piece in _windows(records))


def _windows(records: FileRecords, overlap: int = 0) -> Iterator[tuple[int, bytes]]:
    """All bytes in pieces, each with its position. Each piece ends with the first `overlap` bytes
    of the next one."""
    window = memoryview(bytearray(WINDOW_SIZE + overlap))
    for at in range(0, records.size, WINDOW_SIZE):
        size = min(len(window), records.size - at)
        yield at, bytes(window[: records.read_into(window[:size], at)])


def _starts(piece: bytes, base_offset: int) -> Iterator[int]:
    """Positions where a batch of a segment may begin. The high half of the batch's offset is known,
    because the offset is not far above the segment's."""
    for offset in {base_offset >> 32, (base_offset + RELATIVE_MAX) >> 32}:
        high = offset.to_bytes(4, "big")
        at = piece.find(high)
        while at >= 0:
            if any(piece[at + 8 : at + 12]):  # its size
                yield at
            at = piece.find(high, at + 1)


def _header(piece: bytes, start: int, position: int) -> BatchHeader | None:
    try:
        return BatchHeader.parse(piece, start, position)
    except (CorruptRecordsError, ValueError):  # an unknown format, or the head is cut off
        return None


def _is_sound(records: FileRecords, header: BatchHeader) -> bool:
    try:
        verify_checksum(records, header)
    except CorruptRecordsError:
        return False
    return True
