"""The checkpoints in a broker's directory that a writer of logs needs.

Entries of unknown partitions are kept. An unreadable file counts as empty, as in a broker. Logs are
then recovered from their beginning.

Not here: the format of the files (checkpoint.py)."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import RLock
from typing import Final

from downconvert.storage.disk.files import Files
from downconvert.storage.errors import CorruptFileError, DiskFullError
from downconvert.storage.names import CLEANER_POINTS, LOG_STARTS, RECOVERY_POINTS, TopicPartition

from .checkpoint import read_offsets, write_offsets

NOTED: Final = (RECOVERY_POINTS, LOG_STARTS, CLEANER_POINTS)


class Checkpoints:
    """Recovery points, start offsets and cleaner points of the logs in a directory.

    Logs share this object, so threads that write to different logs take turns."""

    def __init__(self, directory: Path, files: Files) -> None:
        self._directory = directory
        self._files = files
        self._lock = RLock()
        self._behind: set[str] = set()  # files with obsolete entries, because the disk was full
        self._is_waiting = False  # whether writes wait for the end of a block of `together`
        self._offsets = {name: _read(directory / name) for name in NOTED}

    def of(self, partition: TopicPartition) -> "PartitionCheckpoints":
        return PartitionCheckpoints(self, partition)

    def get(self, name: str, partition: TopicPartition) -> int:
        return max(0, self._offsets[name].get(partition, 0))

    def set(self, name: str, partition: TopicPartition, offset: int) -> None:
        """Notes an offset. Returns when it is synced."""
        with self._lock:
            offsets = self._offsets[name]
            if offsets.get(partition, 0) != offset:
                self._write(name, {**offsets, partition: offset})

    @contextmanager
    def together(self) -> Iterator[None]:
        """Writes each file once for all partitions, at the end of the block. Changes within the
        block are not synced before that."""
        self._is_waiting = True
        try:
            yield
        finally:
            self._is_waiting = False
            with self._lock:
                for name in sorted(self._behind):
                    self._write(name, self._offsets[name])

    def forget(self, partition: TopicPartition) -> None:
        """Removes the entries of this partition. Returns when that is synced.

        DiskFullError: they are removed in memory, and from the files at the next write."""
        with self._lock:
            for name, offsets in self._offsets.items():
                if partition in offsets:
                    self._offsets[name] = {k: at for k, at in offsets.items() if k != partition}
                    self._behind.add(name)
            for name in sorted(self._behind):
                self._write(name, self._offsets[name])

    def _write(self, name: str, offsets: dict[TopicPartition, int]) -> None:
        if self._is_waiting:
            self._behind.add(name)
            self._offsets[name] = offsets
            return
        write_offsets(self._files, self._directory / name, offsets)
        self._offsets[name] = offsets
        self._behind.discard(name)


class PartitionCheckpoints:
    """The checkpoints of one partition."""

    __slots__ = ("_all", "_partition")

    def __init__(self, all_of_them: Checkpoints, partition: TopicPartition) -> None:
        self._all = all_of_them
        self._partition = partition

    @property
    def recovery_point(self) -> int:
        """The recovery point: everything below this offset has been flushed."""
        return self._all.get(RECOVERY_POINTS, self._partition)

    @property
    def start_offset(self) -> int:
        return self._all.get(LOG_STARTS, self._partition)

    @property
    def cleaner_point(self) -> int:
        """The offset up to which the log has been cleaned."""
        return self._all.get(CLEANER_POINTS, self._partition)

    def set_cleaner_point(self, offset: int) -> None:
        self._all.set(CLEANER_POINTS, self._partition, offset)

    def lower_cleaner_point(self, offset: int) -> None:
        """Lowers the offset. If the disk is full, the file keeps the higher one. Readers compare it
        with the log's end."""
        with suppress(DiskFullError):
            if self.cleaner_point > offset:
                self.set_cleaner_point(offset)

    def set_recovery_point(self, offset: int) -> None:
        self._all.set(RECOVERY_POINTS, self._partition, offset)

    def raise_recovery_point(self, offset: int) -> None:
        """Raises the offset. If the disk is full, the file keeps the lower one. Recovery then reads
        more, and nothing is lost."""
        with suppress(DiskFullError):
            self.set_recovery_point(offset)

    def set_start_offset(self, offset: int) -> None:
        self._all.set(LOG_STARTS, self._partition, offset)


def _read(path: Path) -> dict[TopicPartition, int]:
    try:
        return read_offsets(path)
    except CorruptFileError:
        return {}
