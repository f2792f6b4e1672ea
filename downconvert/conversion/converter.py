"""Converts a log: the kernel runs, and where it stops, the policy's rules decide.

Python converts what the kernel leaves, an item at a time (streamed). Sending, converting into
memory and measuring are the same steps with another target. A compressed message has no known size
until it is made. So measuring ends before such a message, and the caller makes it.

Not here: the calls of the kernel (engine.py), the end of a conversion (plan.py), sending
(send.py)."""

from collections.abc import Iterator
from typing import Final

from downconvert.conversion.streamed.compressed import CompressedEntry
from downconvert.conversion.streamed.streamed import Streamed
from records.batch import BatchHeader
from records.errors import CorruptRecordsError
from records.files.source import TRUNCATED, Records
from records.formats import (
    ATTRIBUTES_AT_BATCH,
    ATTRIBUTES_AT_LEGACY,
    BATCH_HEADER_SIZE,
    CODEC_MASK,
    CONTROL,
    MAGIC_AT,
    PREFIX,
    TRANSACTIONAL,
    V2,
    Codec,
)
from records.kernel import Buffer, Outcome
from records.steps import Steps
from records.units import KiB, MiB

from .aborted import AbortedTransactions
from .engine import (
    CHANNEL,
    COMPRESSED_WEIGHT,
    COUNTED,
    END,
    IN_MEMORY,
    LIMIT,
    Engine,
    Progress,
    Target,
)
from .policy import RESPONSE_SIZE_MAX
from .request import Request
from .stats import Counts

BATCH, DAMAGE = int(Outcome.BATCH), int(Outcome.DAMAGE)
GOES_ON: Final = CHANNEL, LIMIT  # the kernel could continue by itself

# Bytes of records. The kernel measures them in chunks of the first size. A step measures about the
# second size.
MEASURED_CHUNK_SIZE: Final = 128 * KiB
MEASURED_SIZE: Final = MiB
MESSAGES_SIZE: Final = 64 * KiB  # bytes made in a step if no client waits for a size
MEASURING: Final = (COUNTED, MEASURED_SIZE), (IN_MEMORY, MESSAGES_SIZE)

NOTHING: Final[Progress] = 0, 0, LIMIT, None, 0


