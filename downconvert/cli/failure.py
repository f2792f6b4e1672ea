"""Errors in words for people. One line states the error, its place, and what to do.

Not here: printing (app.py), the text for a missing package (extras.py)."""

import errno
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from .extras import words_for


class CommandError(Exception):
    """A reason to stop, as one line for the user."""

    def __init__(self, words: str, exit_code: int = 2) -> None:
        self.exit_code = exit_code
        super().__init__(words)


_SYSTEM: Final = {
    errno.ENOENT: "no such file",
    errno.EACCES: "permission denied",
    errno.EISDIR: "is a directory, not a file",
    errno.ENOTDIR: "is not a directory",
    errno.ENOSPC: "the disk is full",
    errno.EMFILE: "too many open files: allow more (ulimit -n), or use fewer consumers or files",
    errno.EROFS: "the file system is read-only",
}


def in_words(error: Exception) -> str | None:
    """One line for an error from the input or the system. None for a defect of this program."""
    if isinstance(error, CommandError):
        return str(error)
    # Imported only after a failure, because help must not wait for codecs.
    from records import RecordsError

    from .advice import advice

    match error:
        case RecordsError():
            return f"{error}{advice(error)}"
        case ModuleNotFoundError(name=str(name)):
            return words_for(name)
        case OSError(errno=int(number), filename=name) if name is not None:
            return f"{name}: {_SYSTEM.get(number, error.strerror)}"
        case OSError():
            return _SYSTEM.get(error.errno or 0, str(error))
        case MemoryError():
            return "out of memory"
    return None


def need_directory(directory: Path) -> None:
    """CommandError: there is no such directory."""
    if directory.is_dir():
        return
    if directory.exists():
        raise CommandError(f"{directory}: is not a directory; name the directory that it is in")
    raise CommandError(f"{directory}: no such directory; the broker's log.dirs names it")


def no_partitions(directory: object) -> CommandError:
    """The error for a directory without partitions."""
    return CommandError(
        f"{directory}: no partitions there; name a broker's log directory, or a partition's "
        "(topic-0)"
    )


def reason(error: Exception) -> str:
    """Why a URL could not be read, without Python's names of errors."""
    from urllib.error import HTTPError, URLError  # takes 30 ms, which --help need not wait

    if isinstance(error, HTTPError):
        return f"the server says {error.code} {error.reason}"
    if isinstance(error, URLError):
        cause = error.reason
        return reason(cause) if isinstance(cause, Exception) else str(cause)
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error) or type(error).__name__


def shortened(problems: Sequence[str], shown_max: int = 5) -> list[str]:
    """The first of many problems, and the number of the others."""
    more = len(problems) - shown_max
    return [*problems[:shown_max], *([f"{more} more like these"] if more > 0 else [])]
