"""Stops all writes to a directory after its disk has failed.

When a sync fails, the system may have dropped the pages that it could not write. It reports that
only once: the next sync of the same file succeeds, and the lost data would count as flushed. So no
operation follows the first failure. As in Kafka (LogDirFailureChannel), the directory goes offline:
every later change is refused, and neither recovery points nor the mark of a clean shutdown are
written. At the next start, recovery reads all data that may not be on the disk.

A full disk is not such a failure: the incomplete write is cut off, and there may be space later.

Not here: the effect on the directory's partitions (log_dir.py, and the broker)."""

import os
from pathlib import Path
from typing import Final

from downconvert.storage.errors import DiskFullError, LogDirOfflineError, StorageError
from records.kernel import Buffer
from records.logged import log_of
from records.units import MiB

from .files import TEMPORARY_SUFFIX, Files, WritableFile

LOG: Final = log_of(__name__)
FULL_MAX: Final = 1000  # files tracked as having no space
PROBE: Final = f"room{TEMPORARY_SUFFIX}"  # the file that is written to test for space, and removed
PROBE_MAX: Final = MiB  # its maximum size in bytes


class FencedFiles:
    """The `Files` of a directory, until a failed change leaves the disk's state unknown. `reason`:
    the failure, or None.

    `full_count`: the number of changes that found the disk full."""

    def __init__(self, directory: Path, files: Files) -> None:
        self._directory = directory
        self._files = files
        self.reason: str | None = None
        self.full_count = 0
        self._full: dict[str, int] = {}  # by file that found no space, the bytes to write

    # --- Files

    def open(self, path: Path) -> WritableFile:
        self.check()
        try:
            return FencedFile(self, self._files.open(path))
        except DiskFullError as error:
            self.has_no_room(error)
            raise

    def rename(self, source: Path, target: Path) -> None:
        self.check()
        self._files.rename(source, target)

    def set_modified(self, path: Path, nanoseconds: int) -> None:
        self.check()
        self._files.set_modified(path, nanoseconds)

    def remove(self, path: Path) -> None:
        self.check()
        self._files.remove(path)

    def make_directory(self, path: Path) -> None:
        self.check()
        try:
            self._files.make_directory(path)
        except DiskFullError as error:
            self.has_no_room(error)
            raise

    def remove_directory(self, path: Path) -> None:
        self.check()
        self._files.remove_directory(path)

    def sync_directory(self, path: Path) -> None:
        self.check()
        try:
            self._files.sync_directory(path)
        except FileNotFoundError:  # without a directory there is nothing to sync
            raise
        except (OSError, DiskFullError) as error:
            raise self.fence(path, error) from error

    # --- called by FencedFile

    def check(self) -> None:
        """LogDirOfflineError: the disk has failed."""
        if self.reason is not None:
            raise LogDirOfflineError(str(self._directory), self.reason)

    def fence(self, path: Path, error: Exception) -> LogDirOfflineError:
        """Stops all changes from now on."""
        if self.reason is None:
            why = error.strerror if isinstance(error, OSError) else str(error)
            self.reason = f"{path}: {why}"
            LOG.error(
                "%s is offline, and nothing more is written to it: %s; check the disk, and start "
                "again",
                self._directory,
                self.reason,
            )
        return LogDirOfflineError(str(self._directory), self.reason)

    def has_no_room(self, error: DiskFullError, size: int = 0) -> None:
        """Logs that the disk is full. Logs it again only after there was space."""
        self.full_count += 1
        if not self._full:
            LOG.error("%s; it is written to again when there is room", error)
        if error.path in self._full or len(self._full) < FULL_MAX:
            self._full[error.path] = size

    def has_room(self, path: Path, size: int) -> None:
        """Notes that `size` bytes were written to a file. If a larger write to it had failed, it
        still counts as full."""
        if self._full and size >= self._full.get(str(path), size + 1):
            # Another thread's `look_for_room` may have found space for all files since.
            was_full = self._full.pop(str(path), None) is not None
            if was_full and not self._full:
                LOG.warning("%s has room, and is written again", path)

    @property
    def full(self) -> str | None:
        """A file for which there is no space; None if there is no such file."""
        return next(iter(self._full.copy()), None)

    def look_for_room(self) -> None:
        """Tests for space. It is needed for files that nobody writes to any more."""
        if self.reason is not None:
            return
        path, size = self._directory / PROBE, min(max(self._full.values(), default=0), PROBE_MAX)
        try:
            file = self._files.open(path)
            try:
                file.write_at(bytes(max(size, 1)), 0)
            finally:
                file.close()
                self._files.remove(path)
        except (StorageError, OSError):
            return
        self._full.clear()
        LOG.warning("%s has room again", self._directory)


class FencedFile:
    """A file in that directory."""

    __slots__ = ("_fence", "_file", "path")

    def __init__(self, fence: FencedFiles, file: WritableFile) -> None:
        self._fence = fence
        self._file = file
        self.path = file.path

    def fileno(self) -> int:
        return self._file.fileno()

    def write_at(self, data: Buffer, position: int) -> None:
        if self._fence.reason is not None:
            self._fence.check()
        try:
            self._file.write_at(data, position)
        except DiskFullError as error:
            self._fence.has_no_room(error, len(data))
            raise
        except OSError as error:
            raise self._fence.fence(self.path, error) from error
        if self._fence.full_count:
            self._fence.has_room(self.path, len(data))

    def truncate(self, size: int) -> None:
        self._fence.check()
        try:
            self._file.truncate(size)
        except DiskFullError as error:
            if size < os.fstat(self.fileno()).st_size:  # the incomplete write is still there
                raise self._fence.fence(self.path, error) from error
            self._fence.has_no_room(error)
            raise
        except OSError as error:
            raise self._fence.fence(self.path, error) from error

    def sync(self) -> None:
        self._fence.check()
        try:
            self._file.sync()
        except (OSError, DiskFullError) as error:
            raise self._fence.fence(self.path, error) from error

    def close(self) -> None:
        """A network file system may report only here that it could not write something."""
        try:
            self._file.close()
        except OSError as error:
            raise self._fence.fence(self.path, error) from error
