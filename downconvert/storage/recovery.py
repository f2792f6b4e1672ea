"""Recovers a partition's directory before it is written to.

After a clean shutdown only its files are listed. Otherwise every batch after the recovery point is
read and its checksum compared. The log is cut at the first damaged or incomplete batch, and later
segments are set aside. Indexes and producers' states are rebuilt from the rest. An interrupted
recovery is repeated by the next one.

Not here: one segment (segment_recovery.py), the files that are set aside (aside.py), the files that
make up the log (layout.py)."""

import os
from dataclasses import dataclass, field
from pathlib import Path

from records import BatchHeader, CorruptRecordsError, FileRecords

from .aside import copy_aside, holds_batch, move_aside
from .checkpoints.checkpoint import EpochEntry, read_epochs, write_epochs
from .checkpoints.leader_epochs import add_epoch
from .config import LogConfig
from .disk.files import Files
from .disk.open_files import OpenFiles
from .errors import CorruptFileError
from .indexes.transaction_index import AbortedTransaction
from .layout import Layout, check_writable, orphans, read_layout, replaced
from .names import LEADER_EPOCHS, SEGMENT_KINDS, Kind, State, file_name
from .producers.producers import Producers
from .segments.segment import Segment
from .segments.segment_recovery import SegmentReport, check_segment, rebuild_segment
from .segments.segments import Segments
from .segments.tail import Tail, next_offset_of


@dataclass(slots=True)
class Recovery:
    """The results of a recovery."""

    checked: list[SegmentReport] = field(default_factory=list)  # the segments that were read
    removed: list[str] = field(default_factory=list)  # names of files
    set_aside: list[str] = field(default_factory=list)  # names of files with the cut-off bytes

    @property
    def bytes_cut(self) -> int:
        return sum(report.bytes_cut for report in self.checked)

    @property
    def damage(self) -> CorruptRecordsError | None:
        """Why the log was cut, unless the cause was a torn tail."""
        return next((report.damage for report in self.checked if report.damage), None)


