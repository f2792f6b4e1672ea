"""Paths from a caller. An empty path is an error, and only a regular file is replaced.

Not here: the files of a log directory (storage)."""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import BinaryIO, Final

WRITERS: Final = count()  # numbers this process's writers: several may write the same file


def named(path: str | os.PathLike[str]) -> Path:
    """The path. ValueError: it is empty, perhaps from an unset variable. (Python would use the
    current directory.)"""
    if not os.fspath(path):
        raise ValueError("an empty path: name a file or a directory ('.' is this one)")
    return Path(path)


@contextmanager
def whole_file(path: Path) -> Iterator[BinaryIO]:
    """A file to write. It gets its name only when it is complete, and replaces an existing file.
    After an error, the existing file is unchanged.

    FileExistsError: the name belongs to a link, a pipe or a device, which would be lost."""
    check_replaceable(path)
    partial = path.with_name(f".{path.name}.{os.getpid()}-{next(WRITERS)}.part")
    partial.unlink(missing_ok=True)  # left by a process that died, with the same id
    try:
        with partial.open("xb") as file:
            yield file
        check_replaceable(path)  # something may have been created in the meantime
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def check_replaceable(path: Path) -> None:
    """FileExistsError: something of that name exists, and is not a regular file."""
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISREG(mode):
        what = "is a link" if stat.S_ISLNK(mode) else "is not a regular file"
        raise FileExistsError(errno.EEXIST, f"{what}, which is not written over", str(path))
