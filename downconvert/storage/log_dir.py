"""A broker's directory: the logs of many partitions, and the broker's checkpoints for them.

All kinds of directories can be read: those of brokers with or without `meta.properties`, those of
KRaft nodes (`__cluster_metadata-0` is a log like any other), incomplete copies, and those with
checkpoints of missing partitions.

Not here: one partition's log (log.py), the right to write to the directory (session.py)."""

import logging
import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Final
from uuid import NAMESPACE_URL, uuid5

from records import RecordsError
from records.logged import log_of
from records.paths import named

from .checkpoints.checkpoint import read_offsets, write_offsets
from .checkpoints.metadata import MetaProperties, read_meta_properties, read_topic_id
from .config import LogConfig
from .disk.fence import FencedFiles
from .disk.files import DISK, Files
from .disk.open_files import OpenFiles
from .errors import DiskFullError
from .log import Log
from .names import DELETED_PARTITION, HIGH_WATERMARKS, TopicPartition, parse_partition
from .recovery import Recovery
from .session import Session

LOG: Final = log_of(__name__)
NAME_SIZE_MAX: Final = 255  # bytes of a name in a directory


class Logs(Mapping[TopicPartition, Log]):
    """The logs of a directory by topic and partition. Each is opened at its first use."""

    def __init__(
        self, path: Path, config: LogConfig, files: Files, session: Session | None
    ) -> None:
        self._path = path
        self.config = config  # of logs without a configuration of their own
        self.files = files if session is None else session.files
        self._session = session
        self._logged: dict[TopicPartition, str] = {}  # why partitions are offline
        self._opened_before: set[TopicPartition] = set()  # in this session
        self._open_files = OpenFiles()
        self.opened: dict[TopicPartition, Log] = {}

    def __getitem__(self, partition: TopicPartition) -> Log:
        if partition not in self.opened:
            partition = TopicPartition(*partition)
            path = self._path / str(partition)
            if parse_partition(path.name) != partition or not _exists(path):
                raise KeyError(partition)
            self.opened[partition] = self._open(path)
        return self.opened[partition]

    def __iter__(self) -> Iterator[TopicPartition]:
        with os.scandir(self._path) as entries:
            names = [parse_partition(entry.name) for entry in entries if _may_be_partition(entry)]
        return iter(sorted(name for name in names if name is not None))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    @property
    def unsure(self) -> list[TopicPartition]:
        """Logs that were opened in this session, or failed to open, and are not open now."""
        there = set(self)
        return sorted(self._opened_before & there - self.opened.keys())

    def open_or_offline(self, partition: TopicPartition) -> Log:
        """The log of a partition, or an empty offline one if it cannot be opened. For callers that
        continue with the other partitions. KeyError: there is no such partition."""
        try:
            read_topic_id(self._path / str(partition))  # before anything is recovered
            log = self[partition]
        except (OSError, RecordsError) as error:
            reason = str(error)
            if self._logged.get(partition) != reason:  # log it once
                LOG.error("%s is offline: it cannot be opened: %s", partition, reason)
            self._logged[partition] = reason
            return Log.offline(self._path / str(partition), reason, self._open_files)
        self._logged.pop(partition, None)
        return log

    def create(self, partition: TopicPartition) -> Log:
        """The log of a partition, created if needed. ValueError: the directory is open for
        reading."""
        if self._session is None:
            raise ValueError(f"{self._path} is open for reading only")
        path = self._path / str(partition)
        if parse_partition(path.name) != partition:
            raise ValueError(f"{partition} cannot be the name of a partition")
        if not path.is_dir():
            # Else the new log would begin at the start offset of a deleted log of that name.
            self._session.checkpoints.forget(partition)
            self.files.make_directory(path)
            self.files.sync_directory(self._path)
        return self[partition]

    def delete(self, partition: TopicPartition) -> None:
        """Removes a log with all files in its directory. Ranges that `read` returned stay valid.

        KeyError: there is no such partition. ValueError: the directory is open for reading. The
        partition's directory is renamed first, as in Kafka, so that the rest does not count as a
        log after a crash. This works on a full disk. Files that cannot be removed are removed when
        the log directory is opened again."""
        if self._session is None:
            raise ValueError(f"{self._path} is open for reading only")
        if not _exists(self._path / str(partition)):
            raise KeyError(partition)
        log = self.opened.pop(partition, None)
        if log is not None:
            log.abandon()
        suffix = f".{uuid5(NAMESPACE_URL, str(partition)).hex}-delete"
        gone = self._path / (str(partition)[: NAME_SIZE_MAX - len(suffix)] + suffix)
        if _exists(gone):
            self._remove(gone)
        try:
            self.files.rename(self._path / str(partition), gone)
        except DiskFullError:  # on some file systems a rename needs space
            gone = self._path / str(partition)
        self.files.sync_directory(self._path)
        try:
            self._remove(gone)
        except OSError as error:
            if gone.name == str(partition):
                raise
            LOG.warning("%s cannot be removed before the next start: %s", gone, error)
        self._opened_before.discard(partition)
        self._logged.pop(partition, None)
        with suppress(DiskFullError):  # `create` also forgets entries of that name
            self._session.checkpoints.forget(partition)

    def remove_deleted(self) -> None:
        """Removes the rest of deleted partitions. The directory must be locked."""
        with os.scandir(self._path) as entries:
            found = [entry for entry in entries if DELETED_PARTITION.fullmatch(entry.name)]
        for entry in found:
            try:
                if entry.is_dir(follow_symlinks=False):
                    self._remove(Path(entry))
            except OSError as error:
                LOG.warning("%s cannot be removed: %s", entry.path, error)

    def _remove(self, directory: Path) -> None:
        """Removes a directory with its contents. If it is a link to a directory, only the link is
        removed."""
        if directory.is_symlink():
            self.files.remove(directory)
            return
        with os.scandir(directory) as entries:
            found = list(entries)
        for entry in found:
            if entry.is_dir(follow_symlinks=False):
                self._remove(Path(entry))
            else:
                self.files.remove(Path(entry))
        self.files.remove_directory(directory)

    def _open(self, path: Path) -> Log:
        if self._session is None:
            return Log.open(path, open_files=self._open_files)
        name = parse_partition(path.name)
        assert name is not None
        again = name in self._opened_before
        self._opened_before.add(name)
        log = Log.recover(path, self._session, self.config, self._open_files, again=again)
        _log_recovery(name, log.writer.recovery, log.end_offset)
        return log


