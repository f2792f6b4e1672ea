"""What happens to a damaged segment in a reader, a converter and a send, and what may not.

Each trial returns an outcome: what came out, and with which error. Two kernels have done the same
where their outcomes are. The only error that may come out is a RecordsError. A source that is read
too often, or beyond its end, means that something goes round in circles or astray."""

from collections.abc import Callable, Iterator
from typing import Any, Final, Self, TypeAlias
from zlib import crc32

from downconvert import ConversionPolicy, LazyDownConvertRecords, convert
from records import MemoryRecords
from records.batch import BatchHeader
from records.errors import RecordsError
from records.reader import read
from records.source import walk

from .mutants import Mutant

Outcome: TypeAlias = tuple[Any, ...]  # error or None, size and CRC-32 of what came out, and more

STEPS_MAX: Final = 20_000  # far more than the few hundred bytes of a mutant need
GUARD_SIZE: Final = 64


class CirclesError(AssertionError):
    """Something makes no progress, or looks where nothing is."""


class Steps:
    """Counts, and stops what goes round in circles."""

    def __init__(self) -> None:
        self._taken = 0

    def take(self) -> None:
        self._taken += 1
        if self._taken > STEPS_MAX:
            raise CirclesError(f"{self._taken} steps")


class Watched:
    """Records in memory, among bytes that are not theirs. What is read of them is watched."""

    def __init__(self, records: MemoryRecords, steps: Steps) -> None:
        self._records = records
        self._steps = steps

    @classmethod
    def among(cls, guard: int, data: bytes) -> Self:
        around = bytes([guard]) * GUARD_SIZE
        records = MemoryRecords(around + data + around)
        return cls(records.slice(GUARD_SIZE, len(data)), Steps())

    @property
    def view(self) -> None:
        return None  # so that they are read

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
        return walk(self)

    def slice(self, position: int, size: int) -> "Watched":
        return Watched(self._records.slice(position, size), self._steps)


class Sum:
    """A channel that takes everything and keeps a checksum; and its steps, counted."""

    def __init__(self) -> None:
        self.size = self.crc = 0
        self.steps = Steps()

    def write(self, data: bytes | memoryview) -> int:
        self.steps.take()
        self.size += len(data)
        self.crc = crc32(data, self.crc)
        return len(data)


def read_all(mutant: Mutant, guard: int) -> Outcome:
    """All records, with checksums verified or not."""
    total = Sum()

    def work() -> None:
        verify = mutant.number % 2 == 0
        for record in read(Watched.among(guard, mutant.data), verify=verify):
            total.write(repr(record).encode())

    return _outcome(total, work)


def how(mutant: Mutant) -> tuple[int, int, ConversionPolicy]:
    return mutant.to_magic, mutant.first_offset, mutant.policy


def convert_all(mutant: Mutant, guard: int) -> Outcome:
    """Every converted byte."""
    total = Sum()

    def work() -> None:
        records = Watched.among(guard, mutant.data)
        for piece in convert(records, *how(mutant), aborted=mutant.aborted):
            total.write(piece)

    return _outcome(total, work)


def send_all(mutant: Mutant, guard: int) -> Outcome:
    """A send: as many bytes as it promised, unless an estimate meets damage."""
    total = Sum()
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


TRIALS: Final[tuple[Callable[[Mutant, int], Outcome], ...]] = (read_all, convert_all, send_all)


def _outcome(total: Sum, work: Callable[[], None]) -> Outcome:
    error: tuple[Any, ...] | None = None
    try:
        work()
    except RecordsError as raised:
        reason = getattr(raised, "reason", type(raised).__name__)
        error = (reason, type(raised).__name__, str(raised))
    return (error, total.size, total.crc)
