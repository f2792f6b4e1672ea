"""A chunk of converted batches, and its conversion in turns.

Not here: which chunks are cached (conversion_cache.py), the bytes (buffered_send.py)."""

from dataclasses import dataclass
from threading import Lock
from typing import Final, NamedTuple

from downconvert import ConversionPolicy
from downconvert.serving.buffered_send import BufferedConversion, KeptBytes
from downconvert.serving.fetch_assembly import end_offset_of
from downconvert.serving.planning_slots import Wake
from records import BatchHeader, FileRecords

from .message_index import MessageIndex

WHOLE: Final = -1  # instead of an offset: no record is left out


class ChunkKey(NamedTuple):
    """file: the number of the open file. position: of the chunk's first batch in the file, in
    bytes. first_offset: the fetch offset, if the chunk depends on it; else WHOLE."""

    file: int
    position: int
    magic: int
    policy: ConversionPolicy
    first_offset: int


class Place(NamedTuple):
    """A part of a file that a client fetches. Parts have equal sizes. number: counted from 0."""

    file: int
    number: int
    magic: int
    policy: ConversionPolicy


@dataclass(slots=True)
class Chunk:
    """Some converted batches. kept: the bytes. source_size: bytes of the batches in the log. first:
    the header of the first batch. passed: bytes that all clients had fetched when the chunk was
    last used."""

    kept: KeptBytes
    source_size: int
    first: BatchHeader
    passed: int
    _index: MessageIndex | None = None
    _end_offset: int | None = None

    def start_of(self, offset: int) -> tuple[int, int]:
        """The number of bytes and messages before the first message at or after an offset. The
        messages up to there must be uncompressed."""
        if self._index is None:
            self._index = MessageIndex(self.kept.data)
        return self._index.find(offset)

    def end_offset(self, records: FileRecords) -> int | None:
        """The offset after the chunk's last batch. `records` must begin with the chunk."""
        if self._end_offset is None:  # one assignment, because other threads read it
            self._end_offset = end_offset_of(records.slice(0, self.source_size))
        return self._end_offset


class Converting:
    """A conversion under way, which threads continue in turns. clients: that wait for it, by
    id."""

    __slots__ = ("_is_busy", "_lock", "_waiting", "clients", "first", "keeping")

    def __init__(self, keeping: BufferedConversion, first: BatchHeader) -> None:
        self.keeping = keeping
        self.first = first
        self.clients: set[int] = set()
        self._is_busy = False
        self._waiting: list[Wake] = []
        self._lock = Lock()

    def begin_turn(self, wake: Wake) -> bool:
        """Whether the caller has the next turn. False: another thread has a turn, and calls `wake`
        at its end."""
        with self._lock:
            if self._is_busy:
                self._waiting.append(wake)
                return False
            self._is_busy = True
            return True

    def end_turn(self) -> None:
        with self._lock:
            self._is_busy = False
            waiting, self._waiting = self._waiting, []
        for wake in waiting:
            wake()
