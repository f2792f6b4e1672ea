"""Writes the batches of a segment in another format, in pieces smaller than a segment.

To v2: old batches are upgraded (downconvert/storage/cleaning/upgrade.py), and v2 batches are copied
unchanged. To v0 and v1: the bytes that a consumer of that format would receive (downconvert).

Not here: files and their names (convert_segment.py)."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final, Literal, TypeAlias

from downconvert import AbortedTransaction as Aborted
from downconvert import ConversionPolicy, convert
from downconvert.spark.read.checksums import Checksums
from downconvert.storage import AbortedTransaction
from downconvert.storage.cleaning.upgrade import UpgradeCount, upgrade_batches
from downconvert.storage.producers.transactions import AbortedRanges
from downconvert.storage.segments.rising import in_order
from records import BatchHeader, CorruptRecordsError, FileRecords
from records.files.source import TRUNCATED
from records.formats import V2
from records.units import MiB

COPY_SIZE: Final = MiB  # bytes of one copy step

# The largest record that a task holds. Reading, rebuilding and comparing it takes about six times
# as much memory. Larger ones are streamed if possible.
RECORD_SIZE_MAX: Final = 16 * MiB

POLICY: Final = ConversionPolicy(chunk_size=128 * 1024)  # larger chunks are a third faster

Write: TypeAlias = Callable[[bytes | memoryview], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The target format of a conversion, and its limits.

    isolation: "read_committed" leaves out aborted records, which readers of v0 and v1 cannot
        recognise. v2 keeps all records, and marks the aborted ones.
    record_size_max: larger records of v0 and v1 are not upgraded."""

    to_magic: int
    policy: ConversionPolicy = POLICY
    isolation: Literal["read_uncommitted", "read_committed"] = "read_uncommitted"
    record_size_max: int = RECORD_SIZE_MAX

    def __post_init__(self) -> None:
        if self.to_magic not in (0, 1, 2):
            raise ValueError(f"to_magic must be 0, 1 or 2, not {self.to_magic}")

    def __str__(self) -> str:
        """Everything that determines the resulting bytes."""
        if self.to_magic == V2:
            return "v2"
        policy = self.policy
        recode = ",".join(f"{codec}:{into}" for codec, into in sorted(policy.recode.items()))
        return (
            f"v{self.to_magic} {self.isolation} recode={recode} "
            f"compression_level={policy.compression_level} "
            f"wrapper_size_max={policy.wrapper_size_max} split_at_gaps={policy.split_at_gaps}"
        )


@dataclass(slots=True)
class Rewritten:
    """Counts of records and batches that were read or left out."""

    batches: int = 0
    records_converted: int = 0
    control_batches: int = 0
    aborted_batches: int = 0
    is_copy: bool = False  # no batch had to be converted


def rewrite(
    source: FileRecords,
    write: Write,
    settings: Settings,
    aborted: list[AbortedTransaction],
    base_offset: int,
    next_offset: int,
) -> Rewritten:
    """Writes the content of `source` as `settings` say. `aborted`: its aborted transactions.
    `base_offset`, `next_offset`: of the segment and of the next one (OFFSET_MAX: there is none).

    CorruptRecordsError: damage, a batch with a wrong offset, or bytes after the last complete
    batch. UnsupportedCodecError: the policy refuses a codec. RecordTooLargeError: a record would
    not fit in memory."""
    found = Rewritten()
    headers = in_order(source.batches(), base_offset, next_offset)
    runs = _runs(source, headers, found, AbortedRanges(aborted))
    if settings.to_magic == V2:
        count = UpgradeCount()
        for is_old, run in runs:
            if is_old:
                limit = settings.record_size_max
                for data in upgrade_batches(run, count, record_size_max=limit):
                    write(data)
            else:
                _copy(run, write)
        found.records_converted = count.records_converted
        found.is_copy = not count.batches_converted
        return found
    for _ in runs:  # verifies all checksums and offsets before anything is written
        pass
    policy = replace(settings.policy, isolation=settings.isolation)
    left_out = aborted if settings.isolation == "read_committed" else []
    transactions = [
        Aborted(each.producer_id, each.first_offset, each.last_offset) for each in left_out
    ]
    pieces = convert(source, settings.to_magic, 0, policy, aborted=transactions)
    for piece in pieces:
        write(piece)
    found.records_converted = pieces.stats.records_converted
    return found


def _runs(
    source: FileRecords,
    headers: Iterable[BatchHeader],
    found: Rewritten,
    aborted: AbortedRanges,
) -> Iterator[tuple[bool, FileRecords]]:
    """Runs of old batches (True) and of v2 batches, with verified checksums. Counts them in
    `found`."""
    start = end = 0
    was_old = False
    checksums = Checksums(source)
    for header in headers:
        checksums.verify(header)
        found.batches += 1
        found.control_batches += header.is_control
        found.aborted_batches += not header.is_control and aborted.cover(header)
        is_old = header.magic < V2
        if is_old != was_old and end > start:
            yield was_old, source.slice(start, end - start)
            start = end
        was_old, end = is_old, header.position + header.size
    if end > start:
        yield was_old, source.slice(start, end - start)
    if end < source.size:
        raise CorruptRecordsError("what follows is not a whole batch", source.origin + end)


def _copy(source: FileRecords, write: Write) -> None:
    buffer = memoryview(bytearray(min(COPY_SIZE, source.size)))
    position = 0
    while position < source.size:
        read = source.read_into(buffer[: source.size - position], position)
        if not read:
            raise CorruptRecordsError(TRUNCATED, source.origin + position)
        write(buffer[:read])
        position += read
