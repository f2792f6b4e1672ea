"""Checks whether a log may be written: its directory is online, and its active file is in its
place.

A file that was moved or replaced still accepts appends, but nobody reads them there. So the log
goes offline as soon as that is noticed.

Not here: a directory whose disk has failed (fence.py), the schedule of checks (the broker)."""

from pathlib import Path
from typing import Final

from downconvert.storage.disk.fence import FencedFiles
from downconvert.storage.errors import LogDirOfflineError
from records.logged import log_of

from .segment_writer import SegmentWriter

LOG: Final = log_of(__name__)


class WriteGuard:
    """Guards one log."""

    __slots__ = ("_files", "_path", "moved")

    def __init__(self, path: Path, files: FencedFiles) -> None:
        self._path = path
        self._files = files
        self.moved: str | None = None  # why it is offline, if the directory is online

    @property
    def reason(self) -> str | None:
        """Why the log is offline; None if it is online."""
        return self.moved or self._files.reason

    def look(self, active: SegmentWriter) -> bool:
        """Checks the file, and returns whether the log is online. If the file is gone, the log goes
        offline, and this is logged."""
        if self.reason is None and not active.is_in_place():
            path = active.segment.path()
            self.moved = f"{path} was moved away, replaced or cut by somebody else"
            LOG.error("%s is offline: %s; put it back, and start again", self._path, self.moved)
        return self.reason is None

    def check(self, active: SegmentWriter) -> None:
        """LogDirOfflineError: the log is offline. If the file is closed, checks that it exists,
        because it will be opened."""
        if self._files.reason is not None:
            self._files.check()
        if active.log is None:
            self.look(active)
        if self.moved is not None:
            raise LogDirOfflineError(str(self._path), self.moved)