class Converter:
    """Converts one range of records once. position: bytes of the range that are converted."""

    __slots__ = (
        "_aborted",
        "_chunk_size",
        "_due",
        "_engine",
        "_item",
        "_largest",
        "_records",
        "_request",
        "_streamed",
        "position",
    )

    def __init__(
        self,
        records: Records,
        request: Request,
        chunk_size: int | None = None,
        engine: Engine | None = None,
    ) -> None:
        """`chunk_size`: bytes of records that are converted at a time; by default the policy's.
        `engine`: if it has begun, the first `advance` takes what it has done."""
        self._records = records
        self._request = request
        self._chunk_size = request.policy.chunk_size if chunk_size is None else chunk_size
        self._engine = Engine(records, request) if engine is None else engine
        self._aborted: AbortedTransactions | None = None
        self._streamed: Streamed | None = None
        self._item: Steps[None] | None = None  # the item that Python converts now
        self._due: int | None = None  # the kernel's reason to stop, not decided yet
        self._largest = 0
        self.position = 0

    def advance(
        self, end: int, target: Target, room: int, budget: int, begun: Progress | None = None
    ) -> Progress | None:
        """Converts up to `end`, which is the boundary of an entry or the end of the records. Makes
        at most `room` bytes, and begins no other chunk after `budget` bytes. Returns None at the
        end, or if the target is COUNTED and the next messages must be made. `begun`: what the
        engine has done by a call with the same arguments.

        A message that Python converts may be larger than `room`. Python's messages are always
        returned in memory, even if the target is a channel. Raises RecordsError for damage or a
        refusal, after it has returned all messages before that place."""
        begin = self.position
        while True:
            if self._item is not None:
                done = self._next_piece(self._item, target)
                if done is not None:
                    return done
            elif self.position >= end:
                return None
            elif self._due is not None:
                due, self._due = self._due, None
                if not self._decide(due, end, is_measuring=target is COUNTED):
                    return None
            else:
                if begun is None:
                    size = MEASURED_CHUNK_SIZE if target is COUNTED else self._chunk_size
                    done = self._engine.advance(self.position, end, size, target, room, budget)
                else:
                    done, begun = begun, None
                consumed, size, outcome, rest, _ = done
                self.position += consumed
                if rest:
                    self._largest = max(self._largest, len(rest))
                if outcome in GOES_ON:
                    return done
                if outcome != END:
                    self._due = outcome
                if size or rest:
                    return done
                if outcome == END:
                    return None
            if self.position - begin >= self._chunk_size:
                return NOTHING

    def messages(self, end: int) -> Iterator[Buffer]:
        """All messages up to `end`, some at a time, or parts of a large one. They are valid until
        the next ones are requested."""
        call = end, IN_MEMORY, RESPONSE_SIZE_MAX, MESSAGES_SIZE
        while (done := self.advance(*call)) is not None:
            _, _, _, messages, _ = done
            if messages:
                yield messages

    def sizes(self, end: int, *, makes: bool) -> Iterator[int]:
        """The sizes of the messages up to `end`. `makes`: some are made for that. Otherwise the
        first of these is the end."""
        for target, budget in MEASURING if makes else MEASURING[:1]:
            while done := self.advance(end, target, RESPONSE_SIZE_MAX, budget):
                _, size, _, _, _ = done
                yield size

    @property
    def is_between(self) -> bool:
        """Whether the conversion is between two items, so that it can continue without a buffer."""
        return self._item is None

    @property
    def is_between_entries(self) -> bool:
        """Whether `position` is the boundary of an entry."""
        return self._item is None and not self._engine.transcoder.in_batch

    @property
    def error_position(self) -> int:
        """The position in the file up to which records are converted."""
        return self._records.origin + self.position

    @property
    def counts(self) -> Counts:
        """The counts so far."""
        counts = self._engine.counts(self.position)
        return counts if self._streamed is None else counts.plus(self._streamed.counts)

    @property
    def buffer_bytes(self) -> int:
        """The peak size of its buffers."""
        return self._largest

    @property
    def work(self) -> int:
        """The work so far: bytes that went through memory. Decompressed bytes, most of which are
        compressed again, count several times."""
        _, _, done, decompressed = self._engine.transcoder.totals
        if self._streamed is not None:
            done += self._streamed.counts.temporary_bytes
            decompressed += self._streamed.decompressed
        return done + decompressed * COMPRESSED_WEIGHT

    def release(self) -> None:
        """Releases all buffers. Call this at the end of the conversion, and before a wait."""
        if self._item is not None:
            self._item.close()
        if self._streamed is not None:
            self._streamed.release()

    def _next_piece(self, item: Steps[None], target: Target) -> Progress | None:
        """Converts the next piece in Python. Returns None at the end of the item."""
        assert self._streamed is not None
        size = next(item, None)
        if size is None:
            self._item = None
            self.position = self._streamed.position
            return None
        self._largest = max(self._largest, self._streamed.held_bytes)
        if target is COUNTED:
            return 0, size, LIMIT, None, 0
        piece = self._streamed.ready[:size]
        return 0, size if target is IN_MEMORY else 0, LIMIT, piece, 0

    def _decide(self, due: int, end: int, *, is_measuring: bool) -> bool:
        """Acts on the kernel's reason to stop. Returns False if the next messages must be made,
        because they cannot be measured."""
        if due == DAMAGE:
            reason, _ = self._engine.transcoder.damage or ("damaged", 0)
            raise CorruptRecordsError(reason, self.error_position)
        entry = None
        if due == BATCH:
            entry = self._choose()
            if entry is None:
                return True
            if is_measuring and entry.target_codec is not Codec.NONE:
                return False
        if self._streamed is None:
            self._streamed = Streamed(self._records, self._request, self._engine.transcoder)
        streamed = self._streamed
        if entry is None:
            self._item = streamed.large(self.position, end, is_measuring=is_measuring)
        else:
            self._item = streamed.compressed(self.position, entry, is_measuring=is_measuring)
        return True

    def _choose(self) -> CompressedEntry | None:
        """Decides about the entry where the kernel stopped. Returns a compressed entry that Python
        must convert. Returns None if the entry is left out, or if the kernel copies or converts
        it."""
        head = bytearray(BATCH_HEADER_SIZE)
        found = self._records.read_into(memoryview(head), self.position)
        magic = head[MAGIC_AT]
        if found < (BATCH_HEADER_SIZE if magic == V2 else ATTRIBUTES_AT_LEGACY + 1):
            raise CorruptRecordsError(TRUNCATED, self.error_position)
        size = PREFIX.unpack_from(head)[1] + PREFIX.size
        if magic < V2:
            codec_id = head[ATTRIBUTES_AT_LEGACY] & CODEC_MASK
        else:
            attributes = head[ATTRIBUTES_AT_BATCH + 1]
            if attributes & (CONTROL | TRANSACTIONAL) and self._is_left_out(head):
                self.position += size
                return None
            codec_id = attributes & CODEC_MASK
            if codec_id == Codec.NONE:
                self._engine.transcoder.accept_next_entry()
                return None
        codec, target_codec = self._engine.rules.codec_for(codec_id, magic, self.error_position)
        if magic <= self._request.to_magic and codec is target_codec:
            self._engine.transcoder.accept_next_entry()
            return None
        return CompressedEntry(size, magic, codec, target_codec)

    def _is_left_out(self, head: bytearray) -> bool:
        """Whether a control batch or a transactional one is left out."""
        if not self._engine.rules.committed_only:
            return False
        if self._aborted is None:
            self._aborted = AbortedTransactions(self._request.aborted)
        return self._aborted.leaves_out(self._records, BatchHeader.parse(head, 0, self.position))
