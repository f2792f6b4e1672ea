"""The only place that changes a disk: writes, truncations, renames and their syncs.

All code of this package that writes gets a `Files` as an argument. Tests pass one that loses
unsynced data or has no space left."""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Protocol

from downconvert.storage.errors import CorruptFileError, DiskFullError
from records.kernel import Buffer
from records.units import MiB

# The suffix of a file that is being written to replace another. Kafka uses the same suffix, and a
# broker removes such files after a crash.
TEMPORARY_SUFFIX: Final = ".tmp"

READ_SIZE_MAX: Final = MiB  # bytes in one call

IS_LINK: Final = "is a link, and nothing is written through one"
HAS_TWO_NAMES: Final = "has a second name (a hard link), and what is written would be in both"

NO_ROOM: Final = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


class WritableFile(Protocol):
    """A file open for writing."""

    @property
    def path(self) -> Path: ...

    def fileno(self) -> int: ...

    def write_at(self, data: Buffer, position: int) -> None:
        """Writes all of `data`. DiskFullError: a part of it may have been written."""

    def truncate(self, size: int) -> None:
        """Truncates the file, or extends it by zeros that take no space."""

    def sync(self) -> None:
        """Returns when the written data will survive a crash of the machine."""

    def close(self) -> None: ...


class Files(Protocol):
    """The changes of a directory."""

    def open(self, path: Path) -> WritableFile:
        """Opens a file for writing, and creates it if needed.

        CorruptFileError: the name is that of a link, a pipe or a device, or of a file that has a
        second name."""

    def rename(self, source: Path, target: Path) -> None: ...

    def set_modified(self, path: Path, nanoseconds: int) -> None:
        """Sets the modification time of a file, in nanoseconds since the epoch."""

    def remove(self, path: Path) -> None:
        """Removes a file, if it exists."""

    def make_directory(self, path: Path) -> None:
        """Creates a directory, unless it exists."""

    def remove_directory(self, path: Path) -> None:
        """Removes an empty directory."""

    def sync_directory(self, path: Path) -> None:
        """Returns when the names in a directory will survive a crash of the machine."""


class DiskFile:
    """A file descriptor, written by position."""

    __slots__ = ("_fd", "path")

    def __init__(self, path: Path) -> None:
        self.path = path
        with _room(path):
            self._fd = open_for_writing(path)
        if os.fstat(self._fd).st_nlink > 1:
            self.close()
            raise CorruptFileError(HAS_TWO_NAMES, str(path))

    def fileno(self) -> int:
        return self._fd

    def write_at(self, data: Buffer, position: int) -> None:
        try:
            written = os.pwrite(self._fd, data, position)
            while written < len(data):
                rest = memoryview(data)[written:]
                written += os.pwrite(self._fd, rest, position + written)
        except OSError as error:
            _refuse_if_full(error, self.path)
            raise

    def truncate(self, size: int) -> None:
        with _room(self.path):
            os.ftruncate(self._fd, size)

    def sync(self) -> None:
        with _room(self.path):
            os.fsync(self._fd)

    def close(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)  # closes it even if it raises an error


class Disk:
    """The files of the machine."""

    def open(self, path: Path) -> WritableFile:
        return DiskFile(path)

    def rename(self, source: Path, target: Path) -> None:
        with _room(target):
            source.rename(target)

    def set_modified(self, path: Path, nanoseconds: int) -> None:
        os.utime(path, ns=(nanoseconds, nanoseconds), follow_symlinks=False)

    def remove(self, path: Path) -> None:
        path.unlink(missing_ok=True)

    def make_directory(self, path: Path) -> None:
        with _room(path):
            path.mkdir(exist_ok=True)

    def remove_directory(self, path: Path) -> None:
        path.rmdir()

    def sync_directory(self, path: Path) -> None:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)


DISK: Final = Disk()


def open_for_writing(path: Path) -> int:
    """A descriptor of a regular file, which is created if needed.

    CorruptFileError: the path is a link, which may lead anywhere, or a pipe or a device."""
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    try:
        fd = os.open(path, flags, 0o644)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise CorruptFileError(IS_LINK, str(path)) from error
        raise
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise CorruptFileError("is not a regular file", str(path))
    return fd


def read_file(path: Path | str) -> bytes:
    """All of a small file. OSError: there is none; CorruptFileError: it is a pipe, a device, a
    directory or a link to itself, some of which would never end."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise CorruptFileError("is a link that leads to itself", str(path)) from error
        raise
    try:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            raise CorruptFileError("is not a regular file", str(path))
        # Asks for one byte more than the size, so that one call sees the end, too.
        size, data = min(status.st_size, READ_SIZE_MAX) + 1, b""
        while more := os.read(fd, size):
            data += more
            if len(more) < size:
                break
        return data
    finally:
        os.close(fd)


def replace_file(files: Files, path: Path, data: Buffer) -> None:
    """Replaces a file by `data` in one step. Returns when it is synced."""
    temporary = path.with_name(path.name + TEMPORARY_SUFFIX)
    files.remove(temporary)  # a crash may have left a longer one
    file = files.open(temporary)
    try:
        file.write_at(data, 0)
        file.sync()
    except DiskFullError:
        files.remove(temporary)
        raise
    finally:
        file.close()
    files.rename(temporary, path)
    files.sync_directory(path.parent)


@contextmanager
def _room(path: Path) -> Iterator[None]:
    """Turns an error for a full disk inside this block into DiskFullError."""
    try:
        yield
    except OSError as error:
        _refuse_if_full(error, path)
        raise


def _refuse_if_full(error: OSError, path: Path) -> None:
    """DiskFullError: the error says that there is no room."""
    if error.errno in NO_ROOM:
        raise DiskFullError(str(path)) from error
