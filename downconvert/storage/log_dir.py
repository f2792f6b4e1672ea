"""A broker's directory: the logs of many partitions, and what the broker notes about them.

Directories of every arrangement are read: of brokers with and without `meta.properties`, of KRaft
nodes (whose `__cluster_metadata-0` is a log like any other), copies of which parts are missing, and
checkpoints that name partitions that are not there.

Not here: one partition's log (log.py), who may write to the directory (session.py)."""

import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Final
from uuid import NAMESPACE_URL, uuid5

from .checkpoint import read_offsets, write_offsets
from .config import LogConfig
from .files import DISK, Files
from .log import Log
from .metadata import MetaProperties, read_meta_properties
from .names import HIGH_WATERMARKS, TopicPartition, parse_partition
from .open_files import OpenFiles
from .session import Session

NAME_SIZE_MAX: Final = 255  # bytes of a name in a directory


class Logs(Mapping[TopicPartition, Log]):
    """The logs of a directory by topic and partition; each is opened when it is first asked for."""

    def __init__(
        self, path: Path, config: LogConfig, files: Files, session: Session | None
    ) -> None:
        self._path = path
        self._config = config
        self.files = files
        self._session = session
        self._open_files = OpenFiles()
        self.opened: dict[TopicPartition, Log] = {}

    def __getitem__(self, partition: TopicPartition) -> Log:
        if partition not in self.opened:
            partition = TopicPartition(*partition)
            path = self._path / str(partition)
            if parse_partition(path.name) != partition or not path.is_dir():
                raise KeyError(partition)
            self.opened[partition] = self._open(path)
        return self.opened[partition]

    def __iter__(self) -> Iterator[TopicPartition]:
        with os.scandir(self._path) as entries:
            names = [parse_partition(entry.name) for entry in entries if entry.is_dir()]
        return iter(sorted(name for name in names if name is not None))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def create(self, partition: TopicPartition) -> Log:
        """The log of a partition, made if there is none. ValueError: opened for reading."""
        if self._session is None:
            raise ValueError(f"{self._path} is open for reading only")
        path = self._path / str(partition)
        if parse_partition(path.name) != partition:
            raise ValueError(f"{partition} cannot be the name of a partition")
        if not path.is_dir():
            self.files.make_directory(path)
            self.files.sync_directory(self._path)
        return self[partition]

    def delete(self, partition: TopicPartition) -> None:
        """Removes a log with everything in its directory; ranges that were handed out stay good.

        KeyError: there is none. ValueError: opened for reading. The directory is renamed first, as
        Kafka does it: what a crash leaves of it is no log any more."""
        if self._session is None:
            raise ValueError(f"{self._path} is open for reading only")
        self[partition].close()
        del self.opened[partition]
        suffix = f".{uuid5(NAMESPACE_URL, str(partition)).hex}-delete"
        gone = self._path / (str(partition)[: NAME_SIZE_MAX - len(suffix)] + suffix)
        if gone.is_dir():
            self._remove(gone)
        self.files.rename(self._path / str(partition), gone)
        self.files.sync_directory(self._path)
        self._session.checkpoints.forget(partition)
        self._remove(gone)

    def _remove(self, directory: Path) -> None:
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
        return Log.recover(path, self._session, self._config, self.files, self._open_files)


class LogDir:
    """The logs in a directory. For reading it may be one that a broker is writing to."""

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
        distrust: bool = False,
    ) -> "LogDir":
        """OSError where there is no such directory; LogInUseError: a broker is writing to it.

        `writable`: every log is recovered when it is first asked for, and all are on closing;
        `distrust`: all of it is read then, not only what had not been flushed."""
        path = Path(path)
        if not path.is_dir():
            raise NotADirectoryError(f"{path} is not a directory")
        session = Session(path, files, distrust=distrust) if writable else None
        return cls(path, Logs(path, config or LogConfig(), files, session), session)

    @property
    def meta(self) -> MetaProperties | None:
        """Which broker the directory belongs to; None: one before 0.9."""
        return read_meta_properties(self.path)

    @property
    def high_watermarks(self) -> dict[TopicPartition, int]:
        """Up to where the followers had everything, when the broker noted it last."""
        return read_offsets(self.path / HIGH_WATERMARKS)

    def note_high_watermarks(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Replaces what is noted of them. ValueError: the directory is open for reading."""
        if self._session is None:
            raise ValueError(f"{self.path} is open for reading only")
        write_offsets(self.logs.files, self.path / HIGH_WATERMARKS, offsets)

    def __enter__(self) -> "LogDir":
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.close()

    def abandon(self) -> None:
        """Lets go of everything as if the process had died: nothing is flushed, nothing noted."""
        session, self._session = self._session, None
        for log in self.logs.opened.values():
            log.abandon()
        if session is not None:
            session.end(clean=False)

    def close(self) -> None:
        """Closes all logs. What was opened for writing is then as after a clean shutdown."""
        session, self._session = self._session, None
        closed = False
        try:
            if session is not None and not session.was_clean:
                for partition in self.logs:  # a clean shutdown vouches for all of them
                    self.logs[partition]
            with ExitStack() as stack:  # all are closed, even if one cannot be
                for log in self.logs.opened.values():
                    stack.callback(log.close)
            closed = True
        finally:
            if session is not None:
                session.end(clean=closed)
