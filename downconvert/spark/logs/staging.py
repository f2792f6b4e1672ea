"""Copies a partition's files from a store to a temporary directory of this machine, for code that
needs more than one sequential read.

Each segment gets its transaction index and a log, which is empty unless its content is wanted. So a
log directory lists all of these segments.

Not here: reading without a copy (opening.py)."""

import os
import tempfile
import warnings
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final

from downconvert.spark.stores.blobs import Blob
from downconvert.storage.errors import CorruptFileError
from downconvert.storage.names import Kind, file_name
from records import CorruptRecordsError, FileRecords

from .segment_files import PartitionLog, SegmentFile

WITH_LOG: Final = (Kind.OFFSET_INDEX, Kind.TIME_INDEX)


def trimmed(log: PartitionLog, bases: Collection[int]) -> PartitionLog:
    """The parts of a log that a task needs to stage some of its segments: these segments, the
    segment after each of them, and the segments with aborted transactions. A log in a mounted
    directory is not staged, so these segments are enough."""
    if log.is_mounted:
        own = tuple(file for file in log.segments if file.base_offset in bases)
        return replace(log, segments=own)
    wanted: list[SegmentFile] = []
    is_after = False
    for file in log.segments:
        is_wanted = file.base_offset in bases
        has_aborted = file.base_offset >= min(bases) and _size(file, Kind.TRANSACTION_INDEX)
        if is_wanted or is_after or has_aborted:
            wanted.append(file)
        is_after = is_wanted
    return replace(log, segments=tuple(wanted), broker="")


@contextmanager
def staged(log: PartitionLog, whole: Collection[int]) -> Iterator[Path]:
    """A directory with the files of a log. It is the log's own directory if that is mounted.

    `whole`: base offsets of the segments whose logs and indexes are copied. Warns of damaged small
    files. CorruptFileError: a file of a segment is damaged. FileNotFoundError: a segment is gone.
    StoreError."""
    if log.is_mounted:
        yield Path(log.directory)
        return
    with tempfile.TemporaryDirectory(prefix="kafka-segments-") as scratch:
        if log.broker:
            for path in Path(log.broker).iterdir():
                if path.is_file():
                    (Path(scratch) / path.name).symlink_to(path)
        directory = Path(scratch) / str(log.topic_partition)
        directory.mkdir()
        for name, blob in log.sides:
            try:
                blob.save_current(directory / name)
            except CorruptFileError as error:
                warnings.warn(
                    f"{log.directory}/{name}: {error.reason}; this file counts as missing",
                    RuntimeWarning,
                    stacklevel=3,
                )
        for file in log.segments:
            if not file.blobs:
                _link(file, directory)
                continue
            _fill(file, directory, is_whole=file.base_offset in whole)
        yield directory


def _link(file: SegmentFile, directory: Path) -> None:
    """Links a mounted segment, with the snapshot of producers at its base offset."""
    for kind in Kind:
        source = Path(file.location(kind))
        target = directory / source.name
        if source.exists() and not target.exists():
            target.symlink_to(source)


def _fill(file: SegmentFile, directory: Path, *, is_whole: bool) -> None:
    def path(kind: Kind) -> Path:
        return directory / file_name(file.base_offset, kind)

    transactions = file.blob(Kind.TRANSACTION_INDEX)
    if transactions is not None and transactions.size:
        transactions.save(path(Kind.TRANSACTION_INDEX))
    if not is_whole:
        path(Kind.LOG).touch()
        path(Kind.OFFSET_INDEX).touch()
        return
    for kind in WITH_LOG:
        blob = file.blob(kind)
        if blob is not None:
            blob.save(path(kind))
    log = file.blob_of_log
    log.save(path(Kind.LOG))
    if file.is_clipped:
        _clip(path(Kind.LOG), file.next_offset, log)


def _clip(path: Path, next_offset: int, log: Blob) -> None:
    """Truncates a log where the next segment begins."""
    with FileRecords.open(path) as records:
        end = records.size
        try:
            for header in records.batches():
                if header.base_offset >= next_offset:
                    end = header.position
                    break
        except CorruptRecordsError:
            pass
    os.truncate(path, end)
    if log.modified:
        os.utime(path, ns=(log.modified, log.modified))


def _size(file: SegmentFile, kind: Kind) -> int:
    blob = file.blob(kind)
    return 0 if blob is None else blob.size
