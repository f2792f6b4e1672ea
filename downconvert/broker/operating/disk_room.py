"""Whether the disk takes what producers send: what `/readyz` says of a full disk.

A disk is full from the first write that found no room until one succeeds. While nobody writes,
nothing would ever succeed. So after a while without such a failure, room is looked for.

Not here: noticing that a disk is full (storage/disk/fence.py)."""

from typing import Final

from downconvert.storage import LogDir

PATIENCE: Final = 10.0  # seconds since the last failure, until room is looked for


class DiskRoom:
    """Of one directory. Times in seconds of any one clock."""

    def __init__(self, log_dir: LogDir) -> None:
        self._log_dir = log_dir
        self._count = 0  # failures that are known
        self._failed_at = 0.0

    def failure(self, now: float) -> str | None:
        """Why producers are refused; None: they are not, for want of room. To be called often."""
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
