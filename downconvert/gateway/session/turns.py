"""Cuts a range of records into parts. Each is converted in one turn.

Batches are converted independently, so a range may be cut between any two of them. Each part is
measured, and buffered or sent, by itself. Two kinds of ranges are not cut:

- Ranges from which aborted transactions are removed, because a later marker says where a
  transaction ends.
- Ranges whose size is known without compressing them. They are planned in steps, several of them a
  turn. One send for the whole range takes less memory while a slow client reads, and nothing may
  follow a range that ends before its records do.

Not here: the thread that runs a turn (conversion_pool.py)."""

from collections import deque
from collections.abc import Generator
from contextlib import suppress
from functools import cached_property
from typing import Final, TypeVar

from downconvert import AbortedTransaction, ConversionPolicy, LazyDownConvertRecords
from downconvert.conversion.engine import COMPRESSED_WEIGHT
from downconvert.serving.fetch_assembly import hard_size
from records import FileRecords, MemoryRecords, RecordsError
from records.files.sends import Send
from records.steps import Steps

from .exchanges import TURN, TURN_SIZE, Turn

COMMITTED = "read_committed"
WORK_A_TURN: Final = COMPRESSED_WEIGHT * TURN_SIZE  # work as steps count it
PLANS_MAX: Final = 8  # suspended plans of a process at a time
_places = deque(range(PLANS_MAX))  # free places; lock-free, as garbage collection may return one

Found = TypeVar("Found")


def in_turns(steps: Steps[Found]) -> Generator[Turn, None, Found]:
    """Runs steps, a turn's work in each turn. Returns their result, or raises their error.

    Suspended steps hold buffers between two turns: some hundred KiB, or MiB for zstd. So only a few
    may be suspended, and all others run to their end in one turn."""
    yield TURN
    work, place = 0, None
    try:
        while True:
            try:
                work += next(steps)
            except StopIteration as end:
                found: Found = end.value
                return found
            if work >= WORK_A_TURN:
                work = 0
                if place is None:
                    with suppress(IndexError):  # another thread was faster
                        place = _places.pop()
                if place is not None:
                    yield TURN
    finally:
        steps.close()
        if place is not None:
            _places.append(place)


class Parts:
    """The whole batches of a range, cut into parts of about TURN_SIZE bytes.

    Their headers are read at the first access. RecordsError: the first batch is damaged."""

    def __init__(self, records: FileRecords | MemoryRecords, offset: int) -> None:
        self.records = records
        self._offset = offset

    @property
    def following(self) -> int:
        """The offset after the last whole batch, or the range's first offset if there is none."""
        return self.scanned[0]

    @property
    def damage(self) -> RecordsError | None:
        """The damage that ends the whole batches before the range does. None: there is none."""
        return self.scanned[1]

    @property
    def is_compressed(self) -> bool:
        """Whether any batch is compressed."""
        return self.scanned[2]

    def cut(self, *, whole: bool = False) -> list[FileRecords | MemoryRecords]:
        """The parts, in their order. `whole`: all in one."""
        if whole and self.scanned[3]:
            position, size = self.scanned[3][-1]
            return [self.records.slice(0, position + size)]
        return [self.records.slice(position, size) for position, size in self.scanned[3]]

    @cached_property
    def scanned(self) -> tuple[int, RecordsError | None, bool, list[tuple[int, int]]]:
        following, damage, is_compressed = self._offset, None, False
        parts: list[tuple[int, int]] = []  # position and size
        start = end = 0
        try:
            for header in self.records.batches():
                if end > start and end + header.size - start > TURN_SIZE:
                    parts.append((start, end - start))
                    start = end
                end = header.position + header.size
                is_compressed |= bool(header.codec)
                following = max(following, header.last_offset + 1)
        except RecordsError as error:
            if not end:
                raise
            damage = error.with_traceback(None)
        if end > start:
            parts.append((start, end - start))
        return following, damage, is_compressed, parts


class Converted:
    """A range that is converted for a client of an older format. `is_first`: whether the range is
    the first in the partition's response."""

    def __init__(self, *, is_first: bool = True) -> None:
        self.sends: list[Send] = []
        self._is_first = is_first
        self.is_whole = True  # whether the sends have the whole range; if not, nothing may follow

    def convert(
        self,
        parts: Parts,
        magic: int,
        offset: int,
        policy: ConversionPolicy,
        aborted: list[AbortedTransaction],
        limit: int | None = None,
    ) -> Generator[Turn, None, None]:
        """Measures in turns. `limit`: a hard limit of bytes, but a first message is sent whole.

        RecordsError: damage or a refusal comes before the first good record."""
        is_planned = policy.size == "exact" and (policy.may_end_early or not parts.is_compressed)
        # A plan finds the last whole batch itself, so no headers are read before it.
        cut = [parts.records] if is_planned else parts.cut(whole=policy.isolation == COMMITTED)
        for part in cut:
            try:
                range_of = part, magic, offset, policy
                if is_planned:
                    steps = LazyDownConvertRecords.in_steps(*range_of, aborted=aborted)
                    found = yield from in_turns(steps)
                else:
                    yield TURN
                    found = LazyDownConvertRecords(*range_of, aborted=aborted)
            except RecordsError:
                if not self.sends:
                    raise
                self.is_whole = False
                return
            size = found.size
            if limit is not None:
                is_first = self._is_first and not self.sends
                first = hard_size(size, limit, found.head) if is_first else None
                size = first or min(size, max(limit, 0))
                limit -= size
            is_cut = size < found.size
            if size:
                self.sends.append(found.to_send(size))
            if is_cut or not found.is_whole:
                self.is_whole = False
                return
        self.is_whole = is_planned or parts.damage is None
