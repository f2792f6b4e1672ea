"""Copies a partition's files from a store to a temporary directory of this machine, for code that
needs more than one sequential read.

Each segment gets its transaction index and a log, which is empty unless its content is wanted. So a
log directory lists all of these segments.

Not here: reading without a copy (opening.py)."""

import os
import tempfile
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final

from downconvert.spark.stores.blobs import PIECE_SIZE, Blob
from downconvert.storage.disk.open_files import OpenFiles
from downconvert.storage.names import OFFSET_MAX, Kind, file_name
from downconvert.storage.segments.segment import Segment
from records import CorruptRecordsError, FileRecords

from .boundaries import StoredBoundaries
from .segment_files import PartitionLog, SegmentFile

WITH_LOG: Final = (Kind.OFFSET_INDEX, Kind.TIME_INDEX)


def trimmed(log: PartitionLog, bases: Collection[int]) -> PartitionLog:
    """The parts of a log that a task needs in order to stage some of its segments: these, the
    segment after each, and those with aborted transactions."""
    if log.is_mounted:
        return replace(log, segments=())
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
def staged(log: PartitionLog, whole: Collection[int], *, tail: bool = False) -> Iterator[Path]:
    """A directory with the files of a log. It is the log's own directory if that is mounted.

    `whole`: base offsets of the segments whose logs and indexes are copied. `tail`: only the part
    of these logs after the last index entry is copied. The rest is zeros. FileNotFoundError: a
    segment is gone. StoreError."""
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
            blob.save_current(directory / name)
        for file in log.segments:
            if not file.blobs:
                _link(file, directory)
                continue
            _fill(file, directory, is_whole=file.base_offset in whole, tail=tail)
        yield directory


def _link(file: SegmentFile, directory: Path) -> None:
    """Links a mounted segment, with the snapshot of producers at its base offset."""
    for kind in Kind:
        source = Path(file.directory) / file_name(file.base_offset, kind, file.state)
        target = directory / source.name
        if source.exists() and not target.exists():
            target.symlink_to(source)


def _fill(file: SegmentFile, directory: Path, *, is_whole: bool, tail: bool) -> None:
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
    if tail and not file.is_gzipped and not file.is_clipped:
        _save_tail(file, path(Kind.LOG))
        return
    log.save(path(Kind.LOG))
    if file.is_clipped:
        _clip(path(Kind.LOG), file.next_offset, log)


def _save_tail(file: SegmentFile, target: Path) -> None:
    """Copies the part after the last index entry that leads to a batch, or the whole log if no
    entry does."""
    hints = StoredBoundaries(file)
    start = hints.before_position(file.size)
    log = file.blob_of_log
    reader = log.open()
    try:
        with target.open("wb") as out:
            out.truncate(file.size)
            position = start
            while position < file.size:
                size = min(PIECE_SIZE, file.size - position)
                out.seek(position)
                position += out.write(reader.read(position, size)) or file.size
    finally:
        reader.close()
    if start and not _has_whole_tail(target, file):
        log.save(target)


def _has_whole_tail(path: Path, file: SegmentFile) -> bool:
    segment = Segment(path.parent, file.base_offset, OpenFiles())
    try:
        return segment.slice_from(OFFSET_MAX, file.size).origin > 0
    finally:
        segment.release()


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
