"""The files of a partition as they were when they were found, on this machine or elsewhere.

Not here: finding them (trees.py, stored_trees.py), reading them (opening.py, staging.py)."""

from dataclasses import dataclass
from pathlib import Path

from downconvert.storage.checkpoint import EpochEntry
from downconvert.storage.names import OFFSET_MAX, Kind, State, TopicPartition
from downconvert.storage.open_files import OpenFiles
from downconvert.storage.segment import Segment

from .blobs import Blob


@dataclass(frozen=True, slots=True)
class SegmentFile:
    """A log file as it was when it was found; `next_offset`: the base offset of the next one.

    valid_until: a later leader has truncated what it has from this offset on.
    blobs: where its files are, if they are not in a directory that is mounted; then `directory` is
    what to call it. is_clipped: it has offsets from `next_offset` on, too, which the next one has.
    Of a gzipped log `size` is what it takes as it is."""

    directory: str
    base_offset: int
    state: State
    size: int
    next_offset: int
    blobs: tuple[tuple[Kind, Blob], ...] = ()
    is_clipped: bool = False
    valid_until: int = OFFSET_MAX

    def open(self) -> Segment:
        """The files of a segment in a directory that is mounted."""
        assert not self.blobs, f"{self.directory} is not mounted"
        return Segment(Path(self.directory), self.base_offset, OpenFiles(), self.state)

    def blob(self, kind: Kind) -> Blob | None:
        """Where a file is that is not in a mounted directory; None: there is none."""
        return next((blob for found, blob in self.blobs if found is kind), None)

    @property
    def blob_of_log(self) -> Blob:
        """Where the log is, of a segment that is not in a mounted directory."""
        log = self.blob(Kind.LOG)
        assert log is not None
        return log

    @property
    def is_gzipped(self) -> bool:
        log = self.blob(Kind.LOG)
        return log is not None and log.is_gzipped

    @property
    def path(self) -> str:
        """What to call the log file."""
        log = self.blob(Kind.LOG)
        return str(self.open().path()) if log is None else log.name


@dataclass(frozen=True, slots=True)
class PartitionLog:
    """The segments of one partition, and the first offset that is part of its log.

    Of a log that is not in one mounted directory there are, besides: `broker`, a directory of this
    machine with the checkpoints of the broker; `sides`, small files of the partition (leader
    epochs, snapshots, its topic's id) by their names; `topic_id`, as text, where names say it."""

    topic_partition: TopicPartition
    directory: str
    start_offset: int
    segments: tuple[SegmentFile, ...]
    broker: str | None = None
    sides: tuple[tuple[str, Blob], ...] = ()
    topic_id: str | None = None
    others: tuple["PartitionLog", ...] = ()
    epochs: tuple[EpochEntry, ...] = ()

    @property
    def is_mounted(self) -> bool:
        """Whether all of it is in one directory that is mounted."""
        return self.broker is None

    @property
    def noted(self) -> str:
        """A path of this machine beside which the checkpoints of the broker are."""
        return self.directory if self.broker is None else f"{self.broker}/{self.topic_partition}"
