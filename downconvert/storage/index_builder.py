"""When a batch gets an entry in the indexes: the same whether it is appended or found by recovery.

A batch gets one if more than `index_interval_bytes` lie between the last batch that got one (or the
beginning) and its own first byte. So has Kafka done since 3.9; brokers before decided once for a
whole append, and wrote other offsets (offset_index.py)."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from records import BatchHeader, FileRecords
from records.formats import NO_TIMESTAMP

from .config import LogConfig
from .errors import OffsetOverflowError
from .files import Files
from .names import Kind, file_name
from .offset_index import RELATIVE_MAX, OffsetIndex
from .time_index import TimeIndex


class IndexBuilder:
    """Writes the indexes of a segment, batch after batch."""

    __slots__ = (
        "_bytes_since_entry",
        "_interval",
        "max_timestamp",
        "max_timestamp_offset",
        "offsets",
        "times",
    )

    def __init__(self, offsets: OffsetIndex, times: TimeIndex, interval_bytes: int) -> None:
        """Continues after the entries that are there. Bytes before a reopening are not counted."""
        self.offsets = offsets
        self.times = times
        self._interval = interval_bytes
        self._bytes_since_entry = 0
        self.max_timestamp, self.max_timestamp_offset = times.last

    def add(self, header: BatchHeader, position: int) -> None:
        """The next batch, at that position of the log."""
        if header.max_timestamp > self.max_timestamp:
            self.max_timestamp = header.max_timestamp
            self.max_timestamp_offset = header.last_offset
        if self._bytes_since_entry > self._interval and self._has_place_for(header):
            self.offsets.append(header.last_offset, position)
            if self.max_timestamp > NO_TIMESTAMP:
                self.times.append(self.max_timestamp, self.max_timestamp_offset)
            self._bytes_since_entry = 0
        self._bytes_since_entry += header.size

    def _has_place_for(self, header: BatchHeader) -> bool:
        # An index that lacks entries is slower, and no worse. Segments are rolled before it is
        # full, and only a damaged one, with its checksums right, has offsets that go back.
        lowest = self.offsets.last_offset + 1 if len(self.offsets) else self.offsets.base_offset
        rises = header.last_offset >= lowest
        return rises and self.max_timestamp_offset >= self.times.last[1] and not self.is_full

    @property
    def is_full(self) -> bool:
        return self.offsets.is_full or self.times.is_full

    def finish(self) -> None:
        """The segment is rolled or closed: notes its highest timestamp, and trims the files."""
        if self.max_timestamp > self.times.last[0]:
            self.times.append(self.max_timestamp, self.max_timestamp_offset, last=True)
        self.offsets.file.trim()
        self.times.file.trim()

    def truncate_to(self, offset: int) -> None:
        """Forgets all batches from `offset` on. `continue_from` must follow."""
        self.offsets.truncate_to(offset)
        self.times.truncate_to(offset)
        self._bytes_since_entry = 0

    def continue_from(self, max_timestamp: int, offset: int) -> None:
        """Says the highest timestamp so far, and the last offset of the first batch that has it."""
        self.max_timestamp, self.max_timestamp_offset = max_timestamp, offset


@contextmanager
def new_indexes(
    path_of: Callable[[Kind], Path], base_offset: int, files: Files, config: LogConfig
) -> Iterator[IndexBuilder]:
    """The indexes of a segment that has none, which are whole and on the disk at the end of the
    block."""
    size_max = config.segment_index_bytes
    with ExitStack() as opened:
        path = path_of(Kind.OFFSET_INDEX)
        offsets = OffsetIndex.open_writable(path, base_offset, files, size_max)
        opened.callback(offsets.close)
        times = TimeIndex.open_writable(path_of(Kind.TIME_INDEX), base_offset, files, size_max)
        opened.callback(times.close)
        builder = IndexBuilder(offsets, times, config.index_interval_bytes)
        yield builder
        builder.finish()
        offsets.file.sync()
        times.file.sync()


def write_indexes(
    records: FileRecords, directory: Path, base_offset: int, files: Files, config: LogConfig
) -> int:
    """Writes the indexes of a whole segment into a directory; returns how many batches it has.

    OffsetOverflowError: a batch's offset does not fit the segment. CorruptRecordsError."""

    def path_of(kind: Kind) -> Path:
        return directory / file_name(base_offset, kind)

    count = 0
    with new_indexes(path_of, base_offset, files, config) as builder:
        for header in records.batches():
            if not 0 <= header.last_offset - base_offset <= RELATIVE_MAX:
                raise OffsetOverflowError(header.last_offset, base_offset, records.name)
            builder.add(header, header.position)
            count += 1
    return count
