"""What was just converted, kept for whoever asks for it next.

A thousand old consumers at the tail of a topic ask for the same bytes. Those are converted once, a
chunk of some batches at a time, and sent to all of them from the same memory.

What is kept belongs to the open file of a segment, and is found by where it begins in it. A log
opens a file anew when its bytes may have changed (truncated, cleaned, made again under the same
name), and what was kept of it before is not found from then on. What is kept for the next clients
and what is held for those that are slow share one budget. Where it is used up, what was asked for
least recently is evicted.

Chunks are kept from the second client on that asks for them, and at the tail of a log at once: one
consumer that reads a whole log by itself fills no memory with what nobody asks for again. And they
are kept only while clients come back to them before they have asked for as much else as there is
room for: consumers all over a large topic fill no memory either.

Not here: a chunk (converted_chunk.py), of which of them an answer is made (shared_range.py)."""

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import replace
from functools import lru_cache
from io import FileIO
from threading import Lock
from typing import Final, NamedTuple, TypeVar
from weakref import WeakKeyDictionary

from downconvert import ConversionPolicy
from records import BatchHeader, FileRecords, RecordsError
from records.formats import V2
from records.units import KiB

from .buffered_send import Keeping, MemoryBudget, NoMemoryError
from .chunk_budget import LARGE, SMALL
from .conversions_under_way import ConversionsUnderWay
from .converted_chunk import WHOLE, Chunk, Converting, Key, Place
from .planning_slots import Wake

K = TypeVar("K")
V = TypeVar("V")

ENTRY_OVERHEAD: Final = KiB  # bytes that the bookkeeping of a chunk takes, generously
ASKED_MAX: Final = 4096  # places of which it is remembered who asked for them
SCAN_MAX: Final = 64  # chunks looked at to find one that can be evicted
# Chunks evicted before anybody else had asked for them, more than were shared.
WASTED_MAX: Final = 64
# Plain records are converted in less time than they are sent in, so that keeping them pays only
# where many come back to them at once, as at a tail: before an eighth of the memory could be used.
PLAIN_REACH: Final = 8

TRIED_OF: Final = 32  # of so many chunks one is kept all the same, to see whether that has changed
NOBODY: Final = -1  # of all clients: it cannot be kept, as it is damaged or too large


class _Asked(NamedTuple):
    """client: that asked first. passed: bytes that all clients had asked for, the last time."""

    client: int
    passed: int


