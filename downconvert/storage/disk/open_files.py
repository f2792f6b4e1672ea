"""Bounds how many files are open: the least recently read segments close theirs, and so do those
that are written where there are too many."""

import resource
from collections import OrderedDict
from threading import Lock
from typing import Final, Protocol

DESCRIPTORS: Final = 3  # of a segment that is read: the log and its two indexes
OPEN_SEGMENTS_MIN: Final = 128  # whatever the limit: a process may by default open 1,024 files
OPEN_SEGMENTS_MAX: Final = 4096
WRITTEN_MIN: Final = 256  # files
WRITTEN_MAX: Final = 6000


def segments_max() -> int:
    """How many segments may have files open: half of the files that the process may open are left
    to connections. Opening one again costs a fetch more than finding its records."""
    files_max, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if files_max == resource.RLIM_INFINITY:
        return OPEN_SEGMENTS_MAX
    return min(max(files_max // 2 // DESCRIPTORS, OPEN_SEGMENTS_MIN), OPEN_SEGMENTS_MAX)


def written_max() -> int:
    """How many files may stay open for writing: a quarter of those that the process may open."""
    files_max, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if files_max == resource.RLIM_INFINITY:
        return WRITTEN_MAX
    return min(max(files_max // 4, WRITTEN_MIN), WRITTEN_MAX)


class WrittenFiles:
    """Counts the files that are open for writing. Where there is no room left, who has some open
    closes them once they are written, and opens them for the next append.

    So nobody closes the files of another, who may be writing to them."""

    __slots__ = ("_lock", "_max", "count")

    def __init__(self, files_max: int | None = None) -> None:
        """`files_max`: as many as `written_max` says, where it is None."""
        self._lock = Lock()
        self._max = written_max() if files_max is None else files_max
        self.count = 0

    def add(self, count: int) -> None:
        """So many were opened; below 0: closed."""
        with self._lock:
            self.count += count

    @property
    def has_room(self) -> bool:
        return self.count <= self._max


class Releasable(Protocol):
    """Something with open files."""

    def release(self) -> None:
        """Closes the files; they are opened again when they are needed."""


class OpenFiles:
    """The holders of open files, the one that was used last at the end.

    Several logs share it, and each may be read by another thread. So `release` may be called at any
    time, also while the holder reads: what is being read must stay open until then."""

    __slots__ = ("_holders", "_lock", "_max", "newest", "written")

    def __init__(self, holders_max: int | None = None, written: WrittenFiles | None = None) -> None:
        """`holders_max`: as many as `segments_max` says, where it is None."""
        self.written = WrittenFiles() if written is None else written
        self._holders: OrderedDict[int, Releasable] = OrderedDict()
        self._lock = Lock()
        self.newest: Releasable | None = None  # who used its files last, if that is known
        self._max = segments_max() if holders_max is None else holders_max

    def used(self, holder: Releasable) -> None:
        """`holder` has files open, and uses them now. For one that is not `newest`."""
        oldest = None
        with self._lock:
            self.newest = self._holders[id(holder)] = holder
            self._holders.move_to_end(id(holder))
            if len(self._holders) > self._max:
                _, oldest = self._holders.popitem(last=False)
        if oldest is not None:
            oldest.release()

    def released(self, holder: Releasable) -> None:
        """`holder` has closed its files."""
        with self._lock:
            self.newest = None
            self._holders.pop(id(holder), None)
