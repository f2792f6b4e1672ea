"""Which stretches of a log are read for their records: without control batches and aborted data.

Neighbouring batches are read as one, since a reader has buffers to prepare."""

from collections.abc import Iterator
from typing import Final

from records import BatchHeader, CorruptRecordsError, FileRecords

from .transactions import AbortedRanges

# Records come before the headers of all batches have been read.
RUN_SIZE_MAX: Final = 1024 * 1024  # bytes


def runs_of(
    batches: Iterator[tuple[FileRecords, BatchHeader]], end: int, aborted: AbortedRanges
) -> Iterator[FileRecords]:
    """Ranges of neighbouring batches that are to be read."""
    source: FileRecords | None = None
    start = stop = 0  # of the run, as positions in the source
    damage: CorruptRecordsError | None = None
    while True:
        try:
            records, header = next(batches)
        except StopIteration:
            break
        except CorruptRecordsError as error:  # what is good before it comes first
            damage = error
            break
        if header.base_offset >= end:
            break
        if header.is_control or aborted.cover(header):
            continue
        if source is records and header.position == stop and stop - start < RUN_SIZE_MAX:
            stop += header.size
            continue
        if source is not None:
            yield source.slice(start, stop - start)
        source, start, stop = records, header.position, header.position + header.size
    if source is not None:
        yield source.slice(start, stop - start)
    if damage is not None:
        raise damage
