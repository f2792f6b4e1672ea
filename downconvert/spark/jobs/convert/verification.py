"""Verifies that a converted segment has the records of its source: reads and compares both.

Records are compared one by one, through the reader. It shares no code with the converter, except
the kernel's parser. For records too large to hold, streams are compared: source and result are both
converted to uncompressed messages, piece by piece, and the bytes must be equal.

Not here: converting (convert_segment.py)."""

import hashlib
from collections.abc import Iterator
from dataclasses import replace
from itertools import zip_longest
from typing import Final, Literal

from downconvert import ConversionPolicy, convert
from downconvert.storage.cleaning.upgrade import upgraded
from downconvert.storage.indexes.transaction_index import AbortedTransaction
from downconvert.storage.producers.runs import runs_of
from downconvert.storage.producers.transactions import AbortedRanges
from records import FileRecords, RecordsError, RecordTooLargeError
from records.batches.reader import Record, read
from records.formats import V0, V1, V2, TimestampType

PLAIN: Final = ConversionPolicy(
    chunk_size=128 * 1024,
    recode=dict.fromkeys(("gzip", "snappy", "lz4", "zstd"), "none"),
)
END: Final = 2**63 - 1
COPY_SIZE: Final = 1024 * 1024  # bytes


class VerificationError(RecordsError):
    """The result differs from its source. It is not put in place."""


def compare(
    source: FileRecords,
    target: FileRecords,
    to_magic: int,
    aborted: list[AbortedTransaction],
    record_size_max: int,
) -> tuple[Literal["records", "stream"], int]:
    """Compares source and target. Returns how they were compared, and the number of records (-1 if
    they were not counted).

    `aborted`: transactions that were left out. VerificationError: they differ."""
    try:
        return "records", _compare_records(source, target, to_magic, aborted, record_size_max)
    except RecordTooLargeError:
        _compare_streams(source, target, min(to_magic, V1), aborted)
        return "stream", -1


def is_copy(source: FileRecords, target: FileRecords) -> bool:
    """Whether both have the same bytes."""
    ours, theirs = (memoryview(bytearray(COPY_SIZE)) for _ in range(2))
    if source.size != target.size:
        return False
    for position in range(0, source.size, COPY_SIZE):
        size = source.read_into(ours, position)
        if size != target.read_into(theirs, position) or ours[:size] != theirs[:size]:
            return False
    return True


def _compare_records(
    source: FileRecords,
    target: FileRecords,
    to_magic: int,
    aborted: list[AbortedTransaction],
    record_size_max: int,
) -> int:
    count = 0
    before = _records(source, aborted, record_size_max)
    after = read(target, record_size_max=record_size_max)
    for expected, found in zip_longest(before, after):
        if expected is None or found is None:
            raise VerificationError(
                f"{target.name} has {'more' if expected is None else 'fewer'} records than "
                f"{source.name}; the first {count} are the same"
            )
        if as_converted(expected, to_magic) != found:
            raise VerificationError(
                f"{target.name}: the record at offset {expected.offset} is not as it was"
            )
        count += 1
    return count


def as_converted(record: Record, to_magic: int) -> Record:
    """A record as it is read from a segment that was converted to `to_magic`."""
    if to_magic == V2:
        return upgraded(record)
    if to_magic == V0:
        none = TimestampType.NONE
        return Record(record.offset, -1, none, record.key, record.value, (), -1)
    if record.headers or record.sequence >= 0:
        return replace(record, headers=(), sequence=-1)
    return record


def _records(
    source: FileRecords, aborted: list[AbortedTransaction], record_size_max: int
) -> Iterator[Record]:
    if not aborted:
        yield from read(source, record_size_max=record_size_max)
        return
    batches = ((source, header) for header in source.batches())
    for run in runs_of(batches, END, AbortedRanges(aborted)):
        yield from read(run, record_size_max=record_size_max)


def _compare_streams(
    source: FileRecords, target: FileRecords, to_magic: int, aborted: list[AbortedTransaction]
) -> None:
    if _stream_digest(source, to_magic, aborted) != _stream_digest(target, to_magic, []):
        raise VerificationError(f"{target.name} does not say what {source.name} says")


def _stream_digest(records: FileRecords, to_magic: int, aborted: list[AbortedTransaction]) -> bytes:
    digest = hashlib.sha256()
    batches = ((records, header) for header in records.batches())
    for run in runs_of(batches, END, AbortedRanges(aborted)):
        for piece in convert(run, to_magic, 0, PLAIN):
            digest.update(piece)
    return digest.digest()