class RecoveredLog:
    """A recovered directory, for a writer."""

    def __init__(self, path: Path, open_files: OpenFiles, config: LogConfig, files: Files) -> None:
        self.path = path
        self.report = Recovery()
        self.segments = Segments()  # at least one, when recovered
        self.snapshots: list[int] = []
        self.producers = Producers(path)
        self.epochs: list[EpochEntry] = []
        self.position = 0  # the end of the last segment
        self.end_offset = 0
        self._epochs_before: list[EpochEntry] = []
        self._open_files = open_files
        self._config = config
        self._files = files

    def recover(self, *, clean: bool, recovery_point: int, start_offset: int) -> None:
        """`clean`: the last writer closed the log. `start_offset`: the start for a directory
        without segments.

        CorruptFileError: the directory or one of its files is a link. Nothing was changed."""
        layout = read_layout(self.path)
        check_writable(self.path, layout)
        if self._set_damaged_swaps_aside(layout):
            layout = read_layout(self.path)
        layout = self._apply_layout(layout)
        self.snapshots = layout.snapshots
        self.segments = Segments(Segment(self.path, base, self._open_files) for base in layout.logs)
        if not len(self.segments):
            self._make_segment(start_offset)
        last = self.segments[-1]
        tail = Tail(last)
        tail.advance()
        doubtful = [
            segment
            for segment in self.segments
            if self._is_doubtful(segment, recovery_point, clean and tail.position == last.size)
        ]
        self._read_epochs()
        self._check(doubtful)
        if doubtful:
            tail = Tail(self.segments[-1])
            tail.advance()
        self.position, self.end_offset = tail.position, tail.next_offset
        self._forget_after_end(clean)
        # Old brokers without producer states wrote no snapshots. Their logs need no replay.
        if self.snapshots or not clean:
            self._replay(self.end_offset)
        self.segments[-1].release()  # the next read may be much later

    # --- files

    def _set_damaged_swaps_aside(self, layout: Layout) -> bool:
        """Sets damaged `.swap` files aside. A cleaner's file is complete before it becomes a swap.
        So an incomplete swap must not replace a segment, and a swap with offsets below its name is
        no segment of this log."""
        found = False
        for name in layout.swaps:
            live = self.path / file_name(name.offset, Kind.LOG)
            if name.kind is not Kind.LOG:
                continue
            segment = Segment(self.path, name.offset, self._open_files, State.SWAP)
            is_other = not _holds_its_offsets(segment)
            if is_other or (live.exists() and check_segment(segment).bytes_cut):
                found = True
                self._set_aside(segment)
            segment.release()
        return found

    def _apply_layout(self, layout: Layout) -> Layout:
        """Removes and renames files, by the rules of layout.py."""
        for name in (*layout.leftovers, *orphans(layout)):
            self._remove(str(name))
        if not layout.swaps:
            return layout
        swapped = [name.offset for name in layout.swaps if name.kind is Kind.LOG]
        ends = [
            next_offset_of(Segment(self.path, base, self._open_files, State.SWAP))
            for base in swapped
        ]
        for base in replaced(layout, max(ends, default=0)):
            for kind in SEGMENT_KINDS:
                self._remove(file_name(base, kind))
        # The log is renamed last. Until then an interrupted recovery finds it as a swap, and
        # repeats this.
        for name in sorted(layout.swaps, key=lambda name: name.kind is Kind.LOG):
            live = self.path / file_name(name.offset, name.kind)
            self._files.rename(self.path / str(name), live)
        self._files.sync_directory(self.path)
        return read_layout(self.path)

    def _make_segment(self, base_offset: int) -> None:
        segment = Segment(self.path, base_offset, self._open_files)
        self._files.open(segment.path()).close()
        self._files.sync_directory(self.path)
        self.segments.add(segment)

    def _remove(self, name: str) -> None:
        if (self.path / name).exists():
            self._files.remove(self.path / name)
            self.report.removed.append(name)

    # --- segments

    def _is_doubtful(self, segment: Segment, recovery_point: int, clean: bool) -> bool:
        if not os.path.exists(segment.location(Kind.OFFSET_INDEX)):  # noqa: PTH110 - see there
            return segment.size > 0
        following = self.segments.after(segment)
        return not clean and (following is None or following.base_offset > recovery_point)

    def _check(self, doubtful: list[Segment]) -> None:
        for segment in doubtful:
            report = check_segment(segment)
            self.report.checked.append(report)
            if report.bytes_cut:
                # Later segments are set aside before the cut. In the other order, an interrupted
                # recovery would leave a gap that the next one cannot see.
                behind = [s for s in self.segments if s.base_offset > segment.base_offset]
                for following in reversed(behind):
                    self._set_aside(following)
                    self.segments.remove(following)
                self._files.sync_directory(self.path)
                if not report.good_size or holds_batch(segment, report.good_size):
                    tail = copy_aside(segment, report.good_size, self._files)
                    self.report.set_aside.append(tail.name)
            self._replay(segment.base_offset)
            rebuild_segment(segment, report, self._config, self._files, self._follow)
            if report.bytes_cut:
                return

    def _set_aside(self, segment: Segment) -> None:
        """Renames the log first. Its indexes are then leftovers."""
        segment.release()
        self.report.set_aside.append(move_aside(segment.path(), self._files).name)
        for kind in SEGMENT_KINDS:
            self._remove(segment.path(kind).name)

    # --- epochs and producers

    def _replay(self, offset: int) -> None:
        self.producers.advance(offset, self.segments, lambda s: s.size, self.snapshots)

    def _follow(self, records: FileRecords, header: BatchHeader) -> AbortedTransaction | None:
        add_epoch(self.epochs, header)
        return self.producers.follow(records, header)

    def _read_epochs(self) -> None:
        try:
            self.epochs = read_epochs(self.path / LEADER_EPOCHS)
        except CorruptFileError:
            self.epochs = []
        self._epochs_before = list(self.epochs)

    def _forget_after_end(self, clean: bool) -> None:
        for offset in [offset for offset in self.snapshots if offset > self.end_offset]:
            self._remove(file_name(offset, Kind.SNAPSHOT))
            self.snapshots.remove(offset)
        # An epoch that begins at the end may belong to lost batches.
        end = self.end_offset + clean
        self.epochs = [entry for entry in self.epochs if entry.start_offset < end]
        if self.epochs != self._epochs_before:
            write_epochs(self._files, self.path / LEADER_EPOCHS, self.epochs)


def _holds_its_offsets(segment: Segment) -> bool:
    """Whether all batches before the first damage have offsets from the segment's base offset
    on."""
    headers = segment.slice(0, segment.size).batches()
    try:
        return all(header.last_offset >= segment.base_offset for header in headers)
    except CorruptRecordsError:
        return True
