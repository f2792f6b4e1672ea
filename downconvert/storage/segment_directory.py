"""The files of a log's segments: removing them, and replacing them by cleaned ones.

Each change is made in an order that leaves a valid log after each step. A segment counts while its
log file exists, so the log file is removed first and renamed last.

Not here: choosing these segments (log_writer.py, compact_log.py), the files that count after a
crash (layout.py)."""

from collections.abc import Sequence
from pathlib import Path

from .disk.fence import FencedFiles
from .disk.open_files import OpenFiles
from .errors import StorageError
from .names import SEGMENT_KINDS, Kind, State, file_name
from .producers.producer_state import ProducerStates, write_snapshot
from .segments.segment import Segment
from .segments.segments import Segments


class SegmentDirectory:
    """The segments of one log that is written, and the snapshots of its producers."""

    def __init__(
        self,
        path: Path,
        segments: Segments,
        snapshots: list[int],
        files: FencedFiles,
        open_files: OpenFiles,
    ) -> None:
        self.path = path
        self.segments = segments
        self.snapshots = snapshots  # their offsets, ascending
        self._files = files
        self._open_files = open_files
        self._swaps: list[Segment] = []  # segments in the log without their final names yet

    def sync(self) -> None:
        """Returns when created and removed names are synced."""
        self._files.sync_directory(self.path)

    # --- segments

    def remove(self, segment: Segment, *, keep_snapshot: bool = False) -> None:
        """Removes a segment, and the snapshot at its beginning."""
        segment.release()
        self._files.remove(segment.path())
        self.segments.remove(segment)
        self.remove_files(segment)
        if segment.base_offset in self.snapshots and not keep_snapshot:
            self._remove_snapshot(segment.base_offset)

    def remove_or_fence(self, segment: Segment, *, keep_snapshot: bool = False) -> None:
        """As `remove`, for a segment that has been replaced in memory already. If it cannot be
        removed, the directory goes offline. Recovery completes or undoes the change on the disk."""
        try:
            self.remove(segment, keep_snapshot=keep_snapshot)
        except OSError as error:
            raise self._files.fence(self.path, error) from error

    def remove_files(self, segment: Segment) -> None:
        """Removes the files of a segment that is not in the log."""
        for kind in SEGMENT_KINDS:  # the log first: indexes without one are leftovers
            self._files.remove(segment.path(kind))

    def replace(self, group: Sequence[Segment], cleaned: Segment) -> None:
        """Replaces neighbouring segments, none of them the active one, by one `cleaned` segment.

        The files of `cleaned` have the suffix `.cleaned`, and are flushed. The log is renamed last,
        because recovery expects the indexes of every log that it finds."""
        base_offset = cleaned.base_offset
        self._finish_swaps()  # of the last call, if there was no space
        try:
            self._rename(base_offset, State.CLEANED, State.SWAP)
        except (OSError, StorageError):
            for kind in SEGMENT_KINDS:  # indexes without a log do not count as a swap
                self._files.remove(self.path / file_name(base_offset, kind, State.SWAP))
            raise
        replacement = Segment(self.path, base_offset, self._open_files, State.SWAP)
        for segment in group:
            # The snapshot before the first segment stays valid, and is the nearest one.
            self.remove_or_fence(segment, keep_snapshot=segment.base_offset == base_offset)
        self.segments.add(replacement)
        self._swaps.append(replacement)
        self._finish_swaps()

    def _finish_swaps(self) -> None:
        """Gives the files of replacing segments their final names. On some file systems this needs
        space. A DiskFullError does no harm, because `.swap` files count as well."""
        for segment in list(self._swaps):
            if segment in self.segments:
                self._rename(segment.base_offset, State.SWAP, State.LIVE)
                segment.release()
                segment.state = State.LIVE
            self._swaps.remove(segment)

    def _rename(self, base_offset: int, before: State, after: State) -> None:
        for kind in reversed(SEGMENT_KINDS):
            source = self.path / file_name(base_offset, kind, before)
            if source.exists():
                self._files.rename(source, self.path / file_name(base_offset, kind, after))
        self.sync()

    # --- snapshots

    def write_snapshot(self, offset: int, states: ProducerStates) -> None:
        """Writes the producers' states after everything below `offset`."""
        write_snapshot(self._files, self.path / file_name(offset, Kind.SNAPSHOT), states)
        self.snapshots = sorted({*self.snapshots, offset})

    def remove_snapshots(self, above: int) -> None:
        """Removes the snapshots at offsets above `above`."""
        for offset in [offset for offset in self.snapshots if offset > above]:
            self._remove_snapshot(offset)

    def _remove_snapshot(self, offset: int) -> None:
        self._files.remove(self.path / file_name(offset, Kind.SNAPSHOT))
        self.snapshots.remove(offset)