class ConversionCache:
    """The chunks that are kept, in one budget with what is held by sends. Thread-safe.

    hits: chunks that were there when somebody asked. misses: those that were not. evictions: those
    that made room for others."""

    def __init__(self, budget: MemoryBudget) -> None:
        self.budget = budget
        self.hits = self.misses = self.evictions = 0
        self._lock = Lock()
        self._chunks: OrderedDict[Key, Chunk] = OrderedDict()  # the least recently used first
        self._under_way = ConversionsUnderWay()
        self._files: WeakKeyDictionary[FileIO, int] = WeakKeyDictionary()
        self._files_count = 0
        self._asked: OrderedDict[Place, _Asked] = OrderedDict()
        self._passed = 0  # bytes of logs that clients have asked for
        self._shared: OrderedDict[tuple[int, int], None] = OrderedDict()  # files and formats
        self._wasted = 0
        self._refused = 0

    def __len__(self) -> int:
        return len(self._chunks)

    @property
    def under_way(self) -> int:
        """Conversions that take another turn."""
        return len(self._under_way)

    def keeps(self, policy: ConversionPolicy) -> bool:
        """Whether anything that a policy asks for is kept: what has an exact size, and does not
        depend on transactions before it."""
        is_exact = policy.size == "exact" and policy.trim_compressed
        return self.budget.size > 0 and is_exact and policy.isolation == "read_uncommitted"

    def number_of(self, records: FileRecords) -> int:
        """The number of the open file."""
        number = self._files.get(records.file)
        if number is None:
            with self._lock:
                self._files_count += 1
                number = self._files[records.file] = self._files_count
        return number

    # --- what is there

    def find(self, key: Key) -> Chunk | None:
        """A chunk, held for its caller, who releases it."""
        with self._lock:
            chunk = self._chunks.get(key)
            if chunk is None:
                return None
            self._chunks.move_to_end(key)
            chunk.passed = self._passed + chunk.source_size
            self._pass(chunk.source_size)
            self.hits += 1
            self._wasted = max(0, self._wasted - 1)
            if not chunk.was_shared:
                chunk.was_shared = True
                _remember(self._shared, (key.file, key.magic), None)
            chunk.kept.hold()
            return chunk

    def is_shared(self, file: int, magic: int) -> bool:
        """Whether what was kept of a file was asked for again, as of late."""
        return (file, magic) in self._shared

    def is_converting(self, key: Key) -> bool:
        return key in self._under_way

    # --- who has asked

    def may_keep(self, place: Place) -> bool:
        """Whether a place can be kept at all: it is neither damaged nor too large."""
        asked = self._asked.get(place)
        return asked is None or asked.client != NOBODY

    def is_asked_again(self, place: Place, client: int, *, is_plain: bool) -> bool:
        """Whether another client has asked for it a short while ago, by what was asked for
        since."""
        asked = self._asked.get(place)
        if asked is None or asked.client == client:
            return False
        return self._passed - asked.passed <= self._reach(is_plain=is_plain)

    def note_asked(self, places: Iterable[Place], client: int, size: int) -> None:
        """A client asks for so many bytes of a log, which are not kept."""
        with self._lock:
            self.misses += 1
            passed = self._pass(size)
            for place in places:
                asked = self._asked.get(place)
                first = client if asked is None else asked.client
                _remember(self._asked, place, _Asked(first, passed))

    def is_worth_it(self) -> bool:
        """Whether to keep more: not where clients read more of their logs at once than there is
        room for, so that what was kept is evicted before it is asked for."""
        if self._wasted <= WASTED_MAX:
            return True
        self._refused += 1
        return self._refused % TRIED_OF == 0

    # --- what is made

    def convert(
        self,
        key: Key,
        place: Place,
        batches: FileRecords,
        first: BatchHeader,
        work: int,
        client: int,
        wake: Wake,
    ) -> tuple[Chunk | None, int | None]:
        """Converts a chunk of batches, or goes on with that, until `work` is used up. Returns the
        chunk, held for its caller, and what is left of the work; None and 0 or less: it takes
        another turn; None and more: it is not kept, or too many others are under way; None and
        None: another thread has its turn at it, and calls `wake` when that is over, so that the
        caller does something else until then. Where it takes another turn, it stays under way until
        the client `leaves`. OSError: the disk."""
        with self._lock:
            converting = self._under_way.get(key)
            is_made = converting is None and key in self._chunks  # since the caller looked for it
            if converting is None and not is_made:
                self.misses += 1
                if not self._under_way.has_room():
                    return None, work
                converting = Converting(self._keeping(key, batches, first), first)
                self._under_way.add(key, converting)
            if converting is not None:
                self._under_way.wait(client, converting)
        if converting is None:
            return self.find(key), work
        if not converting.begin_turn(wake):
            return None, None
        try:
            if self._under_way.get(key) is not converting:  # somebody else has come to its end
                return self.find(key), work
            return self._turn(key, place, converting, work)
        finally:
            converting.end_turn()

    def _turn(
        self, key: Key, place: Place, converting: Converting, work: int
    ) -> tuple[Chunk | None, int]:
        """As `convert`, for the thread that has the turn."""
        is_over = True
        try:
            left = converting.keeping.run(work)
            is_over = left > 0
            if not is_over:
                return None, left
            return self._keep(key, converting), left
        except (RecordsError, NoMemoryError) as error:
            converting.keeping.close()
            if not isinstance(error, NoMemoryError) or error.is_large:
                with self._lock:
                    _remember(self._asked, place, _Asked(NOBODY, self._passed))
            return None, work
        finally:
            if is_over:
                with self._lock:
                    self._under_way.remove(key, converting)

    def leave(self, client: int) -> None:
        """The client waits for no conversion any more: it has its answer, or is gone."""
        with self._lock:
            self._under_way.leave(client)

    def _keeping(self, key: Key, batches: FileRecords, first: BatchHeader) -> Keeping:
        # In a log whose offsets fall, what is before the first one is left out: nobody who asks for
        # this chunk asks for that. A compressed message of v0 or v1 only says its last offset.
        first_offset = key.first_offset
        if first_offset == WHOLE:
            first_offset = first.base_offset if first.magic == V2 else 0
        return Keeping(
            batches, key.magic, first_offset, key.policy, self.budget, take=self._make_room
        )

    def _keep(self, key: Key, converting: Converting) -> Chunk:
        """RecordsError: it is damaged. NoMemoryError: there is no room."""
        keeping = converting.keeping
        if keeping.damage is not None:
            raise keeping.damage
        if not self._make_room(ENTRY_OVERHEAD):
            raise NoMemoryError(is_large=False)
        kept, size = keeping.kept(ENTRY_OVERHEAD), keeping.source_size
        kept.hold()
        with self._lock:
            self._chunks[key] = chunk = Chunk(kept, size, converting.first, self._pass(size))
        return chunk

    # --- memory

    def _make_room(self, size: int) -> bool:
        """Takes bytes of the budget, and evicts for that what was used least recently and is not
        being sent. False: there is not enough of it."""
        for _ in range(SCAN_MAX if size <= self.budget.size else 0):
            if self.budget.take(size):
                return True
            with self._lock:
                if not self._chunks:
                    return False
                self._evict_oldest()
        return False

    def _pass(self, size: int) -> int:
        """So many bytes more are asked for; returns how many in all. What nobody has come back to
        while clients asked for as much as its reach is evicted, though there is room."""
        self._passed += size
        for _ in range(SCAN_MAX):
            oldest = next(iter(self._chunks.values()), None)
            if oldest is None:
                break
            if oldest.passed + self._reach(is_plain=not oldest.first.codec) >= self._passed:
                break
            self._evict_oldest()
        return self._passed

    def _reach(self, *, is_plain: bool) -> int:
        """How much may be asked for between two who share a chunk."""
        return self.budget.size // PLAIN_REACH if is_plain else self.budget.size

    def _evict_oldest(self) -> None:
        """What was used least recently, unless it is being sent: its memory would not be free."""
        key, chunk = self._chunks.popitem(last=False)
        if chunk.kept.is_shared:
            chunk.passed = self._passed
            self._chunks[key] = chunk
            return
        self.evictions += 1
        if not chunk.was_shared:
            self._wasted = min(self._wasted + 1, 2 * WASTED_MAX)
            self._shared.pop((key.file, key.magic), None)
        chunk.kept.release()


@lru_cache(maxsize=64)
def kept_policy(policy: ConversionPolicy) -> ConversionPolicy:
    """The policy by which what all its clients share is converted: chunks are as large for all of
    them."""
    size = LARGE if policy.chunk_size == SMALL else policy.chunk_size
    return replace(policy, chunk_size=size)


def _remember(known: OrderedDict[K, V], key: K, value: V, count_max: int = ASKED_MAX) -> None:
    known[key] = value
    known.move_to_end(key)
    if len(known) > count_max:
        known.popitem(last=False)
