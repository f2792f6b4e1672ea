"""Clock, memory and CPU time of a process, and statistics of many measurements.

Memory is the resident set size, less its value when the process was idle with everything imported.
Without /proc only the peak of the process's whole life is known."""

import gc
import resource
import sys
import time
from bisect import bisect_right
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from downconvert.serving.freed_memory import return_freed_memory
from records.units import KiB

_STATUS: Final = Path("/proc/self/status")
_CLEAR_REFS: Final = Path("/proc/self/clear_refs")
_CLEAR_PEAK: Final = "5"  # man 5 proc: "reset the peak resident set size"
_RUSAGE_UNIT: Final = 1 if sys.platform == "darwin" else 1024


def now() -> float:
    """Seconds, the same clock in all processes of this machine."""
    return time.monotonic()


class Memory:
    """The growth of this process after this object was made."""

    def __init__(self) -> None:
        gc.collect()
        return_freed_memory()
        self._peak_was_reset = _reset_peak()
        self.idle = _status("VmRSS") or _peak_of_life()

    def peak(self) -> int:
        """The maximum of resident bytes above idle; 0 if unknown.

        Without /proc: above the highest peak before."""
        peak = _status("VmHWM")
        if peak is None:
            return max(_peak_of_life() - self.idle, 0)
        return max(peak - self.idle, 0) if self._peak_was_reset else 0


class Resident:
    """The resident bytes of another process, for many calls; 0 if unknown."""

    def __init__(self, process_id: int) -> None:
        path = Path(f"/proc/{process_id}/statm")
        self._file = path.open("rb", buffering=0) if path.exists() else None
        self._page = resource.getpagesize()

    def __call__(self) -> int:
        if self._file is None:
            return 0
        try:
            self._file.seek(0)
            return int(self._file.read(128).split()[1]) * self._page
        except (OSError, IndexError):  # it has ended
            return 0

    def close(self) -> None:
        if self._file is not None:
            self._file.close()


class Cpu:
    """CPU seconds of this process, user and system, after this object was made."""

    def __init__(self) -> None:
        self._at_first = resource.getrusage(resource.RUSAGE_SELF)

    def seconds(self) -> float:
        usage = resource.getrusage(resource.RUSAGE_SELF)
        first = self._at_first
        return usage.ru_utime - first.ru_utime + usage.ru_stime - first.ru_stime


def percentile(values: Sequence[float], percent: float) -> float:
    """A percentile of sorted values, by nearest rank; 0 if there are none."""
    if not values:
        return 0.0
    rank = -(-len(values) * percent // 100)
    return values[min(max(int(rank), 1), len(values)) - 1]


def thinned(line: Sequence[tuple[float, int]], buckets: int) -> list[tuple[float, int]]:
    """A line of (time, height) with at most `buckets` points: the highest of each bucket of
    time."""
    if len(line) <= buckets:
        return list(line)
    times = [time for time, _ in line]
    first, last = times[0], times[-1]
    result: list[tuple[float, int]] = []
    start = 0
    for bucket in range(1, buckets + 1):
        # The last bucket ends at the end of the line, however the division is rounded.
        bound = last if bucket == buckets else first + (last - first) * bucket / buckets
        end = bisect_right(times, bound)
        if end > start:
            result.append(max(line[start:end], key=lambda point: point[1]))
            start = end
    return result


def _reset_peak() -> bool:
    try:
        _CLEAR_REFS.write_text(_CLEAR_PEAK)
    except OSError:
        return False
    return True


def _status(name: str) -> int | None:
    """A field of /proc/self/status in bytes."""
    try:
        text = _STATUS.read_text()
    except OSError:
        return None
    for line in text.splitlines():
        if line.startswith(name + ":"):
            return int(line.split()[1]) * KiB
    return None


def _peak_of_life() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _RUSAGE_UNIT
