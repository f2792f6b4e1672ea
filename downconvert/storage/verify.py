"""Checks that the indexes of a segment fit its log, by comparing each entry with the batches.

Kafka's own tool expects that the batch at an entry's position ends with the entry's offset, as
written since 3.9. Here entries of all versions (offset_index.py) are valid if lookups miss nothing:
a batch begins at the position, and all earlier ones are below the offset. In a time index, no
record before an entry's batch may be younger than the entry.

Not here: repairing (recovery.py), the entries themselves (dump.py)."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from records import BatchHeader, FileRecords
from records.formats import V0, V2

from .errors import StorageError
from .indexes.offset_index import OffsetIndex
from .indexes.time_index import TimeIndex
from .indexes.transaction_index import read_transactions
from .names import Kind, file_name


@dataclass(frozen=True, slots=True)
class Problem:
    """An index entry that would mislead readers."""

    path: Path
    reason: str

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}"


def verify_indexes(directory: Path, base_offset: int) -> Iterator[Problem]:
    """Checks the indexes beside a log. CorruptRecordsError: the log itself is damaged."""
    with FileRecords.open(directory / file_name(base_offset, Kind.LOG)) as records:
        headers = list(records.batches())
        for kind, verify in (
            (Kind.OFFSET_INDEX, _offset_problems),
            (Kind.TIME_INDEX, _time_problems),
            (Kind.TRANSACTION_INDEX, _transaction_problems),
        ):
            path = directory / file_name(base_offset, kind)
            if not path.exists():
                continue
            try:
                for reason in verify(path, base_offset, headers):
                    yield Problem(path, reason)
            except StorageError as error:
                yield Problem(path, getattr(error, "reason", str(error)))


def _offset_problems(path: Path, base_offset: int, headers: list[BatchHeader]) -> Iterator[str]:
    index = OffsetIndex.open(path, base_offset)
    try:
        index.check()
        left = iter(headers)
        header = next(left, None)
        # The highest offset before the batch, and the offset in the previous entry.
        below = before = base_offset - 1
        position = -1
        for slot in range(len(index)):
            offset, at = index.entry(slot)
            where = f"entry {slot} (offset {offset}, position {at})"
            if (offset <= before and slot) or at < position:
                yield f"{where} does not rise"
                return
            before, position = offset, at
            while header is not None and header.position < at:
                below = max(below, header.last_offset)
                header = next(left, None)
            if header is None or header.position != at:
                yield f"{where}: no batch begins there"
            elif below >= offset or (header.magic == V2 and header.base_offset > offset):
                yield f"{where}: the batch there begins with offset {header.base_offset}"
    finally:
        index.close()


def _time_problems(path: Path, base_offset: int, headers: list[BatchHeader]) -> Iterator[str]:
    index = TimeIndex.open(path, base_offset)
    try:
        index.check()
        left = iter(headers)
        header = next(left, None)
        youngest = -1  # the highest timestamp before the batch
        previous = (-1, base_offset)
        for slot in range(len(index)):
            timestamp, offset = index.entry(slot)
            where = f"entry {slot} (timestamp {timestamp}, offset {offset})"
            if timestamp <= previous[0] or offset < previous[1]:
                yield f"{where} does not rise"
                return
            previous = timestamp, offset
            while header is not None and header.last_offset < offset:
                youngest = max(youngest, header.max_timestamp)
                header = next(left, None)
            if header is None:
                yield f"{where}: the log ends before that offset"
                return
            if youngest > timestamp:
                yield f"{where}: a record before it has timestamp {youngest}"
            # Messages of v0 have no timestamps, though their broker may have known some.
            elif header.magic > V0 and header.max_timestamp < timestamp:
                yield f"{where}: the batch there has {header.max_timestamp} at most"
    finally:
        index.close()


def _transaction_problems(
    path: Path, base_offset: int, headers: list[BatchHeader]
) -> Iterator[str]:
    markers = {header.last_offset: header for header in headers if header.is_control}
    for entry in read_transactions(path, base_offset):
        where = f"transaction of producer {entry.producer_id}, offsets {entry.first_offset} to"
        header = markers.get(entry.last_offset)
        if entry.first_offset > entry.last_offset:
            yield f"{where} {entry.last_offset} goes backwards"
        elif header is None or header.producer_id != entry.producer_id:
            yield f"{where} {entry.last_offset}: no marker of that producer is there"
