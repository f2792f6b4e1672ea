"""Opens the segment of a split in the task that reads it, on this machine or from a store.

For a segment in a store, planning trusts the index, and the task verifies the boundaries. If no
batch begins at a boundary, the tasks on both sides use the next valid one instead. So exactly one
task reads each batch.

Not here: reading (entries.py)."""

from collections.abc import Callable
from dataclasses import dataclass

from downconvert.spark.errors import SegmentChangedError
from downconvert.spark.stores.blobs import inflated
from downconvert.spark.stores.range_records import Beginning, Blocks, Direct, RangeRecords
from downconvert.storage.names import OFFSET_MAX
from downconvert.storage.segments.segment import Segment
from records import FileRecords, Records
from records.files.file_records import SharedFile

from .boundaries import Boundaries, is_before, is_beyond
from .segment_files import SegmentFile
from .splits import Split


@dataclass(slots=True)
class OpenedSegment:
    """The records of a segment, and the positions between which a task reads them. `look`: the same
    records, for reading a few bytes."""

    records: Records
    start: int
    end: int
    file: SegmentFile
    look: Records
    close: Callable[[], None]
    _boundaries: Boundaries | None = None

    def boundaries(self) -> Boundaries:
        """The boundaries known to the segment's index."""
        if self._boundaries is None:
            self._boundaries = Boundaries(self.file, self.look)
        return self._boundaries


def opened(split: Split) -> OpenedSegment:
    """Opens a split's segment. FileNotFoundError: it is gone. SegmentChangedError: it was cleaned
    or cut. StoreError: it cannot be read."""
    if not split.segment.blobs:
        return _mounted(split)
    return _inflated(split) if split.segment.is_gzipped else _stored(split)


def _mounted(split: Split) -> OpenedSegment:
    file = split.segment
    segment = file.open()
    if segment.size < file.size or _is_replaced(file, segment):
        raise SegmentChangedError(file.path)
    records = segment.slice(0, file.size)
    return OpenedSegment(records, split.start, split.end, file, records, segment.release)


def _is_replaced(file: SegmentFile, segment: Segment) -> bool:
    """Whether a cleaner has replaced a rolled segment by a longer file. A file that is still being
    copied grows, too, but it stays the same file."""
    if file.next_offset == OFFSET_MAX or segment.size == file.size:
        return False
    return segment.path().stat().st_ino != file.inode


def _inflated(split: Split) -> OpenedSegment:
    """A gzipped segment is one stretch. It is decompressed to an unnamed file."""
    file = split.segment
    descriptor, damage = inflated(file.blob_of_log)
    records: Records
    if damage is None:
        shared = SharedFile(descriptor)
        shared.name = file.path
        whole = FileRecords(shared, 0, shared.seek(0, 2))
        records, close = whole, whole.close
    else:
        beginning = Beginning(descriptor, damage)
        records, close = RangeRecords(beginning, 0, beginning.size), beginning.close
    start, end = (split.start, split.end) if split.is_verified else (0, records.size)
    return OpenedSegment(records, start, end, file, records, close)


def _stored(split: Split) -> OpenedSegment:
    file = split.segment
    is_rolled = file.next_offset != OFFSET_MAX
    blocks = Blocks(file.blob_of_log, split.end, is_rolled=is_rolled)
    try:
        records = RangeRecords(blocks, 0, file.size)
        look = RangeRecords(Direct(blocks), 0, file.size)
        found = OpenedSegment(records, split.start, split.end, file, look, blocks.close)
        if split.is_verified:
            return found
        if split.start:
            found.start = _boundary(found, split.start)
            is_late = found.start != split.start or is_beyond(look, found.start, split.first_offset)
            if is_late and not split.is_cut:
                found.start = found.boundaries().before_offset(split.first_offset)
        if split.end < file.size:
            found.end = _boundary(found, split.end)
            if not split.is_followed and is_before(look, split.end, split.end_offset):
                found.end = file.size
    except BaseException:
        blocks.close()
        raise
    return found


def _boundary(found: OpenedSegment, planned: int) -> int:
    """The boundary that is used in place of a planned one: the same, unless it proves wrong."""
    boundary = found.boundaries().from_position(planned)
    return found.file.size if boundary is None else boundary
