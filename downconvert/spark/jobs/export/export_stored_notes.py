"""The notes of an export to an object store. One atomic write makes all files of a run valid.

After all tasks have ended, the run writes its note: one object with its files' names and their
offsets. So readers of the notes see all files of a run or none. Before its first file, a run writes
an object that says that it has begun. If such a run has no note, it was killed. The next run then
removes its files, and writes their records again.

Not here: the files (export_stored.py), the contents of a note (export_manifest.py)."""

import re
from collections.abc import Sequence
from typing import Final
from urllib.parse import unquote, urlsplit
from uuid import uuid4

from downconvert.spark.stores.parallel import in_parallel
from downconvert.spark.stores.stores import (
    below,
    listed,
    move,
    part_name,
    read,
    remove,
    shown,
    write,
)
from downconvert.storage.names import TopicPartition

from .export_manifest import FOLDER, SUFFIX, Exported, is_replaced, merged, overlapped, parsed
from .export_stored import ROWS, Written
from .export_unnoted import Unnoted, is_seen, without_offsets

# Files of a run, including unfinished ones of a killed task in HDFS (stores.write).
OF_RUN: Final = re.compile(
    r"topic=[^/]+/date=[^/]+/\.?part-([0-9a-f]{32})-[0-9]{6}\.parquet(\.part)?"
)
BEGUN: Final = ".begun"  # the end of the name of an object that says that a run has begun


class StoredNotes:
    """The notes of a target in a store, as they were when this object was made."""

    is_complete = False

    def __init__(self, target: str) -> None:
        self.name, self.location = shown(target), target
        self._begun: list[str] = []
        try:
            found = listed(target)
        except FileNotFoundError:
            found = []
        start = len(_path(target)) + 1
        self._names = {_path(one.uri)[start:]: one.uri for one in found}
        uris = [
            uri
            for name, uri in self._names.items()
            if name.startswith(f"{FOLDER}/") and name.endswith(SUFFIX)
        ]
        self._notes = dict(zip(uris, map(parsed, in_parallel(read, uris)), strict=True))

    def read(self, isolation: str, _partitions: Sequence[TopicPartition] = ()) -> Exported:
        """The contents with this isolation level, or with one that includes it."""
        return merged(self._notes.values(), isolation)

    def remove_lost(self) -> None:
        """Removes the files of runs that have begun and have no note. If a killed run has rewritten
        files and not renamed them yet, renames these."""
        named = {file for note in self._notes.values() if note is not None for file in note.files}
        for file in named - self._names.keys():
            folder, _, name = file.rpartition("/")
            part = f"{folder}/{part_name(name)}"
            if part in self._names:
                self._names[file] = below(self.location, *file.split("/"))
                move(self._names.pop(part), self._names[file])
        begun = [name for name in self._names if name.endswith(BEGUN)]
        ids = {name.rpartition("/")[2].removesuffix(BEGUN) for name in begun}
        matches = {name: OF_RUN.fullmatch(name) for name in self._names.keys() - named}
        lost = [name for name, found in matches.items() if found is not None and found[1] in ids]
        remove(self._names.pop(name) for name in (*lost, *begun))

    def begin(self, run_id: str) -> None:
        self._begun.append(below(self.location, FOLDER, f"{run_id}{BEGUN}"))
        write(self._begun[-1], b"")

    def unnoted(self, exported: Exported) -> Unnoted:
        """The files of other programs, and those whose notes were lost."""
        names = filter(is_seen, self._names.keys() - exported.files)
        return Unnoted(names, lambda name: read(self._names[name]))

    def remove(self, name: TopicPartition, start: int, end: int) -> None:
        """Rewrites each file that has such records without them, in place."""
        for file in self._names:
            if ROWS.fullmatch(file) and file.startswith(f"topic={name.topic}/"):
                left = without_offsets(read(self._names[file]), name.partition, start, end)
                if left is not None:
                    write(self._names[file], left)

    def write(self, exported: Exported, _files: Sequence[Written]) -> None:
        """Writes a note, and removes the notes that it includes. JobError: another run has written
        to the target meanwhile."""
        self._check_alone()
        data = exported.to_json().encode()
        note = below(self.location, FOLDER, f"{uuid4().hex}{SUFFIX}")
        write(note, data)
        remove(self._begun)
        self._begun.clear()
        before = [uri for uri, known in self._notes.items() if is_replaced(known, exported)]
        remove(before)
        self._notes = {uri: known for uri, known in self._notes.items() if uri not in before}
        self._notes[note] = exported

    def _check_alone(self) -> None:
        """JobError: there is a note of another run, or another run took this one for killed and has
        removed its files. The next run removes the rest of them."""
        try:
            paths = {_path(one.uri) for one in listed(below(self.location, FOLDER))}
        except FileNotFoundError:
            paths = set()
        notes = {path for path in paths if path.endswith(SUFFIX)}
        begun = set(map(_path, self._begun))
        if notes == set(map(_path, self._notes)) and begun <= paths:
            return
        for uri in self._begun:
            write(uri, b"")
        raise overlapped(self.name)


def _path(uri: str) -> str:
    return unquote(urlsplit(uri).path)
