"""Which process may write to a broker's directory, and whether the last one shut down cleanly.

A broker holds a lock on `.lock` as long as it runs, and when it has closed its logs leaves a file
that says so. The next one that finds the file need not read the logs again; the file is removed
before the first change."""

import fcntl
import os
from pathlib import Path
from typing import Final

from .checkpoints.checkpoints import Checkpoints
from .disk.fence import FencedFiles
from .disk.files import Files, open_for_writing, replace_file
from .errors import LogInUseError
from .names import CLEAN_SHUTDOWN, LOCK

# What brokers write since 3.9; before, the file was empty. Its being there is what counts.
CLEAN: Final = b'{"version":0,"brokerEpoch":-1}'

# Locks of this kind belong to the process: one process can take the same lock twice.
_held: Final[set[str]] = set()


class DirectoryLock:
    """The lock that a broker holds on a directory. LogInUseError: someone else holds it;
    CorruptFileError: `.lock` is a link, or no file."""

    def __init__(self, directory: Path) -> None:
        self._name = os.path.realpath(directory)
        if self._name in _held:
            raise LogInUseError(str(directory))
        # Not through `Files`: nothing is ever written, and closing the descriptor unlocks it.
        self._file = open_for_writing(directory / LOCK)
        try:
            fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(self._file)
            raise LogInUseError(str(directory)) from error
        _held.add(self._name)

    def release(self) -> None:
        if self._file >= 0:
            _held.discard(self._name)
            os.close(self._file)
            self._file = -1


class Session:
    """The right to write to a directory, until `end`, through `files`."""

    def __init__(self, directory: Path, files: Files, *, verify_all: bool = False) -> None:
        """LogInUseError: another process has it, or another part of this one.

        `verify_all`: nothing counts as flushed, whatever the checkpoints say."""
        self._directory = directory
        self.files = FencedFiles(directory, files)
        self._lock = DirectoryLock(directory)
        try:
            found = (directory / CLEAN_SHUTDOWN).exists()
            self.was_clean = found and not verify_all
            self.verifies_all = verify_all
            self.checkpoints = Checkpoints(directory, self.files)
            if found:
                self.files.remove(directory / CLEAN_SHUTDOWN)
                self.files.sync_directory(directory)
        except BaseException:
            self._lock.release()
            raise

    def end(self, *, clean: bool) -> None:
        """`clean`: every log in the directory was closed without an error."""
        try:
            if clean:
                replace_file(self.files, self._directory / CLEAN_SHUTDOWN, CLEAN)
        finally:
            self._lock.release()
