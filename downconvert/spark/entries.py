"""The entries of a split one after another, and how reading goes on after damage.

After an entry that cannot be read its size leads to the next one, unless the index knows of a
nearer one. So what is read is the same however a segment is split: splits begin where the index
knows of a batch.

Not here: what is read of an entry (rows.py, batches.py)."""

from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa

from downconvert.storage.tail import NOT_WRITTEN
from downconvert.storage.transactions import AbortedRanges
from records import BatchHeader, CorruptRecordsError, Records
from records.checksum import MISMATCH, verify_checksum
from records.formats import BATCH_HEADER_SIZE, ENTRY_HEAD_SIZE

from .checksums import is_sound
from .errors import CorruptSegmentError
from .opening import OpenedSegment, opened
from .options import Mode, Options
from .splits import Split


class Entries:
    """The entries of a split; `position` is the next byte to read."""

    def __init__(self, split: Split, options: Options) -> None:
        """FileNotFoundError: the segment is gone. SegmentChangedError: it was cleaned or cut."""
        self._opened: OpenedSegment = opened(split)
        self.size = self._opened.records.size
        self.split = split
        self.options = options
        self.aborted = AbortedRanges(split.aborted)
        self.position = self._opened.start
        self.end = self._end = self._opened.end  # a last entry may run past it
        self.records: Records = self._opened.records
        self.path = self.records.name

    def close(self) -> None:
        self._opened.close()

    def header(self, position: int) -> BatchHeader | None:
        """The header of the entry there; None: it is not whole, as at the end of a log."""
        window = bytearray(min(BATCH_HEADER_SIZE, self.size - position))
        read = self.records.read_into(memoryview(window), position)
        if read < len(window) or read <= ENTRY_HEAD_SIZE:
            return None
        try:
            header = BatchHeader.parse(window, 0, position)
        except ValueError:
            return None
        return header if header.position + header.size <= self.size else None

    def is_cut_short(self) -> bool:
        """Whether there are entries after the one at `position`, which runs past the end."""
        return self.position < self.size and self._boundary(self.position + 1) is not None

    def verify(self, header: BatchHeader, held: memoryview) -> None:
        """CorruptRecordsError where checksums are to be compared and one is not right.

        `held`: the entry's bytes; if they are not all there, they are read."""
        if not self.options.verify_crc:
            return
        if len(held) < header.size:
            verify_checksum(self.records, header)
        elif not is_sound(held):
            raise CorruptRecordsError(MISMATCH, header.position)

    def recover(self, damage: CorruptRecordsError, entry: int, schema: Any) -> Iterator[Any]:
        """Handles damage in the entry that begins at `entry`: moves `position` to where reading
        goes on.

        Yields a record batch of one row that reports it, with mode PERMISSIVE. CorruptSegmentError
        with FAILFAST."""
        self.end = self._end
        if self._is_unwritten(entry):
            self.position = self.end
            return
        if self.options.mode is Mode.FAILFAST:
            raise CorruptSegmentError(self.path, damage)
        following = self._following(entry)
        self.position = self.size if following is None else following
        if following is None:
            left = "nothing after it in this segment can be read"
        else:
            left = f"reading goes on at byte {following}"
        column = self.options.corrupt_column
        if self.options.mode is Mode.PERMISSIVE and column in schema.names:
            report = {"segment": self.path, "position": entry, "reason": f"{damage}; {left}"}
            yield self._row({column: report}, schema)

    def entry_of(self, position: int, anchor: int) -> int:
        """Where the entry begins that contains a position; an earlier one begins at `anchor`."""
        entry, following = anchor, anchor
        records = self.records.slice(anchor, self.size - anchor)
        try:
            for header in records.batches():
                if following > position:
                    break
                entry = following
                following += header.size
        except CorruptRecordsError:
            pass
        return following if following <= position else entry

    def _row(self, known: dict[str, Any], schema: Any) -> Any:
        """A row of which only the partition and these columns are known."""
        known |= {"topic": self.split.topic, "partition": self.split.partition}
        arrays = [pa.array([known.get(field.name)], field.type) for field in schema]
        return pa.RecordBatch.from_arrays(arrays, schema=schema)

    def _following(self, entry: int) -> int | None:
        """Where the next entry begins; None: not known."""
        boundary = self._boundary(entry + 1)
        try:
            header = self.header(entry)
        except CorruptRecordsError:
            return boundary
        if header is None:
            return boundary
        end = entry + header.size
        if boundary is None or end == boundary or (end < boundary and self._is_entry(end)):
            return end
        return boundary

    def _is_entry(self, position: int) -> bool:
        batches = self.records.slice(position, self.size - position).batches()
        try:
            first, second = next(batches, None), next(batches, None)
        except CorruptRecordsError:
            return False
        return first is not None and (second is None or first.last_offset < second.last_offset)

    def _boundary(self, position: int) -> int | None:
        return self._opened.boundaries().from_position(position)

    def _is_unwritten(self, position: int) -> bool:
        """Whether only zeros follow, as in a file that was extended before it is written."""
        head = bytearray(ENTRY_HEAD_SIZE)
        read = self.records.read_into(memoryview(head), position)
        return head[:read] == NOT_WRITTEN[:read] and self._boundary(position + 1) is None


RUNS_PAST: Final = "entry runs past the end of its segment"
