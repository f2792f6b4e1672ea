"""Audits one segment: its content, and the costs and losses of old consumers. This file does not
use Spark.

All headers are read. All checksums are verified, unless that is switched off. A sample of each
format and codec is read and converted: stretches of a MiB, spread over the segment. A row has the
figures of the sample and its size in bytes, so sums of rows can be scaled.

Not here: summing (audit.py), the report (audit_report.py)."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from time import thread_time
from typing import Any, Final

from downconvert import convert
from downconvert.spark.logs.segment_files import PartitionLog
from downconvert.spark.logs.staging import staged
from downconvert.spark.read.checksums import Checksums
from downconvert.storage import Log, Segment
from downconvert.storage.errors import CorruptFileError
from downconvert.storage.names import OFFSET_MAX, Kind, file_name
from downconvert.storage.producers.transactions import AbortedRanges
from records import (
    BatchHeader,
    Codec,
    CorruptRecordsError,
    FileRecords,
    RecordsError,
    RecordTooLargeError,
    read,
)
from records.formats import NO_TIMESTAMP, V0, V1, V2

from .sample import Key, Sample, Stretch

STRETCHES: Final = 4  # sampled of each format and codec in a segment
DAMAGES_MAX: Final = 5  # reported per segment
OFFSETS_MAX: Final = 2**31  # of a segment: its indexes have 32 bits for one
SAMPLED_RECORD_MAX: Final = 4 * 1024 * 1024  # bytes; a stretch with a larger one is not sampled


@dataclass(frozen=True, slots=True)
class Task:
    """Segments of one partition's directory to read, by base offset.

    stretches: the number of samples of each format and codec; 0: everything is read. verify_crc:
    whether all batches' checksums are verified, so that all bytes are read. log: the place of the
    segments, if they are not in a mounted directory."""

    topic: str
    partition: int
    directory: str
    segments: tuple[int, ...]
    stretches: int = STRETCHES
    verify_crc: bool = True
    log: PartitionLog | None = None

    @property
    def start_offset(self) -> int:
        """The log start offset."""
        return 0 if self.log is None else self.log.start_offset

    def end_of(self, segment: Segment) -> int:
        """The end offset of a segment. Records from there on are read from another copy."""
        files = () if self.log is None else self.log.segments
        ends = (
            min(file.next_offset, file.valid_until)
            for file in files
            if file.base_offset == segment.base_offset
        )
        return min(ends, default=OFFSET_MAX)

    def __str__(self) -> str:
        return f"{self.directory}, segments {self.segments[0]} to {self.segments[-1]}"


@dataclass(slots=True)
class Cost:
    """The cost of converting the sample to one format. Sizes are bytes."""

    cpu_seconds: float = 0.0
    bytes_out: int = 0
    buffers: int = 0  # peak of lazy conversion
    temporary: int = 0  # peak of converting one stretch at once


@dataclass(slots=True)
class Share:
    """The batches of one format and codec in a segment. Only the first share of a segment has the
    figures of the whole segment, so sums count them once."""

    topic: str
    partition: int
    segment: int
    magic: int | None = None  # None: the segment holds no batch
    codec: str = ""
    segments: int = 0
    log_bytes: int = 0  # of the file, without bytes whose offsets are read from another copy
    tail_bytes: int = 0  # after the last good batch
    first_offset: int | None = None  # None if unknown: in compressed v0 and v1
    next_offset: int | None = None
    gaps: int = 0
    missing_offsets: int = 0
    damages: list[str] = field(default_factory=list)
    batches: int = 0
    bytes: int = 0
    records: int = 0
    uncounted_bytes: int = 0  # of compressed v0 and v1 messages: their headers do not count records
    oldest: int | None = None  # milliseconds, of batches' highest timestamps
    newest: int | None = None
    control_batches: int = 0
    control_bytes: int = 0
    transactional_batches: int = 0
    aborted_batches: int = 0
    aborted_records: int = 0
    sampled_bytes: int = 0
    sampled_records: int = 0
    sampled_payload: int = 0  # of keys, values and headers, uncompressed
    sampled_with_headers: int = 0
    v1: Cost = field(default_factory=Cost)
    v0: Cost = field(default_factory=Cost)


def audit_segments(task: Task) -> Iterator[dict[str, Any]]:
    """The shares of a task's segments, as rows. OSError: they cannot be read."""
    if task.log is None or task.log.is_mounted:
        yield from _audited(task)
        return
    try:
        with staged(task.log, task.segments) as directory:
            for row in _audited(replace(task, directory=str(directory))):
                row["damages"] = [
                    damage.replace(str(directory), task.directory) for damage in row["damages"]
                ]
                yield row
    except CorruptFileError as error:  # a gzipped file, or a chunk
        if len(task.segments) > 1:
            for base in task.segments:
                yield from audit_segments(replace(task, segments=(base,)))
        else:
            share = Share(task.topic, task.partition, task.segments[0])
            share.damages.append(str(error))
            yield asdict(share)


