"""When a batch gets an entry in the indexes: the same whether it is appended or found by recovery.

A batch gets one if more than `index_interval_bytes` lie between the last batch that got one (or the
beginning) and its own first byte. So has Kafka done since 3.9; brokers before decided once for a
whole append, and wrote other offsets (offset_index.py)."""

from records import BatchHeader
from records.formats import NO_TIMESTAMP

from .offset_index import OffsetIndex
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
