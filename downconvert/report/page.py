"""Writes a report: one HTML file that opens offline.

Not here: how it looks (style.py)."""

from collections.abc import Iterable
from pathlib import Path

from records.paths import whole_file


def write_page(path: Path, parts: Iterable[str]) -> None:
    """Writes a file, all of it or nothing. FileExistsError: as `whole_file`."""
    with whole_file(path) as file:
        file.write("".join(parts).encode())
