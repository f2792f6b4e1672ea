"""The beginning of a range in chunks that are shared with other clients.

Batches are converted independently, so that a range may be cut between any two of them. It is cut
where a batch ends after a multiple of CHUNK_SIZE, counted in the file: so that clients go on from
the same places, wherever they began. Only the batch in whose midst a client begins may be its own:
where it is compressed again. Of one that is not, it gets what follows.

Not here: what is kept, and for how long (conversion_cache.py), the rest of an answer
(reading_converted.py)."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from typing import Final, NamedTuple

from downconvert import ConversionPolicy, ConversionStats
from records import BatchHeader, FileRecords, RecordsError
from records.formats import V2, Codec
from records.units import KiB, MiB

from .buffered_send import BUFFERED_SIZE_MAX, BufferedSend
from .conversion_cache import ConversionCache, kept_policy
from .converted_chunk import WHOLE, Chunk, Key, Place
from .planning_slots import Wake

# Small enough that its conversion is a turn's work, large enough that finding it costs less than
# sending it.
CHUNK_SIZE: Final = 128 * KiB

# What may be converted in one turn: a millisecond or two. In bytes that go through memory; those of
# compressed batches count several times.
WORK_A_TURN: Final = 2 * MiB

PARTS_MAX: Final = 64  # of one answer: chunks at the tail may be as small as what is appended there
PLACES_MAX: Final = 1024  # that are noted for one request


class Ends(Enum):
    """What follows what was taken."""

    ALL = auto()  # nothing
    LATER = auto()  # what takes another turn, or the next fetch
    ELSEWHERE = auto()  # what another thread makes, which then wakes the asker
    COLD = auto()  # what is not kept


class Asker(NamedTuple):
    """Who asks for what. client: the number of its connection. room: the most bytes that are to be
    sent, but for a first chunk; None: any number. wake: lets the asker go on, once another thread
    has had its turn at what both ask for."""

    client: int
    magic: int
    offset: int
    policy: ConversionPolicy
    room: int | None = None
    wake: Wake = lambda: None


@dataclass(slots=True)
class SharedRange:
    """size: bytes to be sent. source_size: bytes of the log that they come from."""

    sends: list[BufferedSend] = field(default_factory=list)
    size: int = 0
    source_size: int = 0
    ends: Ends = Ends.ALL
    _last: Chunk | None = None

    def end_offset(self, records: FileRecords) -> int | None:
        """The offset after the last batch that was taken of `records`."""
        if self._last is None:
            return None
        return self._last.end_offset(_rest(records, self.source_size - self._last.source_size))

    @property
    def head(self) -> memoryview:
        """How it begins, unless its size is 0."""
        return self.sends[0].head

    def cut(self, size: int) -> None:
        """Sends only the first `size` bytes."""
        self.size = 0
        for send in self.sends:
            send.cut(max(0, size - self.size))
            self.size += send.size

    def close(self) -> None:
        """Releases the chunks: nobody wants them."""
        for send in self.sends:
            send.close()
        self.sends = []

    def add(self, chunk: Chunk, stats: ConversionStats, start: int) -> None:
        """Adds a chunk that is held, from `start` on."""
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
    """The first batches of a range that begins with the batch that holds the asker's offset.

    `is_tail`: the range ends where the log does, and not with what the client asked for. Not more
    is converted than in a turn. OSError where the log cannot be read."""
    taker = _Taker(cache, records, asker, is_tail)
    try:
        taker.take()
    except RecordsError:  # of a header: the conversion of what is cold finds it
        taker.taken.ends = Ends.COLD
    except BaseException:
        taker.taken.close()
        raise
    return taker.taken


class _Taker:
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
                taken.ends = Ends.COLD
                return
            found = self._next()
            if found is None:
                return
            chunk, stats, start = found
            size_left = size - taken.source_size
            room = self._asker.room
            is_too_long = room is not None and taken.size + stats.bytes_out > room
            if chunk.source_size > size_left or (taken.sends and is_too_long):
                chunk.kept.release()
                taken.ends = Ends.LATER if taken.sends else Ends.COLD
                return
            taken.add(chunk, stats, start)

    def _next(self) -> tuple[Chunk, ConversionStats, int] | None:
        """The next chunk, held; what was done for it; and where in it to begin. None: there is
        none, and `taken.ends` says why."""
        cache, at = self._cache, self.taken.source_size
        key = Key(self._file, self._records.origin + at, self._asker.magic, self._policy, WHOLE)
        chunk = cache.find(key)
        first = next(self._batches(at), None) if chunk is None else chunk.first
        if first is None:  # nothing whole is left
            return None
        if at == 0 and self._is_own(first):
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
        """Whether a first batch may have records below the offset asked for."""
        is_told = first.magic == V2 or not first.codec
        return not is_told or first.base_offset < self._asker.offset

    def _is_own(self, first: BatchHeader) -> bool:
        """Whether a first batch becomes something else for a client that begins in its midst. A
        compressed message of v0 or v1 does not say where it begins."""
        if not first.codec or (first.magic == V2 and first.base_offset >= self._asker.offset):
            return False
        magic = min(first.magic, self._asker.magic)
        return self._policy.codec_for(first.codec, magic) is not Codec.NONE

    def _convert(self, key: Key, at: int, first: BatchHeader) -> Chunk | None:
        """Converts the chunk that begins at `at`, if it is to be kept."""
        taken, records = self.taken, self._records
        end = self._end_of(at, first) if key.first_offset == WHOLE else at + first.size
        if end == records.size and not self._is_tail and taken.sends:
            taken.ends = Ends.LATER  # where others go on, too
            return None
        place = self._place(at)
        if not (self._cache.is_converting(key) or self._is_wanted(place, at, end, first)):
            self._cache.note_asked(self._places(at), self._asker.client, records.size - at)
            taken.ends = Ends.COLD
            return None
        chunk = None
        if self._work > 0:
            batches = records.slice(at, end - at)
            chunk, left = self._cache.convert(
                key, place, batches, first, self._work, self._asker.client, self._asker.wake
            )
            if left is None:
                taken.ends = Ends.ELSEWHERE
                return None
            self._work = left
        if chunk is None:
            is_cold = self._work > 0
            taken.ends = Ends.COLD if is_cold else Ends.LATER
        return chunk

    def _is_wanted(self, place: Place, at: int, end: int, first: BatchHeader) -> bool:
        """Whether a chunk is kept: somebody else has asked for it or, at the tail, is likely to; or
        it takes more than one turn to be made."""
        if end - at > BUFFERED_SIZE_MAX or not self._cache.may_keep(place):
            return False
        if not self._cache.is_worth_it():
            return False
        if self._cache.is_asked_again(place, self._asker.client, is_plain=not first.codec):
            return True
        if first.codec and CHUNK_SIZE < first.size <= BUFFERED_SIZE_MAX // 2:
            return self._cache.budget.left >= 2 * first.size
        is_last = self._is_tail and end == self._records.size
        is_small = end - at <= CHUNK_SIZE
        return is_last and (is_small or self._cache.is_shared(self._file, self._asker.magic))

    def _end_of(self, at: int, first: BatchHeader) -> int:
        """Where the chunk that begins at `at` ends, or the last of its batches is not whole."""
        position = self._records.origin + at + first.size
        end = -(-position // CHUNK_SIZE) * CHUNK_SIZE - self._records.origin
        return min(end, self._records.size)

    def _place(self, at: int) -> Place:
        number = (self._records.origin + at) // CHUNK_SIZE
        return Place(self._file, number, self._asker.magic, self._policy)

    def _places(self, at: int) -> Iterator[Place]:
        first, last = self._place(at), self._place(self._records.size - 1)
        for number in range(first.number, min(last.number, first.number + PLACES_MAX) + 1):
            yield first._replace(number=number)

    def _batches(self, at: int) -> Iterator[BatchHeader]:
        return _rest(self._records, at).batches()


def _rest(records: FileRecords, at: int) -> FileRecords:
    return records.slice(at, records.size - at)
