"""Finds segments in the paths of a command line.

Not here: partitions and log directories as a broker lays them out (log_dir.py)."""

from collections.abc import Sequence
from pathlib import Path


def segment_files(paths: Sequence[Path]) -> list[Path]:
    """The segments that are meant: files as they are, and everything under a directory that ends
    in `.log`. Raises FileNotFoundError where a directory holds none."""
    found: list[Path] = []
    for path in paths:
        if path.is_dir():
            inside = sorted(path.rglob("*.log"))
            if not inside:
                raise FileNotFoundError(f"{path} holds no .log file")
            found += inside
        else:
            found.append(path)
    return found
