"""Notes of an export: which offsets of which partitions the target has, in which files.

Each run writes a note to the target's folder `_exported`, which readers of Parquet skip. The note
is written after all files are in place. So a file without a note comes from a killed run, or from
another program. Its offsets are read before records are added. An incomplete note is ignored.

Not here: what is exported (export.py), the notes of a target in a store
(export_stored_notes.py)."""

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from downconvert.spark.jobs.jobs import JobError
from downconvert.storage.names import OFFSET_MAX, TopicPartition
from records import RecordsError

FOLDER: Final = "_exported"
SUFFIX: Final = ".json"
VERSION: Final = 1

Range: TypeAlias = tuple[int, int]  # first offset, and the offset after the last


class NoteError(RecordsError):
    """A note written by a later version of this program."""


@dataclass(slots=True)
class Exported:
    """The known contents of a target.

    `isolation`: "read_committed" if aborted records were left out. `ranges` are in order and
    disjoint. `topic_ids`: as text, of the topics that have one. `files`: below the target.
    `epochs`: the leader epoch of the last record of a range, by the end of that range."""

    isolation: str
    cluster_id: str | None = None
    topic_ids: dict[str, str] = field(default_factory=dict)
    ranges: dict[TopicPartition, list[Range]] = field(default_factory=dict)
    files: set[str] = field(default_factory=set)
    epochs: dict[TopicPartition, dict[int, int]] = field(default_factory=dict)

    def end_from(self, name: TopicPartition, offset: int) -> int:
        """The end of the exported range that has `offset`."""
        for start, end in self.ranges.get(name, ()):
            if start <= offset < end:
                return end
        return offset

    def start_after(self, name: TopicPartition, offset: int) -> int:
        """Where the next range begins after an offset; OFFSET_MAX: there is none."""
        return min((s for s, _ in self.ranges.get(name, ()) if s > offset), default=OFFSET_MAX)

    def end_of(self, name: TopicPartition) -> int | None:
        """The offset after the last exported record of a partition; None: none is exported."""
        ranges = self.ranges.get(name)
        return ranges[-1][1] if ranges else None

    def add(self, other: "Exported") -> None:
        """Merges another note."""
        self.cluster_id = other.cluster_id or self.cluster_id
        self.topic_ids |= other.topic_ids
        self.files |= other.files
        for name, ranges in other.ranges.items():
            self.ranges[name] = _joined([*self.ranges.get(name, ()), *ranges])
        for name in other.ranges | other.epochs:
            known = self.epochs.get(name, {}) | other.epochs.get(name, {})
            ends = {end for _, end in self.ranges.get(name, ())}
            self.epochs[name] = {end: epoch for end, epoch in known.items() if end in ends}

    def remove(self, name: TopicPartition, start: int) -> None:
        """Forgets a partition's records from an offset on."""
        ranges = [(first, min(end, start)) for first, end in self.ranges.get(name, ())]
        self.ranges[name] = [(first, end) for first, end in ranges if first < end]
        known = self.epochs.pop(name, {})
        ends = {end for _, end in self.ranges[name]}
        self.epochs[name] = {end: epoch for end, epoch in known.items() if end in ends}

    def copy(self) -> "Exported":
        """An independent copy."""
        found = Exported(self.isolation)
        found.add(self)
        return found

    def to_json(self) -> str:
        ranges = {str(name): found for name, found in sorted(self.ranges.items())}
        note: dict[str, Any] = {
            "version": VERSION,
            "isolation": self.isolation,
            "clusterId": self.cluster_id,
            "topicIds": self.topic_ids,
            "offsets": ranges,
            "files": sorted(self.files),
        }
        epochs = {str(name): sorted(known.items()) for name, known in self.epochs.items() if known}
        if epochs:
            note["epochs"] = dict(sorted(epochs.items()))
        return json.dumps(note, separators=(",", ":"))


def parse(text: bytes) -> Exported:
    """Parses a note. ValueError: it is malformed, or cut off. NoteError: a later version wrote
    it."""
    found: Any = json.loads(text)
    if not isinstance(found, dict) or not isinstance(found.get("version"), int):
        raise ValueError("not a note of an export")
    if found["version"] > VERSION:
        raise NoteError(f"a later version has exported here (its notes are {found['version']})")
    try:
        ranges = {
            _partition(name): [(int(start), int(end)) for start, end in pairs]
            for name, pairs in found["offsets"].items()
        }
        epochs = {
            _partition(name): {int(end): int(epoch) for end, epoch in pairs}
            for name, pairs in found.get("epochs", {}).items()
        }
        return Exported(
            isolation=str(found["isolation"]),
            cluster_id=found["clusterId"],
            topic_ids=dict(found["topicIds"]),
            ranges=ranges,
            files=set(found["files"]),
            epochs=epochs,
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError("not a note of an export") from error


def _partition(name: str) -> TopicPartition:
    topic, _, number = name.rpartition("-")
    return TopicPartition(topic, int(number))


def _joined(ranges: Iterable[Range]) -> list[Range]:
    found: list[Range] = []
    for start, end in sorted(ranges):
        if found and start <= found[-1][1]:
            found[-1] = found[-1][0], max(end, found[-1][1])
        elif start < end:
            found.append((start, end))
    return found


def parsed(text: bytes) -> Exported | None:
    """As `parse`; None: the note is malformed, or cut off because its run was killed. NoteError."""
    try:
        return parse(text)
    except ValueError:
        return None


def merged(notes: Iterable[Exported | None], isolation: str) -> Exported:
    """The contents with this isolation level, or with one that includes it."""
    found = Exported(isolation)
    for note in notes:
        if note is not None and note.isolation in (isolation, "read_uncommitted"):
            found.add(note)
    return found


def is_replaced(note: Exported | None, exported: Exported) -> bool:
    """Whether a new note includes an older one."""
    return note is None or note.isolation == exported.isolation


def overlapped(target: str) -> JobError:
    """The error of a run that was not the only one to write to the target."""
    return JobError(
        f"{target}: another export has written to it meanwhile, and the records of this run were "
        "not added; run it again"
    )
