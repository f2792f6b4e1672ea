"""Shows the small files of a segment and of a broker as lines, and finds wrong index entries.

Not here: reading the files (storage)."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from downconvert.storage.dump import can_dump, dump_entries
from downconvert.storage.names import Kind, parse_file_name
from downconvert.storage.verify import verify_indexes
from records import CorruptRecordsError

__all__ = ["can_dump", "index_problems", "small_file_lines", "small_files"]

INDEXES = (Kind.LOG, Kind.OFFSET_INDEX, Kind.TIME_INDEX, Kind.TRANSACTION_INDEX)


def small_files(paths: Sequence[Path]) -> list[Path]:
    """The small files in the directories among `paths`."""
    return [
        found
        for path in paths
        if path.is_dir()
        for found in sorted(path.rglob("*"))
        if found.is_file() and can_dump(found)
    ]


def small_file_lines(path: Path, *, as_json: bool) -> Iterator[str]:
    """One line for each entry, like Kafka's own dump tool or as JSON."""
    if not as_json:
        yield f"Dumping {path}"
    for entry in dump_entries(path):
        if as_json:
            yield json.dumps({"type": "entry", "file": str(path), **entry})
        else:
            yield " ".join(f"{name}: {value}" for name, value in entry.items())


def index_problems(paths: Sequence[Path]) -> Iterator[str]:
    """The problems in the indexes of these segments."""
    segments: dict[tuple[Path, int], None] = {}
    for path in paths:
        name = parse_file_name(path.name)
        if name is not None and name.kind in INDEXES:
            segments[path.parent, name.offset] = None
    for directory, base_offset in segments:
        try:
            yield from map(str, verify_indexes(directory, base_offset))
        except CorruptRecordsError as error:
            yield f"{directory}: the log of offset {base_offset} is damaged: {error}"
