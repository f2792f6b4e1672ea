"""Finds batch boundaries in a segment through its offset index. Reads the bytes of all indexes.

An index entry is a hint. It is used only if a batch begins at its position, and another batch or
the end of the log follows that batch. The offset of that batch must agree with the entry, and with
the batches since the previous entry. For a segment that is not on this machine, the driver reads
only the index. The tasks on both sides of a boundary verify it by the same rule (opening.py).

Not here: where to cut (splits.py)."""

from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import numpy as np

from downconvert.storage.errors import StorageError
from downconvert.storage.names import Kind
from downconvert.storage.segments.rising import counted, fitting, may_have
from records import BatchHeader, Codec, CorruptRecordsError, Records, RecordsError
from records.batches.reader import read_batch
from records.checksum import verify_checksum
from records.formats import V2
from records.units import MiB

from .segment_files import SegmentFile

# The number of entries of a damaged index that are tried for one cut.
TRIES: Final = 16

RECORD_SIZE_MAX: Final = MiB  # bytes of a record that is read for its offset
# By default, no broker lets an index grow larger.
INDEX_SIZE_MAX: Final = 10 * MiB
OFFSET_ENTRY: Final = np.dtype([("offset", ">i4"), ("position", ">i4")])
TIME_ENTRY: Final = np.dtype([("timestamp", ">i8"), ("offset", ">i4")])


def boundaries_of(file: SegmentFile) -> "Boundaries":
    """The boundaries known to a segment's index, for planning. They are verified in a log on this
    machine. OSError, StoreError: the index cannot be read."""
    return Boundaries(file, None if file.blobs else file.open().slice(0, file.size))


class Boundaries:
    """The batch boundaries of a segment: hints, or verified if its records are given."""

    def __init__(self, file: SegmentFile, records: Records | None = None) -> None:
        self._base = file.base_offset
        self._size = file.size
        self._records = records
        self._offsets, self._positions = _entries(file)

    @property
    def exist(self) -> bool:
        """Whether any boundary is known."""
        return len(self._positions) > 0

    def from_position(self, position: int, tries: int | None = None) -> int | None:
        """The first boundary at or after a position; None: none is known."""
        first = int(np.searchsorted(self._positions, position))
        last = len(self._positions) if tries is None else min(len(self._positions), first + tries)
        for slot in range(first, last):
            found = int(self._positions[slot])
            if self._is_one(slot):
                return found
        return None

    def before_offset(self, offset: int) -> int:
        """A boundary at or before the batch that holds an offset, close to it."""
        last = int(np.searchsorted(self._offsets, offset, side="right"))
        found = self.before_position(int(self._positions[last - 1])) if last else 0
        is_late = self._records is not None and is_beyond(self._records, found, offset)
        return 0 if is_late else found

    def before_position(self, position: int) -> int:
        """The last boundary at or before a position."""
        last = int(np.searchsorted(self._positions, position, side="right"))
        for slot in range(last - 1, max(-1, last - 1 - TRIES), -1):
            if self._is_one(slot):
                return int(self._positions[slot])
        return 0

    def after_damage(self, position: int, end: int | None) -> int | None:
        """The batch after a damaged one at `position`. Its size leads to `end` (None: nowhere). The
        next boundary is taken if batches that begin at `end` do not lead there. None: not known."""
        boundary = self.from_position(position + 1)
        if end is None or boundary is None or end == boundary:
            return boundary if end is None else end
        return end if end < boundary and self._lead(end, boundary) else boundary

    def after_offset(self, offset: int) -> int | None:
        """A boundary after every batch with offsets below `offset`; None: none is known.

        Versions of Kafka differ in which offset of a batch an entry has
        (storage/indexes/offset_index.py). In all of them the second entry from `offset` on is
        after it."""
        slot = int(np.searchsorted(self._offsets, offset)) + 1
        if slot >= len(self._positions):
            return None
        found = self.from_position(int(self._positions[slot]), TRIES)
        if found is None or self._records is None:
            return found
        return None if is_before(self._records, found, offset) else found

    def _lead(self, start: int, end: int) -> bool:
        """Whether batches from `start` on end at the boundary `end`, and at its offset."""
        assert self._records is not None
        reached, after = start, 0
        with suppress(CorruptRecordsError):
            for header in counted(self._records.slice(start, end - start)):
                reached, after = start + header.position + header.size, header.last_offset + 1
        return reached == end and not is_before(self._records, end, after)

    def _is_one(self, slot: int) -> bool:
        position, entry = int(self._positions[slot]), int(self._offsets[slot])
        if self._records is None:
            return True
        return self._fits(slot, position) and begins_batch(self._records, position, entry)

    def _fits(self, slot: int, position: int) -> bool:
        """Whether the offset of a batch is between those of its neighbours, as far as is known. The
        index entry does not always show it: it may have the last offset of several batches."""
        assert self._records is not None
        start = int(self._positions[slot - 1]) if slot else 0
        with suppress(CorruptRecordsError):
            headers = counted(self._records.slice(start, self._records.size - start))
            for header in fitting(headers, self._base):
                if start + header.position >= position:
                    return start + header.position == position
        return True


