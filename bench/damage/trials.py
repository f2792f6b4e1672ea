"""Reads, converts and sends a damaged segment, and checks the results.

Each trial returns an outcome: the output, and the error. Two kernels agree if their outcomes are
equal. The only allowed error is a RecordsError. Too many reads mean an endless loop. A read beyond
the end of the source is an over-read."""

import struct
from collections.abc import Callable, Iterator
from typing import Any, Final, Self, TypeAlias
from zlib import crc32

from downconvert import ConversionPolicy, LazyDownConvertRecords, convert
from records import MemoryRecords, backend
from records.batch import BatchHeader
from records.batches.columns import Columns
from records.batches.reader import read, read_batch
from records.codecs import decompress
from records.errors import RecordsError
from records.files.source import read_headers
from records.formats import MAGIC_AT, MESSAGE_OVERHEAD, V2

from .mutants import Mutant

Outcome: TypeAlias = tuple[Any, ...]  # error or None, size and CRC-32 of the output, and more

STEPS_MAX: Final = 20_000  # far more than the few hundred bytes of a mutant need
GUARD_SIZE: Final = 64
INT64: Final = (-(2**63), 2**63 - 1)
INSIDE_MAX: Final = 2**24  # bytes


class CirclesError(AssertionError):
    """No progress, or a read outside of the data."""


class StepCount:
    """Counts steps, and stops an endless loop."""

    def __init__(self) -> None:
        self._taken = 0

    def take(self) -> None:
        self._taken += 1
        if self._taken > STEPS_MAX:
            raise CirclesError(f"{self._taken} steps")


class Watched:
    """Records in memory, between guard bytes. All reads of them are checked."""

    def __init__(self, records: MemoryRecords, steps: StepCount) -> None:
        self._records = records
        self._steps = steps

    @classmethod
    def among(cls, guard: int, data: bytes) -> Self:
        around = bytes([guard]) * GUARD_SIZE
        records = MemoryRecords(around + data + around)
        return cls(records.slice(GUARD_SIZE, len(data)), StepCount())

    @property
    def view(self) -> None:
        return None  # so that all access is by `read_into`

    @property
    def size(self) -> int:
        return self._records.size

    @property
    def origin(self) -> int:
        return self._records.origin

    @property
    def name(self) -> str:
        return "watched"

    def read_into(self, target: memoryview, position: int) -> int:
        self._steps.take()
        if not 0 <= position <= self.size:
            raise CirclesError(f"a read at {position} of {self.size} bytes")
        return self._records.read_into(target, position)

    def batches(self) -> Iterator[BatchHeader]:
        return read_headers(self)

    def slice(self, position: int, size: int) -> "Watched":
        return Watched(self._records.slice(position, size), self._steps)


class Sum:
    """A channel that accepts everything, keeps it with a checksum, and counts steps."""

    def __init__(self) -> None:
        self.data = bytearray()
        self.size = self.crc = 0
        self.steps = StepCount()

    def write(self, data: bytes | memoryview) -> int:
        self.steps.take()
        self.data += data
        self.size += len(data)
        self.crc = crc32(data, self.crc)
        return len(data)


def read_all(mutant: Mutant, guard: int) -> Outcome:
    """Reads all records, with and without verifying checksums."""
    total = Sum()

    def work() -> None:
        verify = mutant.number % 2 == 0
        for record in read(Watched.among(guard, mutant.data), verify=verify):
            total.write(repr(record).encode())

    return _outcome(total, work)


def how(mutant: Mutant) -> tuple[int, int, ConversionPolicy]:
    return mutant.to_magic, mutant.first_offset, mutant.policy


def convert_all(mutant: Mutant, guard: int, total: Sum | None = None) -> Outcome:
    """Converts everything."""
    total = total or Sum()

    def work() -> None:
        records = Watched.among(guard, mutant.data)
        for piece in convert(records, *how(mutant), aborted=mutant.aborted):
            total.write(piece)

    return _outcome(total, work)


