"""A cache of converted chunks, for the next clients that fetch the same batches.

A thousand old consumers at the tail of a topic fetch the same bytes. They are converted once, a
chunk of some batches at a time, and sent to all of them from the same memory.

A chunk's key has the open file of a segment, and the position in it. A log reopens a file when its
bytes may have changed (truncated, cleaned, recreated under the same name). Chunks of the formerly
opened file are then no longer found. Cached chunks and data still queued for slow clients share one
budget. When it is used up, the least recently used chunk is evicted.

The reach of the cache is the number of bytes that it has room for. A chunk is cached when a second
client fetches it before clients have fetched that many other bytes. A chunk that is unused for as
long is evicted. So one consumer that reads a whole log does not fill the memory with bytes that are
not fetched again. Nor do many consumers that are spread over a large topic.

Not here: a chunk (converted_chunk.py), the chunks of a response (shared_range.py)."""

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import replace
from functools import lru_cache
from io import FileIO
from threading import Lock
from typing import Final, NamedTuple
from weakref import WeakKeyDictionary

from downconvert import ConversionPolicy
from downconvert.serving.buffered_send import BufferedConversion, NoMemoryError
from downconvert.serving.planning_slots import Wake
from records import BatchHeader, FileRecords, RecordsError
from records.budget import MemoryBudget
from records.formats import V2
from records.units import KiB

from .chunk_budget import LARGE, SMALL
from .conversions_under_way import ConversionsUnderWay
from .converted_chunk import WHOLE, Chunk, ChunkKey, Converting, Place

ENTRY_OVERHEAD: Final = KiB  # bytes of bookkeeping per chunk, an upper bound
ASKED_MAX: Final = 4096  # places whose first client is remembered
SCAN_MAX: Final = 64  # chunks that one eviction examines
# Uncompressed records take less time to convert than to send. Caching them pays only if many
# clients fetch them at once, as at a tail. So their reach is an eighth of the cache.
PLAIN_REACH: Final = 8

UNCACHEABLE: Final = -1  # instead of a client: the chunk is damaged or too large


class _Asked(NamedTuple):
    """client: the first one that fetched the place. passed: `_bytes_requested` at the last
    fetch."""

    client: int
    passed: int


