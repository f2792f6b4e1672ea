"""The files of a partition as they were found, on this machine or in a store.

Not here: finding them (trees.py, stored_trees.py), reading them (opening.py, staging.py)."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from downconvert.spark.stores.blobs import Blob
from downconvert.storage.checkpoints.checkpoint import EpochEntry
from downconvert.storage.disk.open_files import OpenFiles
from downconvert.storage.names import OFFSET_MAX, Kind, State, TopicPartition, file_name
from downconvert.storage.segments.segment import Segment


@dataclass(frozen=True, slots=True)
class SegmentFile:
    """A log file as it was when it was found. `next_offset`: the base offset of the next one.

    valid_until: a later leader has truncated the offsets from here on. blobs: the files, if they
    are not in a mounted directory. Then `directory` is a name for messages. is_clipped: the file
    also has offsets from `next_offset` on, which are read from the next segment. size: bytes; of a
    gzipped log, the compressed size. inode: of the log file; 0: it is not in a mounted directory.
    cleaned: the offset up to which a cleaner has cleaned this copy of the log. is_disputed: it is
    the last one, another copy has offsets up to `next_offset`, and it is not known whether a later
    leader has truncated them. epoch_max: a later leader epoch in a batch is wrong, and counts as
    this one. merged_at: a cleaner may have merged the next segment into this one, at this offset.
    None of its batches begins before that offset and ends after it."""

    directory: str
    base_offset: int
    state: State
    size: int
    next_offset: int
    blobs: tuple[tuple[Kind, Blob], ...] = ()
    is_clipped: bool = False
    valid_until: int = OFFSET_MAX
    inode: int = 0
    cleaned: int = 0
    is_disputed: bool = False
    epoch_max: int = OFFSET_MAX
    merged_at: int = OFFSET_MAX

    @property
    def offset_max(self) -> int:
        """All of its offsets are below this one. OFFSET_MAX: the beginning of the next segment is
        not known."""
        return OFFSET_MAX if self.is_clipped else self.next_offset

    def open(self) -> Segment:
        """The files of a segment in a mounted directory."""
        assert not self.blobs, f"{self.directory} is not mounted"
        return Segment(Path(self.directory), self.base_offset, OpenFiles(), self.state)

    def blob(self, kind: Kind) -> Blob | None:
        """The file of a kind, if the segment is not in a mounted directory; None: there is none."""
        return next((blob for found, blob in self.blobs if found is kind), None)

    @property
    def blob_of_log(self) -> Blob:
        """The log of a segment that is not in a mounted directory."""
        log = self.blob(Kind.LOG)
        assert log is not None
        return log

    @property
    def is_gzipped(self) -> bool:
        log = self.blob(Kind.LOG)
        return log is not None and log.is_gzipped

    def is_same_file(self, other: "SegmentFile") -> bool:
        """Whether both describe one log file. In tiered storage, two segments of a directory may
        have the same base offset."""
        if (self.directory, self.base_offset) != (other.directory, other.base_offset):
            return False
        return self.blob(Kind.LOG) == other.blob(Kind.LOG)

    @property
    def path(self) -> str:
        """The path of the log file, for messages."""
        log = self.blob(Kind.LOG)
        return self.location(Kind.LOG) if log is None else log.name

    def location(self, kind: Kind) -> str:
        """The path of the file of a kind in a mounted directory."""
        return f"{self.directory}/{file_name(self.base_offset, kind, self.state)}"


class Superseded(NamedTuple):
    """Offsets from `start` up to `end` that a copy has, but a later leader has truncated."""

    start: int
    end: int
    epoch: int  # the copy's latest one
    directory: str


@dataclass(frozen=True, slots=True)
class PartitionLog:
    """The segments of one partition, and its log start offset.

    A log that is not in one mounted directory has, in addition: `broker`, a directory of this
    machine with the broker's checkpoints; `sides`, small files of the partition (leader epochs,
    snapshots, topic id) by their names.

    topic_id: as text, if a file name or one of several copies states it. others: further copies of
    the log, which may have offsets that it lacks. unneeded: copies that have none of its offsets.
    is_tier: it is a copy in tiered storage. All of
    its transactions have ended, because brokers copy stable records only."""

    topic_partition: TopicPartition
    directory: str
    start_offset: int
    segments: tuple[SegmentFile, ...]
    broker: str | None = None
    sides: tuple[tuple[str, Blob], ...] = ()
    topic_id: str | None = None
    others: tuple["PartitionLog", ...] = ()
    unneeded: tuple["PartitionLog", ...] = ()
    epochs: tuple[EpochEntry, ...] = ()
    superseded: tuple[Superseded, ...] = ()
    is_tier: bool = False

    @property
    def is_mounted(self) -> bool:
        """Whether the whole log is in one mounted directory."""
        return self.broker is None

    @property
    def noted(self) -> str:
        """A path of this machine. The broker's checkpoints are beside it."""
        return self.directory if self.broker is None else f"{self.broker}/{self.topic_partition}"


def are_mounted(logs: Iterable[PartitionLog]) -> bool:
    """Whether all logs are in mounted directories, so that no store is needed."""
    return all(log.is_mounted for log in logs)
