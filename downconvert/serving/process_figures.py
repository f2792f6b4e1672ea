"""Figures of this process: its version, and its use of the machine."""

import os
import resource
import sys
import tempfile
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final

from records.units import KiB

DISTRIBUTION: Final = "lazy-downconvert"
STATM: Final = Path("/proc/self/statm")
OPEN_FILES: Final = Path("/proc/self/fd")


def resident_bytes() -> int:
    """Resident memory of this process. If the system does not report it, or the process may open no
    more files: the maximum so far."""
    with suppress(OSError):
        return int(STATM.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most * KiB


def cpu_seconds() -> float:
    """CPU time of all threads, in user and system mode, since the start."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def free_bytes(directory: str | None) -> int | None:
    """Free bytes on the disk of a directory, for users other than root. `directory` None: the
    system's temporary directory. Returns None if unknown."""
    try:
        disk = os.statvfs(directory or tempfile.gettempdir())
    except OSError:
        return None
    return disk.f_bavail * disk.f_frsize


def installed_version() -> str:
    """The version of this program. Empty if it is not installed."""
    try:
        return version(DISTRIBUTION)
    except PackageNotFoundError:
        return ""


def open_files() -> int:
    """The number of open files, sockets and pipes. -1: unknown."""
    try:
        return len(os.listdir(OPEN_FILES))  # noqa: PTH208 - names are enough
    except OSError:
        return -1


def open_files_max() -> int:
    """The limit of open files for this process."""
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]
