"""Finds the partitions and segments below log directories, as they lie, were copied or mounted.

A path may be a broker's log directory, a partition's directory, or any directory above several of
them: a backup with a folder for each broker, say. A partition that several brokers have is read
once, from the copy that reaches furthest.

Only names and sizes are looked at; which files count after a crash:
downconvert/storage/layout.py.

Not here: where to cut a segment (splits.py), which offsets to read of it (planner.py)."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from downconvert.storage.checkpoint import read_offsets
from downconvert.storage.errors import CorruptFileError
from downconvert.storage.layout import Layout, read_layout, replaced
from downconvert.storage.names import LOG_STARTS, OFFSET_MAX, State, TopicPartition, parse_partition
from downconvert.storage.open_files import OpenFiles
from downconvert.storage.segment import Segment
from downconvert.storage.tail import next_offset_of
from records import CorruptRecordsError

# A cluster's backup has a folder for each day, broker and disk; more are not looked into.
DEPTH_MAX: Final = 12

# A cleaner renames while a directory is listed.
ATTEMPTS: Final = 8


@dataclass(frozen=True, slots=True)
class SegmentFile:
    """A log file, as it was when it was found; `next_offset` is where the following one begins."""

    directory: str
    base_offset: int
    state: State
    size: int
    next_offset: int

    def open(self) -> Segment:
        return Segment(Path(self.directory), self.base_offset, OpenFiles(), self.state)


@dataclass(frozen=True, slots=True)
class PartitionLog:
    """The segments of one partition, and the first offset that is part of its log."""

    topic_partition: TopicPartition
    directory: str
    start_offset: int
    segments: tuple[SegmentFile, ...]

    @property
    def reach(self) -> tuple[int, int]:
        """How far it goes: of two copies the one with more has the higher one."""
        return (self.segments[-1].base_offset, self.segments[-1].size) if self.segments else (-1, 0)


def find_partitions(paths: Sequence[str]) -> list[PartitionLog]:
    """The partitions below the paths, by topic and number. OSError: a path is no directory."""
    found: dict[TopicPartition, PartitionLog] = {}
    for name, directory in find_directories(paths):
        log = read_partition(name, directory)
        if name not in found or found[name].reach < log.reach:
            found[name] = log
    return [found[name] for name in sorted(found)]


def find_directories(paths: Sequence[str]) -> Iterator[tuple[TopicPartition, str]]:
    """The partitions' directories, each once, whichever way leads to it."""
    seen: set[str] = set()
    for path in paths:
        if not os.path.isdir(path):  # noqa: PTH112 - a path is a string here, as Spark gave it
            raise NotADirectoryError(f"{path} is not a directory")
        yield from _below(os.path.normpath(path), DEPTH_MAX, seen)


def read_partition(name: TopicPartition, directory: str) -> PartitionLog:
    """The segments that make up a partition's log now."""
    for _ in range(ATTEMPTS):
        try:
            return _read_partition(name, directory)
        except FileNotFoundError:
            if not os.path.isdir(directory):  # noqa: PTH112
                raise
    return _read_partition(name, directory)


def _read_partition(name: TopicPartition, directory: str) -> PartitionLog:
    layout = read_layout(Path(directory))
    gone = set(replaced(layout, _swap_end(layout, directory))) if layout.swaps else set()
    bases = [base for base, state in layout.logs.items() if state is State.SWAP or base not in gone]
    segments = [
        SegmentFile(
            directory,
            base,
            layout.logs[base],
            Segment(Path(directory), base, OpenFiles(), layout.logs[base]).path().stat().st_size,
            following,
        )
        for base, following in zip(bases, [*bases[1:], OFFSET_MAX], strict=True)
    ]
    start = max(_start_offset(name, directory), segments[0].base_offset if segments else 0)
    return PartitionLog(name, directory, start, tuple(segments))


def _swap_end(layout: Layout, directory: str) -> int:
    """Where the offsets of segments end that a cleaner had ready."""
    swaps = [base for base, state in layout.logs.items() if state is State.SWAP]
    ends = [0]
    for base in swaps:
        try:
            ends.append(next_offset_of(Segment(Path(directory), base, OpenFiles(), State.SWAP)))
        except CorruptRecordsError:
            continue
    return max(ends)


def _start_offset(name: TopicPartition, directory: str) -> int:
    """What the broker noted of deleted records; 0 where it noted nothing that can be read."""
    try:
        return read_offsets(Path(directory).parent / LOG_STARTS).get(name, 0)
    except (OSError, CorruptFileError):
        return 0


def _below(path: str, depth: int, seen: set[str]) -> Iterator[tuple[TopicPartition, str]]:
    real = os.path.realpath(path)
    if real in seen:
        return
    seen.add(real)
    folders = []
    has_logs = False
    with os.scandir(path) as entries:
        for entry in sorted(entries, key=lambda entry: entry.name):
            if entry.name.endswith((".log", ".log.swap")):
                has_logs = has_logs or entry.is_file()
            elif entry.is_dir():
                folders.append(entry.path)
    name = parse_partition(os.path.basename(path))  # noqa: PTH119
    if name is not None and has_logs:
        yield name, path
    elif depth:
        for folder in folders:
            yield from _below(folder, depth - 1, seen)
