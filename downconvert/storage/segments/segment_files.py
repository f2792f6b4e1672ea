"""Finds segments in the paths of a command line.

Not here: partitions and log directories of a broker (log_dir.py)."""

from collections.abc import Sequence
from pathlib import Path


def segment_files(paths: Sequence[Path]) -> list[Path]:
    """The segments: files as given, and all files in directories that end in `.log`.
    FileNotFoundError: a directory has none."""
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
