"""What this process is, and what it takes of its machine."""

import os
import resource
import tempfile
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final

DISTRIBUTION: Final = "lazy-downconvert"
STATM: Final = Path("/proc/self/statm")
OPEN_FILES: Final = Path("/proc/self/fd")


def resident_bytes() -> int:
    """Memory that this process has."""
    if STATM.exists():
        return int(STATM.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # macOS: the most that it had


def cpu_seconds() -> float:
    """CPU time of all threads, in programs and in the system, since the start."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def free_bytes(directory: str | None) -> int | None:
    """On the disk of a directory, for who is not root; None: of the system's temporary one. The
    answer is None where nobody can say."""
    try:
        disk = os.statvfs(directory or tempfile.gettempdir())
    except OSError:
        return None
    return disk.f_bavail * disk.f_frsize


def installed_version() -> str:
    """Of this program; empty: it is not installed."""
    try:
        return version(DISTRIBUTION)
    except PackageNotFoundError:
        return ""


def open_files() -> int:
    """Files, sockets and pipes; -1 where the system does not say."""
    try:
        return len(os.listdir(OPEN_FILES))  # noqa: PTH208 - names are enough
    except OSError:
        return -1


def open_files_max() -> int:
    """How many this process may have."""
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]
