"""The manifest of a conversion: the result for each segment, with digests.

A task writes a note for each segment, whether it could convert it or not. The manifest of the
directory has all notes, one per line. A note has the size and digest of a file. Brokers ignore
notes and manifest because of their suffixes.

Not here: converting (convert_segment.py)."""

import hashlib
import json
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

from downconvert.storage.disk.files import DISK, Files, replace_file
from downconvert.storage.names import Kind, file_name

MANIFEST: Final = "conversion-manifest.jsonl"
NOTE_SUFFIX: Final = ".converted.json"
IN_WORK_SUFFIX: Final = ".part"

Status: TypeAlias = Literal["converted", "kept", "failed"]
Verified: TypeAlias = Literal["records", "stream", "copy", ""]


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """The result of one segment's conversion. Sizes are bytes, digests SHA-256.

    status: "kept" means that an earlier run converted the segment and it is unchanged. "failed" has
        a reason in `error`.
    settings: of the conversion.
    records: of the result, as compared; -1 if they were not counted.
    control_batches, aborted_batches: of the source. v0 and v1 cannot hold control batches. Aborted
        batches are left out if the settings say so.
    verified: how source and result were compared. "records": all were read, and compared one by
        one. "stream": both gave the same stream of messages, which are too large to hold. "copy":
        the result has the bytes of the source."""

    topic: str
    partition: int
    segment: int  # its base offset
    status: Status
    settings: str
    source: str
    source_size: int
    source_modified: int  # nanoseconds
    source_digest: str = ""
    target: str = ""
    target_size: int = 0
    target_digest: str = ""
    batches_in: int = 0
    batches_out: int = 0
    records: int = -1
    records_converted: int = 0
    control_batches: int = 0
    aborted_batches: int = 0
    verified: Verified = ""
    error: str = ""
    cpu_seconds: float = 0.0
    peak_memory: int = 0  # bytes; the peak of the task's process so far; 0: not known

    def to_json(self) -> str:
        return json.dumps(asdict(self), separators=(",", ":"))


FIELDS: Final = {field.name for field in fields(Entry)}


def digest_of(path: Path) -> str:
    """The SHA-256 of a file, which is read once."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def note_path(directory: Path, base_offset: int) -> Path:
    """The path of a segment's note, in its partition's directory."""
    return directory / f"{base_offset:020d}{NOTE_SUFFIX}"


def write_note(directory: Path, entry: Entry, files: Files = DISK) -> Path:
    """Writes the note of a segment atomically; returns its path when it is on disk."""
    path = note_path(directory, entry.segment)
    replace_file(files, path, entry.to_json().encode() + b"\n")
    return path


def remove_note(directory: Path, base_offset: int, files: Files = DISK) -> None:
    """Removes the note of a segment; returns when that is on disk."""
    path = note_path(directory, base_offset)
    if path.exists():
        files.remove(path)
        files.sync_directory(directory)


def read_note(directory: Path, base_offset: int) -> Entry | None:
    """The note of a segment; None if there is none that can be read."""
    return read_note_at(note_path(directory, base_offset))


def read_note_at(path: Path) -> Entry | None:
    """As `read_note`, by the note's path."""
    try:
        return parse(path.read_bytes())
    except (OSError, ValueError):
        return None


def parse(line: bytes | str) -> Entry:
    """Parses a line. ValueError: it is no entry."""
    found: Any = json.loads(line)
    if not isinstance(found, dict):
        raise ValueError("not an entry of a manifest")
    try:
        return Entry(**{name: value for name, value in found.items() if name in FIELDS})
    except TypeError as error:
        raise ValueError(f"not an entry of a manifest: {error}") from error


def is_true(entry: Entry, directory: Path) -> bool:
    """Whether the file of an entry exists and has its digest: reads all of it."""
    if entry.status == "failed":
        return False
    path = directory / file_name(entry.segment, Kind.LOG)
    try:
        return path.stat().st_size == entry.target_size and digest_of(path) == entry.target_digest
    except OSError:
        return False


def notes(target: Path) -> Iterator[bytes]:
    """The notes below a directory, partition by partition, with at most one in memory."""
    for directory in sorted(path for path in target.iterdir() if path.is_dir()):
        with os.scandir(directory) as found:
            names = sorted(entry.name for entry in found if entry.name.endswith(NOTE_SUFFIX))
        for name in names:
            yield (directory / name).read_bytes()


def gather(target: Path, files: Files = DISK) -> Path:
    """Writes the manifest atomically, a line for each note."""
    path = target / MANIFEST
    temporary = path.with_name(path.name + IN_WORK_SUFFIX)
    files.remove(temporary)
    file = files.open(temporary)
    position = 0
    try:
        for line in notes(target):
            file.write_at(line, position)
            position += len(line)
        file.sync()
    finally:
        file.close()
    files.rename(temporary, path)
    files.sync_directory(target)
    return path


def read_manifest(target: Path) -> Iterator[Entry]:
    """The entries of a directory's manifest. OSError: it has none."""
    with (target / MANIFEST).open("rb") as lines:
        for line in lines:
            yield parse(line)
