"""One segment after a crash: the good part of its log, and its rebuilt indexes.

The good part is Kafka's: whole entries of a known format, one after the other, whose checksums
match. Records inside are not read, and offsets are not compared with one another.

Not here: choosing the segments to recover, and the segments after a cut (recovery.py)."""

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass

from downconvert.storage.config import LogConfig
from downconvert.storage.disk.files import Files
from downconvert.storage.errors import OffsetOverflowError
from downconvert.storage.indexes.index_builder import new_indexes
from downconvert.storage.indexes.offset_index import RELATIVE_MAX
from downconvert.storage.indexes.transaction_index import AbortedTransaction, TransactionIndex
from downconvert.storage.names import Kind
from records import BatchHeader, CorruptRecordsError, FileRecords
from records.checksum import verify_checksum

from .segment import Segment


@dataclass(frozen=True, slots=True)
class SegmentReport:
    """The good part of a segment."""

    base_offset: int
    size: int  # bytes of the log file
    good_size: int
    batches: int
    next_offset: int
    damage: CorruptRecordsError | None  # None if all is good, or the last batch is incomplete

    @property
    def bytes_cut(self) -> int:
        return self.size - self.good_size


def check_segment(segment: Segment) -> SegmentReport:
    """Reads all of a segment. Nothing is changed.

    OffsetOverflowError: valid batches have offsets that do not fit this segment. Truncating would
    lose them."""
    records = segment.slice(0, segment.size)
    good_size = batches = 0
    next_offset = segment.base_offset
    damage = None
    try:
        for header in records.batches():
            verify_checksum(records, header)
            if not 0 <= header.last_offset - segment.base_offset <= RELATIVE_MAX:
                path = str(segment.path())
                raise OffsetOverflowError(header.last_offset, segment.base_offset, path)
            good_size = header.position + header.size
            next_offset = header.last_offset + 1
            batches += 1
    except CorruptRecordsError as error:
        damage = error
    return SegmentReport(segment.base_offset, records.size, good_size, batches, next_offset, damage)


def rebuild_segment(
    segment: Segment,
    report: SegmentReport,
    config: LogConfig,
    files: Files,
    follow: Callable[[FileRecords, BatchHeader], AbortedTransaction | None],
) -> None:
    """Cuts the log to its good part, and rewrites its indexes. Returns when everything is synced.

    `follow` is called with each batch, and returns the transaction that it aborts."""
    segment.release()
    base_offset = segment.base_offset
    with ExitStack() as opened:
        log = files.open(segment.path())
        opened.callback(log.close)
        if report.bytes_cut:
            log.truncate(report.good_size)
        log.sync()  # the bytes read may only be in memory
        for kind in (Kind.OFFSET_INDEX, Kind.TIME_INDEX, Kind.TRANSACTION_INDEX):
            files.remove(segment.path(kind))
        transactions = TransactionIndex(segment.path(Kind.TRANSACTION_INDEX), base_offset, files)
        opened.callback(transactions.close)
        records = segment.slice(0, report.good_size)
        with new_indexes(segment.path, base_offset, files, config) as builder:
            for header in records.batches():
                builder.add(header, header.position)
                aborted = follow(records, header)
                if aborted is not None and aborted.last_offset > transactions.end:
                    transactions.append(aborted)
        transactions.sync()
    segment.release()
