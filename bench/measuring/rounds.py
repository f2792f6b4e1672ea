"""The figures of one round of converting a segment, and cutting a segment into fetches.

Every contender converts the same fetches, and reports the same figures."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TypeAlias

from records import FileRecords

Fetch: TypeAlias = tuple[int, int, int]  # position, size, offset of its first record


@dataclass(frozen=True, slots=True)
class Round:
    """One conversion of all fetches. Seconds are of the wall clock.

    `records`: the number of converted ones. Fewer may have been sent, because the last chunk is cut
    at the promised size. `cpu_seconds`: of the whole process. `crc`: of all sent bytes; 0 without a
    check. `first_byte`: seconds until a fetch sends its first byte, on average; 0: not measured."""

    records: int
    size: int
    seconds: float
    cpu_seconds: float
    crc: int = 0
    first_byte: float = 0.0

    @property
    def rate(self) -> float:
        """Records a second."""
        return self.records / self.seconds


def best(rounds: Sequence[Round]) -> float:
    return max(each.rate for each in rounds)


def middle(rounds: Sequence[Round]) -> float:
    return median(each.rate for each in rounds)


def paired(ours: Sequence[Round], theirs: Sequence[Round]) -> float:
    """The median of the ratios of consecutive rounds. This cancels out noise that lasts."""
    return median(a.rate / b.rate for a, b in zip(ours, theirs, strict=True))


def fetches(segment: Path, fetch_size: int) -> list[Fetch]:
    """Ranges of whole batches: at most `fetch_size` bytes, but at least one batch."""
    found: list[Fetch] = []
    with FileRecords.open(segment) as log:
        start = end = offset = 0
        for batch in log.batches():
            if end > start and batch.position + batch.size - start > fetch_size:
                found.append((start, end - start, offset))
                start = end
            if start == end:
                offset = batch.base_offset
            end = batch.position + batch.size
        if end > start:
            found.append((start, end - start, offset))
    return found


def records_in(segment: Path) -> int:
    """Records of all batches of v2."""
    with FileRecords.open(segment) as log:
        return sum(batch.records_count or 0 for batch in log.batches())


@contextmanager
def one_core() -> Iterator[None]:
    """Pins this process, and those that it starts, to one of its cores, if the system supports
    it."""
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(cores)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, cores)
