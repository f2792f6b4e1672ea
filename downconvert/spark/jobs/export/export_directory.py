"""Adds records to a directory that all machines have mounted, for readers that treat every Parquet
file in it as data.

Not here: which offsets are new (export_plan.py), notes of the contents (export_manifest.py)."""

import os
import re
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit
from uuid import uuid4

from pyspark.sql import DataFrame, SparkSession

from downconvert.spark.jobs.jobs import JobError
from downconvert.spark.jobs.progress import Step
from downconvert.spark.logs.segment_files import PartitionLog
from downconvert.spark.options.schemas import EXPORTED
from downconvert.storage.disk.files import DISK, replace_file
from downconvert.storage.names import TopicPartition
from records.paths import named

from .export_manifest import FOLDER, SUFFIX, Exported, is_replaced, merged, overlapped, parsed
from .export_noted import add
from .export_plan import Settings
from .export_result import Result, counts
from .export_stored import Written
from .export_unnoted import Unnoted, is_seen, without_offsets

SCHEME: Final = re.compile(r"([a-zA-Z][a-zA-Z0-9+.-]+):/")
STAGING: Final = "_run-"  # readers of a directory skip names with this prefix
MOVING: Final = ".moving"  # the end of the name of a note whose files are being moved


def directory_of(target: str) -> Path:
    """The directory of a target that is not in a store: a path, or a URI of `file`.

    JobError: the URI has another scheme, and no host. ValueError: the target is empty."""
    found = SCHEME.match(target)
    if found is None:
        return named(target).absolute()
    if found[1].lower() != "file":
        raise JobError(
            f"{target}: name it by a path that all machines have mounted, or as {found[1]}://..."
        )
    return Path(unquote(urlsplit(target).path)).absolute()


def add_to(
    session: SparkSession,
    logs: Sequence[PartitionLog],
    directory: Path,
    settings: Settings,
    step: Step,
) -> Result:
    """Adds the records of the logs that the directory lacks.

    Files appear there one by one, after all of them are written. If the run dies in between, the
    next run moves the remaining files. JobError."""
    notes = DirectoryNotes(directory)
    try:
        _, written = add(session, logs, notes, settings=settings, step=step)
    finally:
        notes.close()
    return Result(counts(session, written), archive_of(session, directory))


class DirectoryNotes:
    """The notes of a directory. New files are written to a staging folder. When all files of a step
    are complete, a note is written under the name of that folder, and the files are moved to their
    places. Then the note counts. If a run dies in between, its note says which offsets its files
    have."""

    is_complete = False

    def __init__(self, directory: Path) -> None:
        self._folder = directory / FOLDER
        self.directory = directory
        self.staging = directory / f"{STAGING}{uuid4().hex}"
        self.name, self.location = str(directory), str(self.staging)
        self._moving = self._folder / f"{self.staging.name}{MOVING}"
        self._known = set(self._notes())

    def read(self, isolation: str, _partitions: Sequence[TopicPartition] = ()) -> Exported:
        """The contents with this isolation level, or with one that includes it. If a run died while
        it moved its files, moves the rest of them first."""
        self._finish()
        notes = self._notes()
        self._known = set(notes)
        return merged(notes.values(), isolation)

    def remove_lost(self) -> None:
        """Removes the unmoved files of killed runs."""
        for lost in self.directory.glob(f"{STAGING}*"):
            shutil.rmtree(lost, ignore_errors=True)

    def begin(self, _run_id: str) -> None:
        """Does nothing: the staging folder says that a run has begun."""

    def unnoted(self, exported: Exported) -> Unnoted:
        """The files of other programs, and those whose notes were lost."""
        names = (name for name in _files(self.directory) if name not in exported.files)
        return Unnoted(names, lambda name: (self.directory / name).read_bytes())

    def remove(self, name: TopicPartition, start: int, end: int) -> None:
        """Replaces each file that has such records by one without them. New files are written to
        the staging folder first, so no reader sees an incomplete file of a killed run."""
        for file in _files(self.directory):
            if file.startswith(f"topic={name.topic}/"):
                path, new = self.directory / file, self.staging / file
                left = without_offsets(path.read_bytes(), name.partition, start, end)
                if left is not None:
                    new.parent.mkdir(parents=True, exist_ok=True)
                    replace_file(DISK, new, left)
                    DISK.rename(new, path)
                    DISK.sync_directory(path.parent)

    def write(self, exported: Exported, files: Sequence[Written]) -> None:
        """Moves the files to their places, and writes the note. Returns when all are on disk.
        JobError: another run has written to the directory meanwhile."""
        is_whole = all((self.staging / one.file).exists() for one in files)
        if not is_whole or set(self._notes()) != self._known:
            raise overlapped(str(self.directory))
        self._folder.mkdir(parents=True, exist_ok=True)
        replace_file(DISK, self._moving, exported.to_json().encode())
        self._move(self.staging, [one.file for one in files])
        self._note(self._moving, exported)

    def _move(self, staging: Path, files: Iterable[str]) -> None:
        for file in files:
            target = self.directory / file
            target.parent.mkdir(parents=True, exist_ok=True)
            (staging / file).replace(target)
        os.sync()  # also syncs renames and their directories

    def _note(self, moving: Path, exported: Exported) -> None:
        """Makes a note count. Its files are in their places."""
        before = [path for path, note in self._notes().items() if is_replaced(note, exported)]
        new = self._folder / f"{uuid4().hex}{SUFFIX}"
        DISK.rename(moving, new)
        DISK.sync_directory(self._folder)
        for path in before:  # the new note includes these
            path.unlink(missing_ok=True)
        self._known = (self._known - set(before)) | {new}

    def _finish(self) -> None:
        """Moves the remaining files of a run that died. A note is removed if it is cut off, or if
        some of its files are lost. Its run then counts as one without a note."""
        for moving in sorted(self._folder.glob(f"*{MOVING}")):
            note, staging = parsed(moving.read_bytes()), self.directory / moving.stem
            if note is None:
                moving.unlink()
                continue
            self._move(staging, [file for file in note.files if (staging / file).exists()])
            if all((self.directory / file).exists() for file in note.files):
                self._note(moving, note)
            else:
                moving.unlink()

    def _notes(self) -> dict[Path, Exported | None]:
        paths = sorted(self._folder.glob(f"*{SUFFIX}"))
        return {path: parsed(path.read_bytes()) for path in paths}

    def close(self) -> None:
        """Removes the staging folder, unless the next run has to move its files."""
        if not self._moving.exists():
            shutil.rmtree(self.staging, ignore_errors=True)


def _files(directory: Path) -> list[str]:
    """The files that readers of the directory see, by their names below it."""
    found = (path for path in directory.glob("topic=*/**/*") if path.is_file())
    return sorted(filter(is_seen, (str(path.relative_to(directory)) for path in found)))


def archive_of(session: SparkSession, directory: Path) -> DataFrame:
    """The records of the target. Column types are stated, because Spark would read a topic called 7
    as a number."""
    if not directory.exists():
        return session.createDataFrame([], EXPORTED)
    return session.read.schema(EXPORTED).parquet(uri_of(directory))


def uri_of(directory: Path) -> str:
    """A directory as a URI for Hadoop, which does not unquote."""
    return f"file://{directory}"
