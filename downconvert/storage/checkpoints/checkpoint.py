"""Checkpoints: the small text files in which a broker notes offsets.

The first line is the version (0) and the second is the number of entries. Each other line is an
entry. A broker's directory has four such files with `topic partition offset`. A partition's
directory has the leader epochs, with `epoch start-offset`. Files are replaced whole. An empty file
has no entries."""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from downconvert.storage.disk.files import Files, read_file, replace_file
from downconvert.storage.errors import CorruptFileError
from downconvert.storage.names import TopicPartition

VERSION: Final = 0
INTEGER: Final = re.compile(r"-?[0-9]{1,19}")
INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1


class EpochEntry(NamedTuple):
    """A leader epoch, and the first offset written in it."""

    epoch: int
    start_offset: int


def read_offsets(path: Path) -> dict[TopicPartition, int]:
    """The offsets of partitions; empty if there is no file. CorruptFileError: malformed."""
    offsets = {}
    for topic, partition, offset in _entries(path, 3):
        key = TopicPartition(topic, _integer(partition, path))
        offsets[key] = _integer(offset, path)
    return offsets


def write_offsets(files: Files, path: Path, offsets: Mapping[TopicPartition, int]) -> None:
    """Replaces the file. Returns when that is synced."""
    _write(files, path, (f"{key.topic} {key.partition} {at}" for key, at in offsets.items()))


def read_epochs(path: Path) -> list[EpochEntry]:
    """The leader epochs of a partition; empty if there is no file."""
    return [
        EpochEntry(_integer(epoch, path), _integer(start, path))
        for epoch, start in _entries(path, 2)
    ]


def write_epochs(files: Files, path: Path, epochs: Iterable[EpochEntry]) -> None:
    """Replaces the file. Returns when that is synced."""
    _write(files, path, (f"{entry.epoch} {entry.start_offset}" for entry in epochs))


def _entries(path: Path, fields: int) -> list[list[str]]:
    try:
        text = read_file(path).decode()
    except FileNotFoundError:
        return []
    except UnicodeDecodeError as error:
        raise CorruptFileError("is not text", str(path)) from error
    if not text:
        return []
    lines = text.split("\n")
    if lines[0].strip() != str(VERSION):
        raise CorruptFileError(f"version {lines[0].strip()[:20]!r} is not known", str(path))
    count = _integer(lines[1].strip() if len(lines) > 1 else "", path)
    entries = [line.split() for line in lines[2:] if line.strip()]
    if len(entries) != count:
        raise CorruptFileError(f"has {len(entries)} entries and claims {count}", str(path))
    for entry in entries:
        if len(entry) != fields:
            raise CorruptFileError(f"malformed line {' '.join(entry)[:80]!r}", str(path))
    return entries


def _integer(text: str, path: Path) -> int:
    if not INTEGER.fullmatch(text) or not INT64_MIN <= int(text) <= INT64_MAX:
        raise CorruptFileError(f"{text[:20]!r} is not a number", str(path))
    return int(text)


def _write(files: Files, path: Path, lines: Iterable[str]) -> None:
    entries = list(lines)
    text = "".join(f"{line}\n" for line in (str(VERSION), str(len(entries)), *entries))
    replace_file(files, path, text.encode())
