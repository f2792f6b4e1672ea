"""Whether the disk has room for producers' records: `/readyz` reports a full disk.

A disk counts as full from the first write without room until a write succeeds. If no producer
writes any more, no write can succeed. So some time after the last failure, free space is checked.

Not here: noticing that a disk is full (storage/disk/fence.py)."""

from typing import Final

from downconvert.storage import LogDir

PATIENCE: Final = 10.0  # seconds from the last failure until free space is checked


class DiskRoom:
    """The state of one directory's disk. Times in seconds of any one clock."""

    def __init__(self, log_dir: LogDir) -> None:
        self._log_dir = log_dir
        self._count = 0  # known failures
        self._failed_at = 0.0

    def failure(self, now: float) -> str | None:
        """Why the disk has no room for producers' records. None: it has room. Call it often."""
        count = self._log_dir.full_count
        if count != self._count:
            self._count, self._failed_at = count, now
        full = self._log_dir.full_file
        if full is None:
            return None
        if now - self._failed_at >= PATIENCE:
            self._log_dir.look_for_room()
            self._failed_at = now
            full = self._log_dir.full_file
        return None if full is None else f"its disk is full: there is no room for {full}"
