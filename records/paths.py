"""Paths that a caller names: an empty one is a mistake, and only a regular file is replaced.

Not here: the files of a log directory (storage)."""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


def named(path: str | os.PathLike[str]) -> Path:
    """The path. ValueError: it is empty, as of a variable that is not set; Python would take that
    for the directory that the process is in."""
    if not os.fspath(path):
        raise ValueError("an empty path: name a file or a directory ('.' is this one)")
    return Path(path)


@contextmanager
def whole_file(path: Path) -> Iterator[BinaryIO]:
    """A file to write, which has its name only when all of it is there. It takes the place of one
    that is there before; after an error, that is as it was.

    FileExistsError: what has the name is no regular file. A link, a pipe or a device would be gone
    afterwards."""
    check_replaceable(path)
    partial = path.with_name(f".{path.name}.{os.getpid()}.part")
    partial.unlink(missing_ok=True)  # of a process that died, and had this number
    try:
        with partial.open("xb") as file:
            yield file
        check_replaceable(path)  # something may have come meanwhile
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def check_replaceable(path: Path) -> None:
    """FileExistsError: there is something by that name, and it is no regular file."""
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISREG(mode):
        what = "a link" if stat.S_ISLNK(mode) else "no regular file"
        raise FileExistsError(errno.EEXIST, f"is {what}, which is not written over", str(path))
