"""A chunk of some batches, converted: where it is from, what it has, and its making in turns.

Not here: which chunks are kept, and for how long (conversion_cache.py), the bytes
(buffered_send.py)."""

from dataclasses import dataclass
from threading import Lock
from typing import Final, NamedTuple

from downconvert import ConversionPolicy
from records import BatchHeader, FileRecords

from .buffered_send import Keeping, KeptBytes
from .message_index import MessageIndex
from .planning_slots import Wake

WHOLE: Final = -1  # instead of an offset: no record is left out


class Key(NamedTuple):
    """file: a number of the open file. position: where the first batch begins in it. first_offset:
    of the first record, in a batch that is converted for clients that ask for that; or WHOLE."""

    file: int
    position: int
    magic: int
    policy: ConversionPolicy
    first_offset: int


class Place(NamedTuple):
    """Where in a file somebody asks for something: which of its stretches of equal size."""

    file: int
    number: int
    magic: int
    policy: ConversionPolicy


@dataclass(slots=True)
class Chunk:
    """Some batches, converted. kept: the bytes. source_size: of the batches that they come from.
    first: the header of the first one. passed: bytes that all clients had asked for, when it was
    used last. was_shared: with a client that it was not made for."""

    kept: KeptBytes
    source_size: int
    first: BatchHeader
    passed: int
    was_shared: bool = False
    _index: MessageIndex | None = None
    _end_offset: int | None = None

    def start_of(self, offset: int) -> tuple[int, int]:
        """How many bytes, and how many messages, are before the first one at or after an offset.
        Only where the messages up to there are plain."""
        if self._index is None:
            self._index = MessageIndex(self.kept.data)
        return self._index.find(offset)

    def end_offset(self, records: FileRecords) -> int | None:
        """The offset after the last batch of the chunk, which `records` begin with."""
        if self._end_offset is None:
            for header in records.slice(0, self.source_size).batches():
                self._end_offset = header.last_offset + 1
        return self._end_offset


class Converting:
    """A conversion under way, which any thread may take further, one at a time. clients: that wait
    for what is made."""

    __slots__ = ("_is_busy", "_lock", "_waiting", "clients", "first", "keeping")

    def __init__(self, keeping: Keeping, first: BatchHeader) -> None:
        self.keeping = keeping
        self.first = first
        self.clients: set[int] = set()
        self._is_busy = False
        self._waiting: list[Wake] = []
        self._lock = Lock()

    def begin_turn(self, wake: Wake) -> bool:
        """Whether the caller has the next turn. False: another thread has it, and calls `wake` when
        it is over."""
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
