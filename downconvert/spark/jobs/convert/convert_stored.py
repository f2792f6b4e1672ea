"""Converts one segment from or to an object store, as a task of a conversion.

The source is copied to this machine, and converted and compared here as usual. The result is then
uploaded: indexes first, then the log, and last the note with its digest. Each object is written
atomically, and nothing is renamed. Two attempts at the same segment write the same bytes to the
same names. So a task may be killed at any time: its files are written again.

Not here: converting (convert_segment.py), which segments and on which machines (convert.py), the
manifest of all notes (stored_manifest.py)."""

import hashlib
import tempfile
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path

from downconvert.spark.logs.segment_files import PartitionLog
from downconvert.spark.logs.staging import staged
from downconvert.spark.logs.stored_headers import end_of_batches
from downconvert.spark.stores.stores import below, is_stored, readable, remove, shown, write
from downconvert.storage.names import Kind, file_name
from downconvert.storage.segments.segment import Segment

from .convert_segment import Task, convert_segment
from .manifest import Entry, is_true, note_path, read_note
from .stored_manifest import read_stored_note


def convert_stored(task: Task, log: PartitionLog, *, attempt: str) -> Entry:
    """Converts a segment of a log, unless it is converted already, as `convert_segment` does.

    OSError: the machine or the store failed; files in the target are complete."""
    to_store = is_stored(task.target)
    note_uri = below(task.target, note_path(Path(), task.base_offset).name) if to_store else ""
    known = (
        read_stored_note(note_uri) if to_store else read_note(Path(task.target), task.base_offset)
    )
    if known is not None and _is_done(known, task, log):
        return replace(known, status="kept", cpu_seconds=0.0)
    with ExitStack() as opened:
        source = opened.enter_context(staged(log, {task.base_offset}))
        here = replace(task, source=str(source))
        if to_store:
            scratch = opened.enter_context(tempfile.TemporaryDirectory(prefix="kafka-segments-"))
            here = replace(here, target=str(Path(scratch) / source.name))
        entry = convert_segment(here, attempt=attempt, end_of=partial(_end_of, log))
        if not to_store:
            return entry
        if known is not None:
            remove([note_uri])  # it belongs to another source, or its log is missing or differs
        uri = below(task.target, file_name(task.base_offset, Kind.LOG))
        if entry.status != "failed":
            entry = replace(entry, target=shown(uri))
            _write(Path(here.target), task, uri)
        write(note_uri, entry.to_json().encode() + b"\n")
        return entry


def _end_of(log: PartitionLog, segment: Segment) -> int:
    """The end offset of a segment whose log was not copied to this machine."""
    file = next(file for file in log.segments if file.base_offset == segment.base_offset)
    return end_of_batches(file)


def _write(made: Path, task: Task, log_uri: str) -> None:
    """Uploads all files that were made, the log last."""
    log = file_name(task.base_offset, Kind.LOG)
    note = note_path(made, task.base_offset)
    for path in sorted(made.iterdir()):
        if path.name != log and path != note:
            write(below(task.target, path.name), path)
    write(log_uri, made / log)


def _is_done(known: Entry, task: Task, log: PartitionLog) -> bool:
    """Whether a note belongs to this source and these settings, and the log has the note's
    digest."""
    bases = (file for file in log.segments if file.base_offset == task.base_offset)
    file = next(bases, None)
    if file is None or known.settings != str(task.settings) or known.status == "failed":
        return False
    blob = file.blob(Kind.LOG)
    if blob is None:
        status = Path(file.path).stat()
        same = (known.source_size, known.source_modified) == (status.st_size, status.st_mtime_ns)
    else:  # the size of a gzipped or clipped log is unknown before reading: only the time counts
        is_changed = blob.is_gzipped or file.is_clipped
        same = known.source_modified == blob.modified
        same = same and (is_changed or known.source_size == blob.size)
    if not same:
        return False
    if not is_stored(task.target):
        return is_true(known, Path(task.target))
    return _has_digest(below(task.target, file_name(task.base_offset, Kind.LOG)), known)


def _has_digest(uri: str, known: Entry) -> bool:
    digest, size = hashlib.sha256(), 0
    try:
        for piece in readable(uri):
            digest.update(piece)
            size += len(piece)
    except FileNotFoundError:
        return False
    return (size, digest.hexdigest()) == (known.target_size, known.target_digest)
