"""Limits the number of open files. The least recently read segments close their files. Written
segments do so if there are too many."""

import os
import resource
from collections import OrderedDict
from threading import Lock
from typing import Final, Protocol

from records.files.file_records import SharedFile

DESCRIPTORS: Final = 3  # for a segment that is read: the log and its two indexes
OPEN_SEGMENTS_MIN: Final = 128  # even with the default limit of 1,024 files per process
OPEN_SEGMENTS_MAX: Final = 4096
WRITTEN_MIN: Final = 256  # files
WRITTEN_MAX: Final = 6000


def segments_max() -> int:
    """The maximum number of segments with open files. Half of the files that the process may open
    are left to connections. Reopening a segment costs a fetch more than finding its records."""
    files_max, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if files_max == resource.RLIM_INFINITY:
        return OPEN_SEGMENTS_MAX
    return min(max(files_max // 2 // DESCRIPTORS, OPEN_SEGMENTS_MIN), OPEN_SEGMENTS_MAX)


def written_max() -> int:
    """The maximum number of files open for writing: a quarter of those that the process may
    open."""
    files_max, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if files_max == resource.RLIM_INFINITY:
        return WRITTEN_MAX
    return min(max(files_max // 4, WRITTEN_MIN), WRITTEN_MAX)


def connections_max(most: int) -> int:
    """The maximum number of connections: `most`, but at most three quarters of the files that the
    process may open. Otherwise clients that connect could keep logs from opening their files."""
    files_max, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return most if files_max == resource.RLIM_INFINITY else min(most, files_max * 3 // 4)


class WrittenFiles:
    """Counts the files that are open for writing. Above the maximum, a writer closes its own files
    after each append, and opens them for the next one. It never closes those of another writer,
    which may be in use."""

    __slots__ = ("_lock", "_max", "count", "has_room")

    def __init__(self, files_max: int | None = None) -> None:
        """`files_max`: None means `written_max()`."""
        self._lock = Lock()
        self._max = written_max() if files_max is None else files_max
        self.count = 0
        self.has_room = True

    def add(self, count: int) -> None:
        """Adds files that were opened. A negative count means closed files."""
        with self._lock:
            self.count += count
            self.has_room = self.count <= self._max


class Releasable(Protocol):
    """An object with open files."""

    def release(self) -> None:
        """Closes the files. They are opened again when needed."""


class OpenFiles:
    """The holders of open files, the most recently used one at the end.

    Several logs share it, and each may be read by another thread. So `release` may be called at any
    time, even while the holder reads. Files in use must stay open until then."""

    __slots__ = ("_empty", "_holders", "_lock", "_max", "newest", "written")

    def __init__(self, holders_max: int | None = None, written: WrittenFiles | None = None) -> None:
        """`holders_max`: None means `segments_max()`."""
        self.written = WrittenFiles() if written is None else written
        self._empty: SharedFile | None = None
        self._holders: OrderedDict[int, Releasable] = OrderedDict()
        self._lock = Lock()
        self.newest: Releasable | None = None  # the last holder that used its files, if known
        self._max = segments_max() if holders_max is None else holders_max

    def used(self, holder: Releasable) -> None:
        """Notes that `holder` has files open and uses them now. Not needed for `newest`."""
        oldest = None
        with self._lock:
            self.newest = self._holders[id(holder)] = holder
            self._holders.move_to_end(id(holder))
            if len(self._holders) > self._max:
                _, oldest = self._holders.popitem(last=False)
        if oldest is not None:
            oldest.release()

    def empty(self) -> SharedFile:
        """An open file without bytes, shared by all empty ranges: most fetches return nothing."""
        file = self._empty
        if file is None or file.closed:  # closing a range closes it
            file = self._empty = SharedFile(os.devnull)
        return file

    def released(self, holder: Releasable) -> None:
        """Notes that `holder` has closed its files."""
        with self._lock:
            self.newest = None
            self._holders.pop(id(holder), None)
