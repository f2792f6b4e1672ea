"""How many files are open at once: the segments that were not read for longest close theirs.

Not here: what a segment opens (segment.py)."""

from collections import OrderedDict
from io import FileIO
from threading import Lock
from typing import Final, Protocol

# A segment that is read has up to three descriptors, and a process may by default have 1,024.
OPEN_SEGMENTS_MAX: Final = 128


class SharedFile(FileIO):
    """A file for reading that lives as long as somebody holds a slice of it.

    A fetch may still be sending what it was given when the segment has let go of the file, or has
    been deleted."""

    def __del__(self) -> None:
        self.close()


class Releasable(Protocol):
    """Something that has files open."""

    def release(self) -> None:
        """Lets go of the files; they are opened again when they are needed."""


class OpenFiles:
    """Those that have files open, the one that was used last at the end.

    Logs share it, and each may be read by another thread. So a holder may be told to let go of its
    files at any time, also while it reads: it keeps its own reference to what it is reading."""

    __slots__ = ("_holders", "_lock", "_max")

    def __init__(self, holders_max: int = OPEN_SEGMENTS_MAX) -> None:
        self._holders: OrderedDict[int, Releasable] = OrderedDict()
        self._lock = Lock()
        self._max = holders_max

    def used(self, holder: Releasable) -> None:
        """`holder` has files open, and uses them now."""
        oldest = None
        with self._lock:
            self._holders[id(holder)] = holder
            self._holders.move_to_end(id(holder))
            if len(self._holders) > self._max:
                _, oldest = self._holders.popitem(last=False)
        if oldest is not None:
            oldest.release()

    def released(self, holder: Releasable) -> None:
        """`holder` has no file open any more."""
        with self._lock:
            self._holders.pop(id(holder), None)