def begins_batch(records: Records, position: int, entry: int | None = None) -> bool:
    """Whether a batch begins at a position of a log, followed by another batch or the end. If
    damage follows, its checksum decides. `entry`: the offset that an index has for it."""
    if not 0 <= position < records.size:
        return position in (0, records.size)
    found = records.slice(position, records.size - position)
    batches, first = found.batches(), None
    with suppress(CorruptRecordsError):
        first = next(batches, None)
    if first is None:
        return False
    second = None
    with suppress(CorruptRecordsError):
        second = next(batches, None)
    if entry is not None and first.magic == V2 and not may_have(first, second, entry):
        return False
    if second is not None and first.last_offset < second.last_offset:
        return True
    if position + first.size == records.size:
        return True
    with suppress(CorruptRecordsError):
        verify_checksum(found, first)
        return True
    return False


def is_beyond(records: Records, position: int, offset: int) -> bool:
    """Whether the batch at a boundary begins after an offset."""
    first = _first_offset_at(records, position)
    return first is not None and first > offset


def is_before(records: Records, position: int, offset: int) -> bool:
    """Whether the batch at a boundary has offsets below `offset`."""
    first = _first_offset_at(records, position)
    return first is not None and first < offset


def _first_offset_at(records: Records, position: int) -> int | None:
    """The first offset of the batch at a boundary. The first record of compressed messages of v0
    and v1 is read for that. None: there is no whole header."""
    header = header_at(records, position)
    return None if header is None else first_offset(records, header, RECORD_SIZE_MAX)


def header_at(records: Records, position: int) -> BatchHeader | None:
    """The header of the whole entry there; None: there is none."""
    header = None
    with suppress(CorruptRecordsError):
        header = next(records.slice(position, records.size - position).batches(), None)
    return None if header is None else header._replace(position=position)


def first_offset(records: Records, header: BatchHeader, size_max: int | None = None) -> int:
    """The first offset of a batch. Only the first record of compressed messages of v0 and v1 has
    it. If that is damaged, the result is the last offset. `size_max`: of a record, in bytes."""
    if header.magic != V2 and header.codec is not Codec.NONE:
        with suppress(RecordsError):
            return next(read_batch(records, header, record_size_max=size_max)).offset
    return header.base_offset


def _entries(file: SegmentFile) -> tuple[Any, Any]:
    """Offsets and positions of the index entries, up to the first that is not in order: the rest of
    the index was preallocated, or is damaged."""
    data = b""
    if not file.is_gzipped:
        with suppress(OSError, StorageError):
            data = index_bytes(file, Kind.OFFSET_INDEX)
    table = table_of(data, OFFSET_ENTRY)
    offsets = table["offset"].astype(np.int64) + file.base_offset
    positions = table["position"].astype(np.int64)
    rising = (np.diff(positions) > 0) & (np.diff(offsets) > 0)
    good = len(table) if rising.all() else int(np.argmin(rising)) + 1
    good = min(good, int(np.searchsorted(positions[:good], file.size)))
    start = int(np.searchsorted(positions[:good], 0, side="right"))
    return offsets[start:good], positions[start:good]


def index_bytes(file: SegmentFile, kind: Kind) -> bytes:
    """The bytes of an index; none if it does not exist, or is too large to be one. OSError,
    StoreError: it cannot be read."""
    if file.blobs:
        blob = file.blob(kind)
        return blob.read() if blob is not None and 0 < blob.size <= INDEX_SIZE_MAX else b""
    path = Path(file.location(kind))
    try:
        return path.read_bytes() if path.stat().st_size <= INDEX_SIZE_MAX else b""
    except FileNotFoundError:
        return b""


def table_of(data: bytes, entry: "np.dtype[np.void]") -> Any:
    """The whole entries of an index."""
    return np.frombuffer(data[: len(data) // entry.itemsize * entry.itemsize], entry)
