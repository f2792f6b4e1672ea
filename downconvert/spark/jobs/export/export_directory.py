"""Adds records to a directory that all machines have mounted, for readers that treat every Parquet
file in it as data.

Not here: which offsets are new (export_plan.py), notes of the contents (export_manifest.py)."""

import os
import re
import shutil
from collections.abc import Sequence
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

from .export_manifest import FOLDER, SUFFIX, Exported, is_replaced, merged, parsed
from .export_noted import add
from .export_plan import Settings
from .export_result import Result, counts
from .export_stored import Written
from .export_unnoted import Unnoted, without_offsets

SCHEME: Final = re.compile(r"([a-zA-Z][a-zA-Z0-9+.-]+):/")
STAGING: Final = "_run-"  # readers of a directory skip names with this prefix


def directory_of(target: str) -> Path:
    """The directory of a target that is not in a store: a path, or a URI of `file`.

    JobError: it has another scheme, and no host. ValueError: it is empty."""
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

    Files appear there one by one, after all of them are written. The next run reads files without a
    note, and adds only what they lack. JobError."""
    notes = DirectoryNotes(directory)
    try:
        _, written = add(
            session,
            logs,
            notes,
            str(notes.staging),
            name=str(directory),
            settings=settings,
            step=step,
        )
    finally:
        notes.close()
    return Result(counts(session, written), archive_of(session, directory))


class DirectoryNotes:
    """The notes of a directory. New files are written to a staging folder, and moved to their
    places when all files of a step are complete."""

    def __init__(self, directory: Path) -> None:
        self._folder = directory / FOLDER
        self.directory = directory
        self.staging = directory / f"{STAGING}{uuid4().hex}"

    def read(self, isolation: str, _partitions: Sequence[TopicPartition] = ()) -> Exported:
        """The contents with this isolation level, or with one that includes it."""
        return merged(self._notes().values(), isolation)

    def remove_lost(self) -> None:
        """Removes the unmoved files of killed runs."""
        for lost in self.directory.glob(f"{STAGING}*"):
            shutil.rmtree(lost, ignore_errors=True)

    def begin(self, _run_id: str) -> None:
        """Does nothing: the staging folder says that a run has begun."""

    def unnoted(self, exported: Exported) -> Unnoted:
        """The files of other programs, of a run that died while its files were moved, and those
        whose notes were lost."""
        names = (name for name in _files(self.directory) if name not in exported.files)
        return Unnoted(names, lambda name: (self.directory / name).read_bytes())

    def remove(self, name: TopicPartition, start: int, end: int) -> None:
        """Rewrites each file that has such records without them, in place."""
        for file in _files(self.directory):
            if file.startswith(f"topic={name.topic}/"):
                path = self.directory / file
                left = without_offsets(path.read_bytes(), name.partition, start, end)
                if left is not None:
                    replace_file(DISK, path, left)

    def write(self, exported: Exported, files: Sequence[Written]) -> None:
        """Moves the files to their places, and writes the note. Returns when all are on disk."""
        for one in files:
            target = self.directory / one.file
            target.parent.mkdir(parents=True, exist_ok=True)
            (self.staging / one.file).replace(target)
        os.sync()  # renames and their directories, too
        before = [path for path, note in self._notes().items() if is_replaced(note, exported)]
        self._folder.mkdir(parents=True, exist_ok=True)
        path = self._folder / f"{uuid4().hex}{SUFFIX}"
        replace_file(DISK, path, exported.to_json().encode())
        for path in before:  # the new note includes them
            path.unlink(missing_ok=True)

    def _notes(self) -> dict[Path, Exported | None]:
        paths = sorted(self._folder.glob(f"*{SUFFIX}"))
        return {path: parsed(path.read_bytes()) for path in paths}

    def close(self) -> None:
        shutil.rmtree(self.staging, ignore_errors=True)


def _files(directory: Path) -> list[str]:
    """The files that readers of the directory see, by their names below it."""
    found = (path for path in directory.glob("topic=*/**/*") if path.is_file())
    names = (path.relative_to(directory) for path in found)
    return sorted(
        str(name) for name in names if not any(part.startswith(("_", ".")) for part in name.parts)
    )


def archive_of(session: SparkSession, directory: Path) -> DataFrame:
    """The records of the target. Column types are given: otherwise a topic called 7 would be read
    as a number."""
    if not directory.exists():
        return session.createDataFrame([], EXPORTED)
    return session.read.schema(EXPORTED).parquet(uri_of(directory))


def uri_of(directory: Path) -> str:
    """A directory as a URI for Hadoop, which does not unquote."""
    return f"file://{directory}"