def _may_be_partition(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir() or (entry.is_symlink() and not entry.is_file())
    except OSError:  # a link to itself
        return True


def _exists(path: Path) -> bool:
    """Whether the path is a directory or a dangling link. With such a link, the partition is
    offline and not missing."""
    return path.is_dir() or (path.is_symlink() and not path.is_file())


def _log_recovery(name: TopicPartition, done: Recovery, end_offset: int) -> None:
    """Logs the recovery of a log that was not closed properly. It is a warning if records are
    lost."""
    if not done.checked:
        return
    cut = done.bytes_cut
    fields = {"partition": str(name), "segments": len(done.checked), "bytes_cut": cut}
    aside = ", ".join(done.set_aside)
    LOG.log(
        logging.WARNING if cut else logging.INFO,
        "%s is recovered up to offset %d: %d segments were read again, %s bytes cut off%s%s",
        name,
        end_offset,
        len(done.checked),
        f"{cut:,}",
        f", for {done.damage}" if done.damage is not None else "",
        f"; set aside in its directory: {aside}" if aside else "",
        extra={"fields": fields},
    )


class LogDir:
    """The logs in a directory. A broker may be writing to a directory that is opened for
    reading."""

    def __init__(self, path: Path, logs: Logs, session: Session | None) -> None:
        self.path = path
        self.logs = logs
        self._session = session

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        *,
        writable: bool = False,
        config: LogConfig | None = None,
        files: Files = DISK,
        verify_all: bool = False,
    ) -> "LogDir":
        """OSError: there is no such directory. ValueError: the path is empty. LogInUseError: a
        broker is writing to it.

        `writable`: each log is recovered at its first use, and the remaining ones when the
        directory is closed. `verify_all`: recovery reads whole logs, not only the unflushed
        parts."""
        path = named(path)
        if not path.is_dir():
            raise NotADirectoryError(f"{path} is not a directory")
        session = Session(path, files, verify_all=verify_all) if writable else None
        logs = Logs(path, config or LogConfig(), files, session)
        if session is not None:
            try:
                logs.remove_deleted()
            except BaseException:
                session.end(clean=False)
                raise
        return cls(path, logs, session)

    @property
    def offline_reason(self) -> str | None:
        """Why nothing is written to the directory any more: its disk has failed. None if it is
        online."""
        return self.logs.files.reason if isinstance(self.logs.files, FencedFiles) else None

    @property
    def full_file(self) -> str | None:
        """A file whose last write found the disk full. None if there is no such file."""
        return self.logs.files.full if isinstance(self.logs.files, FencedFiles) else None

    def look_for_room(self) -> None:
        """Writes a small file and removes it. If that works, there is space for all files again."""
        if isinstance(self.logs.files, FencedFiles):
            self.logs.files.look_for_room()

    @property
    def full_count(self) -> int:
        """The number of changes that found the disk full, since the directory was opened."""
        return self.logs.files.full_count if isinstance(self.logs.files, FencedFiles) else 0

    @property
    def meta(self) -> MetaProperties | None:
        """The broker of the directory. None for brokers before 0.9."""
        return read_meta_properties(self.path)

    @property
    def high_watermarks(self) -> dict[TopicPartition, int]:
        """The high watermarks that the broker wrote last."""
        return read_offsets(self.path / HIGH_WATERMARKS)

    def note_high_watermarks(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Replaces the checkpoint. ValueError: the directory is open for reading."""
        if self._session is None:
            raise ValueError(f"{self.path} is open for reading only")
        write_offsets(self.logs.files, self.path / HIGH_WATERMARKS, offsets)

    def __enter__(self) -> "LogDir":
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.close()

    def abandon(self) -> None:
        """Closes everything as if the process had died: nothing is flushed or written."""
        session, self._session = self._session, None
        for log in self.logs.opened.values():
            log.abandon()
        if session is not None:
            session.end(clean=False)

    def close(self) -> None:
        """Closes all logs. Then marks a directory that was open for writing as cleanly shut down.
        If a partition cannot be opened, there is no mark, and every log is recovered at the next
        start.

        DiskFullError, or another OSError: all files are closed, and logs are recovered at the next
        start. An offline directory is closed without an error."""
        if self._session is not None and self._session.files.reason is not None:
            self.abandon()
            return
        session, self._session = self._session, None
        closed = False
        try:
            is_whole = session is None or self._is_whole(session)
            with ExitStack() as stack:  # all are closed, even if one cannot be
                if session is not None:
                    stack.enter_context(session.checkpoints.together())
                for log in self.logs.opened.values():
                    stack.callback(log.close)
            closed = is_whole and all(
                log.offline_reason is None for log in self.logs.opened.values()
            )
        finally:
            if session is not None:
                session.end(clean=closed)

    def _is_whole(self, session: Session) -> bool:
        """Whether every log in the directory is recovered, or was closed cleanly before. Only then
        may the mark of a clean shutdown be written."""
        needed = self.logs.unsure if session.was_clean else list(self.logs)
        return all(self.logs.open_or_offline(one).offline_reason is None for one in needed)