def _audited(task: Task) -> Iterator[dict[str, Any]]:
    is_here = False
    with Log.open(task.directory) as log:
        for segment in log.segments:
            if segment.base_offset in task.segments:
                is_here = True
                share = Share(task.topic, task.partition, segment.base_offset)
                look = _Look(log, segment, share, task.start_offset, task.end_of(segment))
                shares = look.shares(task.stretches, verify_crc=task.verify_crc)
                yield from map(asdict, shares)
                segment.release()
    if not is_here:  # deleted by retention, or this machine has other files at that path
        names = ", ".join(file_name(base, Kind.LOG) for base in task.segments[:DAMAGES_MAX])
        share = Share(task.topic, task.partition, task.segments[0])
        share.damages.append(f"{task.directory}: {names} not there any more")
        yield asdict(share)


class _Look:
    """Reads one segment once, and counts."""

    def __init__(
        self, log: Log, segment: Segment, first: Share, start_offset: int, end_offset: int
    ) -> None:
        """`start_offset`: the log's start; records before it were deleted. `end_offset`: records
        from there on are left out."""
        self._log = log
        self._start = start_offset
        self._end = end_offset
        self._is_last = log.segments.is_last(segment)
        # Bytes after the end of the last segment may be preallocated, or an unfinished write.
        end = log.end_of(segment) if self._is_last else segment.size
        self._records = segment.slice(0, end)
        self._first = first
        first.segments, first.log_bytes = 1, segment.size
        self._shares: dict[Key, Share] = {}

    def shares(self, stretches: int, *, verify_crc: bool) -> list[Share]:
        if self._is_last and self._log.damage is not None:
            self._damaged(self._log.damage)
        end = 0
        sample = Sample(self._records.size, stretches)
        checksums = Checksums(self._records) if verify_crc else None
        try:
            for header in self._records.batches():
                if header.base_offset >= self._end:
                    self._records = self._records.slice(0, end)
                    self._first.log_bytes = end
                    break
                end = header.position + header.size
                if header.last_offset < self._start:
                    continue
                self._count(self._share(header), header)
                self._follow(header)
                sample.add(header)
                if checksums is not None:
                    self._verify(checksums, header)
            if end < self._records.size:
                self._damaged(f"what follows is not a whole batch, at byte {end}")
        except RecordsError as error:
            self._damaged(error)
        self._first.tail_bytes = self._first.log_bytes - end
        if any(share.transactional_batches for share in self._shares.values()):
            self._count_aborted()
        for stretch in sample.stretches:
            self._measure(self._shares[stretch.key], stretch)
        return list(self._shares.values()) or [self._first]

    def _verify(self, checksums: Checksums, header: BatchHeader) -> None:
        """Reports a checksum that does not match. Reading continues after the batch."""
        try:
            checksums.verify(header)
        except CorruptRecordsError as error:
            self._damaged(error)

    def _share(self, header: BatchHeader) -> Share:
        key = header.magic, header.codec
        if key not in self._shares:
            first = self._first
            share = first
            if self._shares:
                share = Share(first.topic, first.partition, first.segment)
            share.magic, share.codec = header.magic, header.codec.name.lower()
            self._shares[key] = share
        return self._shares[key]

    def _count(self, share: Share, header: BatchHeader) -> None:
        share.batches += 1
        share.bytes += header.size
        if header.is_control:
            share.control_batches += 1
            share.control_bytes += header.size
            return
        if header.records_count is not None:
            share.records += max(0, min(header.records_count, header.last_offset + 1 - self._start))
        elif header.codec is Codec.NONE:
            share.records += 1
        else:
            share.uncounted_bytes += header.size
        if header.is_transactional:
            share.transactional_batches += 1
        if header.max_timestamp != NO_TIMESTAMP:
            time = header.max_timestamp
            share.oldest = time if share.oldest is None else min(share.oldest, time)
            share.newest = time if share.newest is None else max(share.newest, time)

    def _follow(self, header: BatchHeader) -> None:
        """Counts missing offsets: compacted or lost."""
        first = self._first
        if not 0 <= header.base_offset - first.segment < OFFSETS_MAX:
            self._damaged(f"offset {header.base_offset}, not of it, at byte {header.position}")
            return
        says_its_first = header.magic == V2 or header.codec is Codec.NONE
        if first.next_offset is None:
            first.first_offset = header.base_offset if says_its_first else None
        elif says_its_first and header.base_offset > first.next_offset:
            first.gaps += 1
            first.missing_offsets += header.base_offset - first.next_offset
        elif says_its_first and header.base_offset < first.next_offset:
            self._damaged(f"offsets go back to {header.base_offset}, at byte {header.position}")
        if header.records_count is not None and not header.is_control:
            within = header.last_offset_delta + 1 - header.records_count
            first.gaps += within > 0
            first.missing_offsets += max(0, within)
        first.next_offset = header.last_offset + 1

    def _damaged(self, what: object) -> None:
        damage = f"{self._records.name}: {what}"
        if len(self._first.damages) < DAMAGES_MAX and damage not in self._first.damages:
            self._first.damages.append(damage)

    def _count_aborted(self) -> None:
        first = self._first
        try:
            aborted = self._log.aborted(first.segment, first.next_offset or first.segment)
            ranges = AbortedRanges(aborted)
            for header in self._records.batches():
                is_there = header.last_offset >= self._start and not header.is_control
                if is_there and ranges.cover(header):
                    share = self._share(header)
                    share.aborted_batches += 1
                    share.aborted_records += max(0, header.records_count or 0)
        except (RecordsError, OSError) as error:
            self._damaged(error)

    def _measure(self, share: Share, stretch: Stretch) -> None:
        """Reads and converts a stretch. A damaged one is left out of the sample."""
        piece = self._records.slice(stretch.start, stretch.end - stretch.start)
        try:
            records, payload, with_headers = _read(piece)
            costs = [_cost(piece, to_magic) for to_magic in (V1, V0)]
        except RecordTooLargeError:  # the stretch is valid; such records are too rare to matter
            return
        except RecordsError as error:
            self._damaged(error)
            return
        share.sampled_bytes += piece.size - stretch.marker_bytes
        share.sampled_records += records
        share.sampled_payload += payload
        share.sampled_with_headers += with_headers
        for total, cost in zip((share.v1, share.v0), costs, strict=True):
            total.cpu_seconds += cost.cpu_seconds
            total.bytes_out += cost.bytes_out
            total.buffers = max(total.buffers, cost.buffers)
            total.temporary = max(total.temporary, cost.temporary)


def _read(piece: FileRecords) -> tuple[int, int, int]:
    """The number of records, the bytes of their contents, and the number of records with headers.
    Verifies checksums."""
    count = payload = with_headers = 0
    for record in read(piece, record_size_max=SAMPLED_RECORD_MAX):
        count += 1
        payload += len(record.key or b"") + len(record.value or b"")
        if record.headers:
            with_headers += 1
            payload += sum(len(key) + len(value or b"") for key, value in record.headers)
    return count, payload, with_headers


def _cost(piece: FileRecords, to_magic: int) -> Cost:
    started = thread_time()
    pieces = convert(piece, to_magic)
    for _ in pieces:
        pass
    spent, stats = thread_time() - started, pieces.stats
    return Cost(spent, stats.bytes_out, stats.peak_buffer_bytes, stats.temporary_bytes)