def send_all(mutant: Mutant, guard: int, total: Sum | None = None) -> Outcome:
    """Sends everything: as many bytes as promised, unless an estimate meets damage."""
    total = total or Sum()
    promised = -1

    def work() -> None:
        nonlocal promised
        records = Watched.among(guard, mutant.data)
        lazy = LazyDownConvertRecords(records, *how(mutant), aborted=mutant.aborted)
        promised = lazy.size
        send = lazy.to_send()
        while not send.completed:
            total.steps.take()
            send.write_to(total)

    outcome = _outcome(total, work)
    is_whole = outcome[0] is None
    if promised >= 0 and is_whole != (total.size == promised):
        raise AssertionError(f"{total.size} bytes were sent, {promised} promised")
    if promised >= 0 and mutant.policy.size == "exact" and not is_whole:
        raise AssertionError(f"an exact send fails: {outcome[0]}")
    return (*outcome, promised)


def what_is_inside(mutant: Mutant, guard: int) -> tuple[Any, ...]:
    """Converts and sends, comparing the contents of compressed messages, because compressors
    differ.

    The sent bytes begin like the converted ones. Their end depends on the ratio of compression."""
    whole, part = Sum(), Sum()
    error, *_ = convert_all(mutant, guard, whole)
    send_all(mutant, guard, part)
    converted, sent = list(_inside(whole.data)), list(_inside(part.data))
    if sent != converted[: len(sent)]:
        raise AssertionError(f"sent: {sent}\nof: {converted}")
    return error, converted


def _inside(data: bytes | bytearray) -> Iterator[tuple[bytes, ...]]:
    """The whole entries: their bytes. For a compressed message, its head without sizes and
    checksum, and the decompressed bytes."""
    try:
        for header in MemoryRecords(bytes(data)).batches():
            entry = bytes(data[header.position : header.position + header.size])
            yield (entry,) if header.magic >= V2 or not header.codec else _opened(entry, header)
    except RecordsError:  # the entry is cut off, or is filler
        pass


def _opened(entry: bytes, header: BatchHeader) -> tuple[bytes, ...]:
    start = MESSAGE_OVERHEAD[header.magic]
    try:
        inner = decompress(header.codec, entry[start:], limit=INSIDE_MAX, magic=header.magic)
    except (RecordsError, struct.error):  # damaged in the log, and sent unchanged
        return (entry,)
    if inner is None:
        return (entry,)
    offset, fields = entry[:8], entry[MAGIC_AT : start - 4]
    return offset, fields, bytes(inner)


def gather_all(mutant: Mutant, guard: int) -> Outcome:
    """All records as Arrow columns. The kernel adds ordinary entries at once. Others are added
    record by record."""
    total = Sum()

    def work() -> None:
        verify = mutant.number % 2 == 0
        source = Watched.among(guard, mutant.data)
        around = bytes([guard]) * GUARD_SIZE
        window = around + mutant.data + around
        columns = backend.ArrowColumns(2**20, 2**31 - 1, True, True, True, INT64, INT64)
        position = 0
        try:
            while position < source.size:
                start, end = GUARD_SIZE + position, GUARD_SIZE + source.size
                added, _ = columns.add_entries(window, start, end, verify, True, INSIDE_MAX)
                position += added
                if added:
                    continue
                header = next(read_headers(source, position), None)
                if header is None:
                    break
                if not header.is_control:
                    for record in read_batch(source, header, verify=verify):
                        rows, fields = Columns.of([record]).rows(record.timestamp_type)
                        columns.add_rows(rows, 0, len(rows), fields)
                position += header.size
        finally:
            total.write(repr(_plain(columns.take())).encode())

    return _outcome(total, work)


def _plain(taken: Any) -> Any:
    """All buffers as bytes."""
    if isinstance(taken, tuple):
        return tuple(map(_plain, taken))
    return taken if taken is None or isinstance(taken, int) else bytes(taken)


TRIALS: Final[tuple[Callable[[Mutant, int], Outcome], ...]] = (
    read_all,
    convert_all,
    send_all,
    gather_all,
)


def _outcome(total: Sum, work: Callable[[], None]) -> Outcome:
    error: tuple[Any, ...] | None = None
    try:
        work()
    except RecordsError as raised:
        reason = getattr(raised, "reason", type(raised).__name__)
        error = (reason, type(raised).__name__, str(raised))
    return (error, total.size, total.crc)
