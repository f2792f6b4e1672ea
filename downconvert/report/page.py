"""Writes a report: one HTML file that opens offline.

Not here: how it looks (style.py)."""

from collections.abc import Iterable
from pathlib import Path


def write_page(path: Path, parts: Iterable[str]) -> None:
    """Writes a file, all of it or nothing."""
    partial = path.with_name(f".{path.name}.part")
    try:
        partial.write_text("".join(parts), encoding="utf-8")
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
