"""The machine on which figures were measured.

Not here: the kernel that ran (records.backend)."""

import os
import platform
from pathlib import Path

_CPU_INFO = Path("/proc/cpuinfo")


def environment() -> dict[str, str]:
    """Processor, cores, system, Python."""
    return {
        "processor": _processor(),
        "cores": str(os.cpu_count()),
        "system": f"{platform.system()} {platform.release()}",
        "python": f"{platform.python_implementation()} {platform.python_version()}",
    }


def _processor() -> str:
    if _CPU_INFO.exists():
        for line in _CPU_INFO.read_text().splitlines():
            name, _, value = line.partition(":")
            if name.strip() == "model name":
                return value.strip()
    return platform.processor() or platform.machine()
