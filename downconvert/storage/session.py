"""The right of one process to write to a broker's directory, and the mark of a clean shutdown.

A broker holds a lock on `.lock` while it runs. After closing its logs it leaves a file as a mark.
If the next broker finds the mark, it need not recover the logs. It removes the mark before its
first change."""

import fcntl
import os
from pathlib import Path
from typing import Final

from .checkpoints.checkpoints import Checkpoints
from .disk.fence import FencedFiles
from .disk.files import Files, open_for_writing, replace_file
from .errors import LogInUseError
from .names import CLEAN_SHUTDOWN, LOCK

# The mark's content since 3.9; before, it was empty. Only its existence matters.
CLEAN: Final = b'{"version":0,"brokerEpoch":-1}'

# Such a lock belongs to the process, which could take it twice. This prevents that.
_held: Final[dict[str, "DirectoryLock"]] = {}


class DirectoryLock:
    """A broker's lock on a directory. LogInUseError: another process holds it. CorruptFileError:
    `.lock` is a link, or not a file."""

    def __init__(self, directory: Path) -> None:
        self._name = os.path.realpath(directory)
        if _held.setdefault(self._name, self) is not self:  # one step, for several threads
            raise LogInUseError(str(directory))
        try:
            self._file = _locked(directory)
        except BaseException:
            del _held[self._name]
            raise

    def release(self) -> None:
        if self._file >= 0:
            file, self._file = self._file, -1
            # The file is closed before the name is free: closing it ends all locks of this process
            # on the file, also that of another thread that takes the directory next.
            os.close(file)
            del _held[self._name]


def _locked(directory: Path) -> int:
    """A descriptor of the locked `.lock`."""
    # This does not use `Files`: nothing is ever written, and closing the descriptor releases the
    # lock.
    file = open_for_writing(directory / LOCK)
    try:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(file)
        raise LogInUseError(str(directory)) from error
    return file


class Session:
    """The right to write to a directory through `files`, until `end`."""

    def __init__(self, directory: Path, files: Files, *, verify_all: bool = False) -> None:
        """LogInUseError: another process, or another part of this one, has this right.

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
