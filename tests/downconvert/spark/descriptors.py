"""The files that this process has open."""

from contextlib import suppress
from pathlib import Path


def open_below(directory: Path | str) -> list[str]:
    """Those below a directory. Other threads may open and close files meanwhile."""
    found = []
    for link in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):
            found.append(str(link.readlink()))
    return [path for path in found if path.startswith(str(directory))]
