"""The leader epochs of a log that is written: in memory, and in the checkpoint file.

An entry is an epoch and the first offset written in it. Each change replaces the file. If the disk
is full, only memory is changed, and the next change writes the file.

Not here: the file's format (checkpoint.py), requests for epochs (broker/replication)."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from downconvert.storage.disk.files import Files
from downconvert.storage.names import LEADER_EPOCHS
from records import BatchHeader

from .checkpoint import EpochEntry, write_epochs


class LeaderEpochs:
    """The epochs of a log that this process writes [Kafka's LeaderEpochFileCache].

    entries: from the checkpoint."""

    def __init__(self, directory: Path, files: Files, entries: Iterable[EpochEntry]) -> None:
        self._path = directory / LEADER_EPOCHS
        self._files = files
        self._entries = list(entries)
        self._is_written = True

    @property
    def entries(self) -> tuple[EpochEntry, ...]:
        """The epochs of the log's records and, if it has begun, of the next append."""
        return tuple(self._entries)

    def begin(self, epoch: int, offset: int) -> None:
        """Begins an epoch at `offset`, the end of the log. An epoch that began there and has no
        records is removed.

        Ignores an epoch that is not above the last one. DiskFullError: nothing changed."""
        if self._entries and self._entries[-1].epoch >= epoch:
            return
        kept = [entry for entry in self._entries if entry.start_offset < offset]
        self._write([*kept, EpochEntry(epoch, offset)])

    def add(self, headers: Sequence[BatchHeader]) -> None:
        """Adds the epochs of batches before they are appended. DiskFullError: nothing changed.

        An epoch without records is removed if a batch of an older epoch is appended at its start
        offset. That happens if the epoch's leader becomes a follower of a broker that never knew of
        the epoch [LeaderEpochFileCache.assign]."""
        if self._is_written and self._entries:
            latest = self._entries[-1].epoch
            for header in headers:
                if header.leader_epoch != latest:
                    break
            else:
                return
        entries = list(self._entries)
        for header in headers:
            while entries and _is_empty(entries[-1], header):
                entries.pop()
            add_epoch(entries, header)
        if entries != self._entries or not self._is_written:
            self._write(entries)

    def truncate_from_end(self, end_offset: int) -> None:
        """Removes epochs that begin at or after that offset. DiskFullError: only in memory."""
        entries = [entry for entry in self._entries if entry.start_offset < end_offset]
        if entries != self._entries:
            self._entries, self._is_written = entries, False
        self.flush()

    def flush(self) -> None:
        """Writes changes that a full disk has delayed."""
        if not self._is_written:
            self._write(self._entries)

    def _write(self, entries: list[EpochEntry]) -> None:
        write_epochs(self._files, self._path, entries)
        self._entries, self._is_written = entries, True


def _is_empty(entry: EpochEntry, header: BatchHeader) -> bool:
    return entry.start_offset >= header.base_offset and entry.epoch > header.leader_epoch >= 0


def add_epoch(entries: list[EpochEntry], header: BatchHeader) -> None:
    """Adds the leader epoch of the next batch, if it is a new one."""
    if header.leader_epoch >= 0 and (not entries or header.leader_epoch > entries[-1].epoch):
        entries.append(EpochEntry(header.leader_epoch, header.base_offset))
