"""The contents of a log: formats, codecs, sizes, times, and the features that an old client would
miss.

The headers of batches have most of this. Only `deep` reads records. It counts records with headers,
which only v2 has, and records in compressed messages.

Not here: the cost of a conversion (downconvert), printing (cli)."""

from dataclasses import dataclass, field
from typing import Final

from records import BatchHeader, Codec, CorruptRecordsError, FileRecords
from records.batches.reader import read_batch
from records.formats import NO_TIMESTAMP, V2

from .log import Log
from .names import Kind
from .producers.transactions import AbortedRanges


@dataclass(slots=True)
class Share:
    """The batches of one format and codec. (A message of v0 or v1 is a batch.)"""

    batches: int = 0
    bytes: int = 0
    records: int = 0  # without `deep`, not those of compressed v0 and v1 messages


@dataclass(slots=True)
class Inspection:
    """One log, or the sum of several."""

    partitions: int = 0
    segments: int = 0
    log_bytes: int = 0
    other_bytes: int = 0  # allocated for indexes and snapshots
    tail_bytes: int = 0  # after the last good batch: torn, damaged, or not written yet
    shares: dict[tuple[int, Codec], Share] = field(default_factory=dict)
    oldest: int = NO_TIMESTAMP  # the lowest of the batches' highest timestamps
    newest: int = NO_TIMESTAMP
    control_batches: int = 0
    transactional_batches: int = 0
    aborted_batches: int = 0
    aborted_records: int = 0  # clients without isolation levels read these, too
    records_with_headers: int | None = None  # None if not counted
    damages: list[str] = field(default_factory=list)

    @property
    def batches(self) -> int:
        return sum(share.batches for share in self.shares.values())

    @property
    def records(self) -> int:
        return sum(share.records for share in self.shares.values())

    @property
    def counts_all(self) -> bool:
        """Whether `records` counts all. Compressed old messages do not state their number."""
        return all(
            share.records or magic == V2 or codec is Codec.NONE
            for (magic, codec), share in self.shares.items()
        )

    def add(self, other: "Inspection") -> None:
        for name in SUMS:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for key, theirs in other.shares.items():
            share = self.shares.setdefault(key, Share())
            share.batches += theirs.batches
            share.bytes += theirs.bytes
            share.records += theirs.records
        times = [time for time in (self.oldest, other.oldest) if time != NO_TIMESTAMP]
        self.oldest = min(times, default=NO_TIMESTAMP)
        self.newest = max(self.newest, other.newest)
        if other.records_with_headers is not None:
            before = self.records_with_headers or 0
            self.records_with_headers = before + other.records_with_headers
        self.damages += other.damages


SUMS: Final = (
    "partitions",
    "segments",
    "log_bytes",
    "other_bytes",
    "tail_bytes",
    "control_batches",
    "transactional_batches",
    "aborted_batches",
    "aborted_records",
)
OTHERS: Final = (Kind.OFFSET_INDEX, Kind.TIME_INDEX, Kind.TRANSACTION_INDEX, Kind.SNAPSHOT)
BLOCK_SIZE: Final = 512  # bytes: the unit of st_blocks, for all block sizes of disks


def inspect_log(log: Log, *, deep: bool = False) -> Inspection:
    """Reads a log. Damage is noted, and the rest of its segment is not read."""
    found = Inspection(partitions=1, records_with_headers=0 if deep else None)
    aborted = AbortedRanges(log.aborted(0, log.end_offset))
    for segment in log.segments:
        found.segments += 1
        found.log_bytes += segment.size
        for path in map(segment.path, OTHERS):
            found.other_bytes += path.stat().st_blocks * BLOCK_SIZE if path.exists() else 0
        records = segment.slice(0, log.end_of(segment))
        good = 0
        try:
            for header in records.batches():
                count = _records_count(header)
                if deep:
                    count = _inspect_records(records, header, found)
                _count(header, count, found, is_aborted=aborted.cover(header))
                good = header.position + header.size
        except CorruptRecordsError as error:
            found.damages.append(f"{segment.path()}: {error}")
        found.tail_bytes += segment.size - good
    return found


def _records_count(header: BatchHeader) -> int:
    if header.records_count is None:
        return int(header.codec is Codec.NONE)
    return max(0, header.records_count)


def _count(header: BatchHeader, records: int, found: Inspection, *, is_aborted: bool) -> None:
    share = found.shares.setdefault((header.magic, header.codec), Share())
    share.batches += 1
    share.bytes += header.size
    if header.is_control:  # consumers do not get its records
        found.control_batches += 1
        return
    share.records += records
    if header.max_timestamp != NO_TIMESTAMP:
        known = [time for time in (found.oldest, header.max_timestamp) if time != NO_TIMESTAMP]
        found.oldest = min(known)
        found.newest = max(found.newest, header.max_timestamp)
    found.transactional_batches += header.is_transactional
    if is_aborted:
        found.aborted_batches += 1
        found.aborted_records += records


def _inspect_records(records: FileRecords, header: BatchHeader, found: Inspection) -> int:
    count = with_headers = 0
    for record in read_batch(records, header):
        count += 1
        with_headers += bool(record.headers)
    if not header.is_control:
        found.records_with_headers = (found.records_with_headers or 0) + with_headers
    return count
