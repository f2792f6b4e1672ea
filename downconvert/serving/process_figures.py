"""What this process takes of its machine."""

import os
import resource
from pathlib import Path
from typing import Final

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


def open_files() -> int:
    """Files, sockets and pipes; -1 where the system does not say."""
    try:
        return len(os.listdir(OPEN_FILES))  # noqa: PTH208 - names are enough
    except OSError:
        return -1


def open_files_max() -> int:
    """How many this process may have."""
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]