class ConversionCache:
    """The cached chunks. Their budget also holds the data queued for slow clients. Thread-safe.

    hits: found chunks. misses: chunks that were not found. evictions: chunks that were evicted."""

    def __init__(
        self, budget: MemoryBudget, conversions_under_way: ConversionsUnderWay | None = None
    ) -> None:
        """`conversions_under_way`: by default an object of its own."""
        self.budget = budget
        self.hits = self.misses = self.evictions = 0
        self._lock = Lock()
        self._chunks: OrderedDict[ChunkKey, Chunk] = OrderedDict()  # the least recently used first
        self._under_way = (
            ConversionsUnderWay() if conversions_under_way is None else conversions_under_way
        )
        self._files: WeakKeyDictionary[FileIO, int] = WeakKeyDictionary()
        self._files_count = 0
        self._asked: OrderedDict[Place, _Asked] = OrderedDict()
        self._bytes_requested = 0  # bytes of logs that clients have fetched

    def __len__(self) -> int:
        return len(self._chunks)

    @property
    def under_way(self) -> int:
        """The number of unfinished conversions."""
        return len(self._under_way)

    def keeps(self, policy: ConversionPolicy) -> bool:
        """Whether chunks of this policy are cached. Sizes must be exact, and chunks must not depend
        on earlier transactions."""
        is_exact = policy.size == "exact" and policy.trim_compressed
        return self.budget.size > 0 and is_exact and policy.isolation == "read_uncommitted"

    def number_of(self, records: FileRecords) -> int:
        """The number of the records' open file."""
        number = self._files.get(records.file)
        if number is None:
            with self._lock:
                self._files_count += 1
                number = self._files[records.file] = self._files_count
        return number

    # --- cached chunks

    def find(self, key: ChunkKey) -> Chunk | None:
        """A cached chunk, which the caller must release."""
        with self._lock:
            chunk = self._chunks.get(key)
            if chunk is None:
                return None
            self._chunks.move_to_end(key)
            chunk.passed = self._bytes_requested + chunk.source_size
            self._pass(chunk.source_size)
            self.hits += 1
            chunk.kept.hold()
            return chunk

    def is_converting(self, key: ChunkKey) -> bool:
        return key in self._under_way

    # --- the clients' requests

    def may_keep(self, place: Place) -> bool:
        """Whether the chunk at this place may be cached. False if it is known to be damaged or too
        large."""
        asked = self._asked.get(place)
        return asked is None or asked.client != UNCACHEABLE

    def is_asked_again(self, place: Place, client: int, *, is_plain: bool) -> bool:
        """Whether another client fetched the place recently, as measured in fetched bytes."""
        asked = self._asked.get(place)
        if asked is None or asked.client == client:
            return False
        return self._bytes_requested - asked.passed <= self._reach(is_plain=is_plain)

    def note_asked(self, places: Iterable[Place], client: int, size: int) -> None:
        """A client fetches `size` bytes of a log that are not cached."""
        with self._lock:
            self.misses += 1
            passed = self._pass(size)
            for place in places:
                asked = self._asked.get(place)
                first = client if asked is None else asked.client
                self._remember(place, _Asked(first, passed))

    def _remember(self, place: Place, asked: _Asked) -> None:
        self._asked[place] = asked
        self._asked.move_to_end(place)
        if len(self._asked) > ASKED_MAX:
            self._asked.popitem(last=False)

    # --- conversions

    def convert(
        self,
        key: ChunkKey,
        place: Place,
        batches: FileRecords,
        first: BatchHeader,
        work: int,
        client: int,
        wake: Wake,
    ) -> tuple[Chunk | None, int | None]:
        """Begins or continues the conversion of a chunk, for at most `work`.

        Returns the chunk, which the caller must release, and the work that is left. Without a
        chunk:
        (None, 0 or less): it takes another turn, and stays under way until the client `leaves`.
        (None, more than 0): it is not cached, or too many others are under way.
        (None, None): another thread is converting it, and calls `wake` when that turn ends.
        OSError: the disk."""
        with self._lock:
            converting = self._under_way.get(key)
            is_made = converting is None and key in self._chunks  # since the caller looked
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
            if self._under_way.get(key) is not converting:  # another thread has finished it
                return self.find(key), work
            return self._turn(key, place, converting, work)
        finally:
            converting.end_turn()

    def _turn(
        self, key: ChunkKey, place: Place, converting: Converting, work: int
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
                    self._remember(place, _Asked(UNCACHEABLE, self._bytes_requested))
            return None, work
        finally:
            if is_over:
                with self._lock:
                    self._under_way.remove(key, converting)

    def leave(self, client: int) -> None:
        """Called when the client has its response, or has gone: it no longer waits for a
        conversion."""
        with self._lock:
            self._under_way.leave(client)

    def _keeping(
        self, key: ChunkKey, batches: FileRecords, first: BatchHeader
    ) -> BufferedConversion:
        # If offsets in the log decrease, the conversion leaves out records below the first offset,
        # which no client of this chunk needs. A compressed message of v0 or v1 states only its last
        # offset.
        first_offset = key.first_offset
        if first_offset == WHOLE:
            first_offset = first.base_offset if first.magic == V2 else 0
        return BufferedConversion(
            batches, key.magic, first_offset, key.policy, self.budget, take=self._make_room
        )

    def _keep(self, key: ChunkKey, converting: Converting) -> Chunk:
        """Caches a converted chunk. Raises RecordsError if it is damaged, NoMemoryError if there is
        no room."""
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
        """Takes bytes of the budget, and evicts the least recently used chunks that are not being
        sent. Returns False if that does not free enough."""
        for _ in range(SCAN_MAX if size <= self.budget.size else 0):
            if self.budget.take(size):
                return True
            with self._lock:
                if not self._chunks:
                    return False
                self._evict_oldest()
        return False

    def _pass(self, size: int) -> int:
        """Counts `size` fetched bytes, and returns the total. Evicts chunks that were unused for
        their whole reach, even if there is room."""
        self._bytes_requested += size
        for _ in range(SCAN_MAX):
            oldest = next(iter(self._chunks.values()), None)
            if oldest is None:
                break
            if (
                oldest.passed + self._reach(is_plain=not oldest.first.codec)
                >= self._bytes_requested
            ):
                break
            self._evict_oldest()
        return self._bytes_requested

    def _reach(self, *, is_plain: bool) -> int:
        """The bytes that clients may fetch between two uses of a chunk."""
        return self.budget.size // PLAIN_REACH if is_plain else self.budget.size

    def _evict_oldest(self) -> None:
        """Evicts the least recently used chunk. A chunk that is being sent is kept, because
        evicting it would free nothing."""
        key, chunk = self._chunks.popitem(last=False)
        if chunk.kept.is_shared:
            chunk.passed = self._bytes_requested
            self._chunks[key] = chunk
            return
        self.evictions += 1
        chunk.kept.release()


@lru_cache(maxsize=64)
def kept_policy(policy: ConversionPolicy) -> ConversionPolicy:
    """The policy for shared chunks: the same chunk size for all clients."""
    size = LARGE if policy.chunk_size == SMALL else policy.chunk_size
    return replace(policy, chunk_size=size)
