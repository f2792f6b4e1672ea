"""Reads a partition's directory, and follows its changes.

A broker may be writing to the directory. This code changes nothing in it. After a crash of the
broker, the log looks as it will look after recovery.

Not here: reading records (log.py), a directory that this process writes (log_writer.py)."""

import os
from pathlib import Path
from typing import Final, Protocol

from records import CorruptRecordsError
from records.backend import file_stamps
from records.kernel_functions import STAMP_SIZE

from .checkpoints.checkpoint import read_offsets
from .disk.files import read_file
from .disk.open_files import OpenFiles
from .errors import CorruptFileError
from .layout import Layout, read_layout, replaced
from .names import LOG_STARTS, Kind, State, file_name, parse_partition
from .producers.producers import Producers
from .segments.segment import Segment
from .segments.segments import Segments
from .segments.tail import Tail, next_offset_of

# How often a refresh starts over because files are gone. Brokers rarely delete and clean.
ATTEMPTS: Final = 8

NO_FILE: Final = b"\xff" * STAMP_SIZE  # the stamp of a missing file


class LogView(Protocol):
    """The parts of a log that this process knows."""

    @property
    def segments(self) -> Segments: ...

    @property
    def start_offset(self) -> int:
        """The first offset that is still part of the log. Files may begin before it."""

    @property
    def end_offset(self) -> int:
        """The offset that the next record will have."""

    @property
    def reason(self) -> str | None:
        """Why the log is offline; None if it is online."""

    @property
    def snapshots(self) -> list[int]:
        """The offsets of the snapshots of producer states, ascending."""

    @property
    def damage(self) -> CorruptRecordsError | None:
        """The damage after the last good batch, if it is more than a torn tail."""

    def end_of(self, segment: Segment) -> int:
        """The position after a segment's last good batch. OSError: the segment is gone."""

    def producers_at_end(self) -> Producers:
        """The producers at `end_offset`, as recovery would find them now."""

    def refresh(self, *, relist: bool = False) -> None:
        """Looks for changes on the disk. `relist`: lists the directory again in any case."""

    def close(self) -> None: ...


class Follower:
    """The view of a log that another process may be changing."""

    __slots__ = (
        "_directory",
        "_ends",
        "_listed",
        "_open_files",
        "_path",
        "_producers",
        "_start",
        "_starts",
        "_starts_path",
        "_tail",
        "end_offset",
        "segments",
        "snapshots",
        "start_offset",
    )

    reason: str | None = None  # a reader does not notice that a disk fails

    def __init__(self, path: Path, open_files: OpenFiles) -> None:
        self._path = path
        self._open_files = open_files
        self._directory = os.fsencode(path)
        self._listed = b""  # the directory's stamp when it was last listed
        self._ends: list[bytes] = []  # the paths of the first and of the last segment's log
        self._starts_path = str(path.parent / LOG_STARTS)
        self._starts = b""  # the stamp of the checkpoint of start offsets when it was last read
        self._start = 0
        self._tail: Tail | None = None
        self._producers = Producers(path)
        self.segments = Segments()
        self.snapshots: list[int] = []
        self.start_offset = self.end_offset = 0
        self.refresh()

    @property
    def damage(self) -> CorruptRecordsError | None:
        return None if self._tail is None else self._tail.damage

    def end_of(self, segment: Segment) -> int:
        if self._tail is not None and segment is self._tail.segment:
            return self._tail.position
        return segment.size

    def producers_at_end(self) -> Producers:
        producers = self._producers
        if producers.offset != self.end_offset:
            producers.advance(self.end_offset, self.segments, self.end_of, self.snapshots)
        return producers

    def refresh(self, *, relist: bool = False) -> None:
        self._read_start()
        try:
            for _ in range(ATTEMPTS):
                try:
                    self._look(relist=relist)
                    return
                except FileNotFoundError:
                    relist = True
            self._look(relist=True)
        finally:
            first = self.segments.first_offset
            end = 0 if self._tail is None else self._tail.next_offset
            self.start_offset = max(self._start, first)
            self.end_offset = max(self.start_offset, end)

    def _look(self, *, relist: bool) -> None:
        listed, *ends = self._stamps()
        if listed == NO_FILE:
            self._path.stat()  # raises an error that explains the problem
        if relist or listed != self._listed or self._has_other_ends(ends):
            self._load(read_layout(self._path))
            self._listed = listed
        if self._tail is not None and not self._tail.advance():
            self._producers.forget()  # the log was truncated

    def close(self) -> None:
        for segment in self.segments:
            segment.release()

    def _stamps(self) -> list[bytes]:
        """The stamps of the directory, of the first and the last segment's log, and of the log that
        would come next. One call reads all of them, because each fetch needs them."""
        paths = [self._directory]
        tail = self._tail
        if tail is not None:
            following = b"" if tail.next_offset == tail.segment.base_offset else self._following()
            paths += (*self._ends, following)
        stamps = file_stamps(paths)
        return [stamps[at : at + STAMP_SIZE] for at in range(0, len(stamps), STAMP_SIZE)]

    def _following(self) -> bytes:
        """The path of the segment that would come after the tail."""
        assert self._tail is not None
        name = file_name(self._tail.next_offset, Kind.LOG)
        return b"%b/%b" % (self._directory, name.encode())

    def _has_other_ends(self, stamps: list[bytes]) -> bool:
        """Whether segments have been added or removed at the beginning or the end.

        A change within the clock tick of the last listing does not change the directory's time. So
        the files that may have appeared or disappeared are checked by name."""
        if not stamps:
            return False
        first, last, following = stamps
        return NO_FILE in (first, last) or following != NO_FILE

    def _read_start(self) -> None:
        path = self._starts_path
        try:
            starts = read_file(path)
            if starts != self._starts:
                name = parse_partition(self._path.name)
                self._start = 0 if name is None else read_offsets(Path(path)).get(name, 0)
                self._starts = starts
        except (FileNotFoundError, CorruptFileError):  # the files decide, as in Kafka
            self._start, self._starts = 0, b""

    def _load(self, layout: Layout) -> None:
        # All files are reopened: a cleaner may have replaced some, or the log was truncated.
        self.close()
        segments = [
            Segment(self._path, base_offset, self._open_files, state)
            for base_offset, state in layout.logs.items()
        ]
        ends = [next_offset_of(segment) for segment in segments if segment.state is State.SWAP]
        gone = replaced(layout, max(ends, default=0))
        self.segments = Segments(
            s for s in segments if s.state is State.SWAP or s.base_offset not in gone
        )
        self.snapshots = layout.snapshots
        # For the same reasons producers are followed again, from the newest snapshot. It is near
        # the end: brokers that know producers write a snapshot for each segment but the first.
        if self.snapshots or len(self.segments) <= 1:
            self._producers.forget()
        self._tail = Tail(self.segments[-1]) if len(self.segments) else None
        if self._tail is not None:
            self._ends = [os.fsencode(self.segments[at].path()) for at in (0, -1)]
