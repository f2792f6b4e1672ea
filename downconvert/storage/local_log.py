"""A log that this process writes: its segments, offsets, epochs and producers.

Not here: changes of the log (log_writer.py), the view of a log that another process writes
(follower.py)."""

from collections.abc import Mapping

from records import CorruptRecordsError

from .checkpoints.checkpoint import EpochEntry
from .checkpoints.checkpoints import PartitionCheckpoints
from .checkpoints.leader_epochs import LeaderEpochs
from .checkpoints.log_start import LogStart
from .config import LogConfig
from .disk.fence import FencedFiles
from .disk.open_files import OpenFiles
from .producers.producer_state import ProducerState
from .producers.producers import Producers
from .recovery import RecoveredLog
from .segment_directory import SegmentDirectory
from .segments.segment import Segment
from .segments.segment_writer import SegmentWriter
from .segments.write_guard import WriteGuard


class LocalLog:
    """The view of a log that this process writes. Only one caller may use it at a time.

    active: the segment that is appended to."""

    def __init__(
        self,
        log: RecoveredLog,
        checkpoints: PartitionCheckpoints,
        config: LogConfig,
        files: FencedFiles,
        open_files: OpenFiles,
    ) -> None:
        self.path = log.path
        self.segments = log.segments
        self.damage: CorruptRecordsError | None = None
        self.recovery = log.report
        self._directory = SegmentDirectory(log.path, log.segments, log.snapshots, files, open_files)
        self._epochs = LeaderEpochs(log.path, files, log.epochs)
        self._producers = log.producers
        self._checkpoints = checkpoints
        self.config = config
        self.files = files  # for changes of the directory
        self._open_files = open_files
        self._guard = WriteGuard(log.path, files)
        self.active = self._open_segment(self.segments[-1], log.position, log.end_offset)
        self._opened_at = self.end_offset
        self.flushed_offset = 0  # records below it are on the disk
        # Changes at a truncation and at the close: the rolled segments may be other ones then.
        self.generation = 0
        self.is_closed = False
        start = max(checkpoints.start_offset, self.segments[0].base_offset)
        self._start = LogStart(checkpoints, start)

    # --- offsets and segments

    @property
    def start_offset(self) -> int:
        return self._start.offset

    @property
    def reason(self) -> str | None:
        return self._guard.moved or self.files.reason

    def configure(self, config: LogConfig) -> None:
        """Applies other settings from now on. Open indexes keep their sizes."""
        self.config = self.active.config = config

    @property
    def end_offset(self) -> int:
        return self.active.next_offset

    @property
    def producers(self) -> Mapping[int, ProducerState]:
        """The producers of the appended batches, by id."""
        return self.producers_at_end().states.producers

    @property
    def epochs(self) -> tuple[EpochEntry, ...]:
        """The epochs of the log's records and, if it has begun, of the next append."""
        return self._epochs.entries

    @property
    def snapshots(self) -> list[int]:
        """The offsets of the snapshots of producers, ascending."""
        return self._directory.snapshots

    def max_timestamp(self, segment: Segment) -> int | None:
        """The highest timestamp of a segment; -1 if it has none, None if its indexes lack it."""
        if segment is self.active.segment:
            return self.active.max_timestamp
        return segment.max_timestamp()

    def size_of(self, segment: Segment) -> int:
        """The size of a segment in bytes, as `end_of`, without opening its file."""
        if segment is self.active.segment:
            return self.active.position
        return segment.path().stat().st_size

    def end_of(self, segment: Segment) -> int:
        return self.active.position if segment is self.active.segment else segment.size

    def is_in_place(self) -> bool:
        return self._guard.look(self.active)

    def producers_at_end(self) -> Producers:
        # Usually the states are up to date. Without a snapshot, the first call reads the log.
        self._producers.advance(self.end_offset, self.segments, self.end_of, self.snapshots)
        return self._producers

    def refresh(self, *, relist: bool = False) -> None:
        """Does nothing: only this process changes the directory."""

    def expire_producers(self, now: int, expiration_ms: int) -> int:
        """Forgets idempotent producers without an open transaction that have written nothing for
        `expiration_ms`; `now` is in milliseconds. Returns their number.

        A forgotten producer may begin with any sequence number, like a new one."""
        return self.producers_at_end().states.expire(now, expiration_ms)

    @property
    def cleaner_point(self) -> int:
        """The cleaner's checkpoint: below this offset there is one record of each key."""
        return self._checkpoints.cleaner_point

    def note_cleaner_point(self, offset: int) -> None:
        """Writes the cleaner's checkpoint. DiskFullError: it is not written, and the same segments
        are cleaned again."""
        self._checkpoints.set_cleaner_point(offset)

    # --- details

    def _write_snapshot(self, offset: int) -> None:
        if self._producers.offset is None:  # not read yet: an empty snapshot would hide producers
            return
        self._directory.write_snapshot(offset, self._producers.states)

    def _open_segment(self, segment: Segment, position: int, next_offset: int) -> SegmentWriter:
        return SegmentWriter(segment, position, next_offset, self.config, self.files)
