"""Finds the segments that a command line names.

Not here: partitions and log directories of a broker (log_dir.py)."""

from collections.abc import Sequence
from pathlib import Path


def segment_files(paths: Sequence[Path]) -> list[Path]:
    """The segments: files as given, and all files in given directories that end in `.log`.
    FileNotFoundError: a directory has no such file."""
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
