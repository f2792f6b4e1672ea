"""The first part of a fetched range, made of chunks that clients share.

Batches are converted independently, so a range may be cut between any two batches. Here a chunk
ends after the batch that reaches a multiple of CHUNK_SIZE in the file. So clients come to the same
boundaries, wherever they began. If a client begins inside a batch that is recompressed, it does not
share the chunk of that batch. If the batch becomes uncompressed messages, the client gets the
shared messages from its offset on.

Not here: which chunks are cached (conversion_cache.py), the rest of a response
(reading_converted.py)."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from typing import Final, NamedTuple

from downconvert import ConversionPolicy, ConversionStats
from downconvert.serving.buffered_send import BUFFERED_SIZE_MAX, BufferedSend
from downconvert.serving.planning_slots import Wake
from records import BatchHeader, FileRecords, RecordsError
from records.formats import V2, Codec
from records.units import KiB, MiB

from .contribution import RECORDS_SIZE_MAX
from .conversion_cache import ConversionCache, kept_policy
from .converted_chunk import WHOLE, Chunk, ChunkKey, Place

# A chunk is so small that one turn can convert it, and so large that finding it costs less than
# sending it.
CHUNK_SIZE: Final = 128 * KiB

# The work of one turn, in bytes that go through memory: a millisecond or two. Bytes of compressed
# batches count several times.
WORK_A_TURN: Final = 2 * MiB

PARTS_MAX: Final = 64  # chunks of one response; at the tail, a chunk may be one small batch
PLACES_MAX: Final = 1024  # places that are noted for one request


class Ends(Enum):
    """The state of the range after the taken chunks."""

    ALL = auto()  # nothing: the range ends
    LATER = auto()  # a chunk that takes another turn, or belongs to the next fetch
    IN_PROGRESS = auto()  # a chunk that another thread is converting; it wakes the client
    UNCACHED = auto()  # batches that are not cached


class Asker(NamedTuple):
    """A client and its fetch. client: the number of its connection. room: the maximum bytes to
    send, except for a first chunk. wake: resumes the fetch after another thread's turn with the
    same chunk."""

    client: int
    magic: int
    offset: int
    policy: ConversionPolicy
    room: int = RECORDS_SIZE_MAX
    wake: Wake = lambda: None


@dataclass(slots=True)
class SharedRange:
    """size: bytes to send. source_size: bytes of the log that they come from."""

    sends: list[BufferedSend] = field(default_factory=list)
    size: int = 0
    source_size: int = 0
    ends: Ends = Ends.ALL
    _last: Chunk | None = None

    def end_offset(self, records: FileRecords) -> int | None:
        """The offset after the last batch that was taken from `records`."""
        if self._last is None:
            return None
        return self._last.end_offset(_rest(records, self.source_size - self._last.source_size))

    @property
    def head(self) -> memoryview:
        """Its first bytes, unless its size is 0."""
        return self.sends[0].head

    def cut(self, size: int) -> None:
        """Sends only the first `size` bytes."""
        self.size = 0
        for send in self.sends:
            send.cut(max(0, size - self.size))
            self.size += send.size

    def close(self) -> None:
        """Releases the chunks without sending them."""
        for send in self.sends:
            send.close()
        self.sends = []

    def add(self, chunk: Chunk, stats: ConversionStats, start: int) -> None:
        """Adds the part of a held chunk from `start` on."""
        self._last = chunk
        self.source_size += chunk.source_size
        self.size += len(chunk.kept.data) - start
        if start < len(chunk.kept.data):
            self.sends.append(BufferedSend(chunk.kept, stats, start))
        else:
            chunk.kept.release()


def take(
    cache: ConversionCache, records: FileRecords, asker: Asker, *, is_tail: bool
) -> SharedRange:
    """Takes the first chunks of a range, which begins with the batch that contains the fetch
    offset.

    `is_tail`: the log ends the range, and not the client's limit of bytes. Does at most one turn of
    work. OSError: the log cannot be read."""
    builder = SharedRangeBuilder(cache, records, asker, is_tail)
    try:
        builder.take()
    except RecordsError:  # a damaged header: reported by the conversion without the cache
        builder.taken.ends = Ends.UNCACHED
    except BaseException:
        builder.taken.close()
        raise
    return builder.taken


class SharedRangeBuilder:
    def __init__(
        self, cache: ConversionCache, records: FileRecords, asker: Asker, is_tail: bool
    ) -> None:
        self.taken = SharedRange()
        self._cache = cache
        self._records = records
        self._asker = asker
        self._is_tail = is_tail
        self._policy = kept_policy(asker.policy)
        self._file = cache.number_of(records)
        self._work = WORK_A_TURN

    def take(self) -> None:
        taken, size = self.taken, self._records.size
        while taken.source_size < size:
            if len(taken.sends) >= PARTS_MAX:
                taken.ends = Ends.UNCACHED
                return
            found = self._next()
            if found is None:
                return
            chunk, stats, start = found
            size_left = size - taken.source_size
            is_too_long = taken.size + stats.bytes_out > self._asker.room
            if chunk.source_size > size_left or (taken.sends and is_too_long):
                chunk.kept.release()
                taken.ends = Ends.LATER if taken.sends else Ends.UNCACHED
                return
            taken.add(chunk, stats, start)

    def _next(self) -> tuple[Chunk, ConversionStats, int] | None:
        """The next chunk, held for the caller, its statistics, and the position in it to begin at.
        None: there is no next chunk, and `taken.ends` says why."""
        cache, at = self._cache, self.taken.source_size
        key = ChunkKey(
            self._file, self._records.origin + at, self._asker.magic, self._policy, WHOLE
        )
        chunk = cache.find(key)
        first = next(self._batches(at), None) if chunk is None else chunk.first
        if first is None:  # no whole batch is left
            return None
        if at == 0 and self._depends_on_offset(first):
            if chunk is not None:
                chunk.kept.release()
            key = key._replace(first_offset=self._asker.offset)
            chunk = cache.find(key)
        if chunk is not None:
            stats = ConversionStats(records_converted=chunk.kept.stats.records_converted)
        else:
            chunk = self._convert(key, at, first)
            if chunk is None:
                return None
            stats = replace(chunk.kept.stats)
        start = 0
        if key.first_offset == WHOLE and at == 0 and self._may_begin_before(first):
            start, before = chunk.start_of(self._asker.offset)
            stats.records_converted = max(0, stats.records_converted - before)
        stats.bytes_out = len(chunk.kept.data) - start
        return chunk, stats, start

    def _may_begin_before(self, first: BatchHeader) -> bool:
        """Whether a first batch may have records below the fetch offset."""
        states_base_offset = first.magic == V2 or not first.codec
        return not states_base_offset or first.base_offset < self._asker.offset

    def _depends_on_offset(self, first: BatchHeader) -> bool:
        """Whether the conversion of a first batch depends on the fetch offset. A compressed message
        of v0 or v1 does not state its first offset."""
        if not first.codec or (first.magic == V2 and first.base_offset >= self._asker.offset):
            return False
        magic = min(first.magic, self._asker.magic)
        return self._policy.codec_for(first.codec, magic) is not Codec.NONE

    def _convert(self, key: ChunkKey, at: int, first: BatchHeader) -> Chunk | None:
        """Converts the chunk that begins at `at`, if it may be cached."""
        taken, records = self.taken, self._records
        end = self._end_of(at, first) if key.first_offset == WHOLE else at + first.size
        if end == records.size and not self._is_tail and taken.sends:
            taken.ends = Ends.LATER  # end at this boundary, where other clients continue, too
            return None
        place = self._place(at)
        if not (self._cache.is_converting(key) or self._is_wanted(place, end - at, first)):
            self._cache.note_asked(self._places(at), self._asker.client, records.size - at)
            taken.ends = Ends.UNCACHED
            return None
        chunk = None
        if self._work > 0:
            batches = records.slice(at, end - at)
            chunk, left = self._cache.convert(
                key, place, batches, first, self._work, self._asker.client, self._asker.wake
            )
            if left is None:
                taken.ends = Ends.IN_PROGRESS
                return None
            self._work = left
        if chunk is None:
            is_uncached = self._work > 0
            taken.ends = Ends.UNCACHED if is_uncached else Ends.LATER
        return chunk

    def _is_wanted(self, place: Place, size: int, first: BatchHeader) -> bool:
        """Whether to cache a chunk: another client fetched it, or its conversion takes more than
        one turn."""
        if size > BUFFERED_SIZE_MAX or not self._cache.may_keep(place):
            return False
        if self._cache.is_asked_again(place, self._asker.client, is_plain=not first.codec):
            return True
        if not first.codec or not CHUNK_SIZE < first.size <= BUFFERED_SIZE_MAX // 2:
            return False
        return self._cache.budget.left >= 2 * first.size

    def _end_of(self, at: int, first: BatchHeader) -> int:
        """The end of the chunk that begins at `at`. Its last batch may extend beyond that."""
        position = self._records.origin + at + first.size
        end = -(-position // CHUNK_SIZE) * CHUNK_SIZE - self._records.origin
        return min(end, self._records.size)

    def _place(self, at: int) -> Place:
        number = (self._records.origin + at) // CHUNK_SIZE
        return Place(self._file, number, self._asker.magic, self._policy)

    def _places(self, at: int) -> Iterator[Place]:
        first, last = self._place(at), self._place(self._records.size - 1)
        for number in range(first.number, min(last.number + 1, first.number + PLACES_MAX)):
            yield first._replace(number=number)

    def _batches(self, at: int) -> Iterator[BatchHeader]:
        return _rest(self._records, at).batches()


def _rest(records: FileRecords, at: int) -> FileRecords:
    return records.slice(at, records.size - at)
