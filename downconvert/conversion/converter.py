"""Converts a log, a bounded piece at a time.

The kernel converts windows of the log. If it returns for a decision, the policy's rules decide.
Compressed entries (compressed.py) and records larger than a window (oversize.py) are converted
elsewhere, with the same window and the same output.

The same conversion also measures: it then yields sizes and writes nothing. The size of compressed
output is unknown before it is made. A plan stops there and continues by making it.

Not here: how far a conversion goes (plan.py), sending (send.py)."""

from collections.abc import Iterator
from typing import Final, Self

from records.batch import BatchHeader
from records.batches.reader import read_batch
from records.files.source import Records
from records.formats import (
    ATTRIBUTES_AT_BATCH,
    ATTRIBUTES_AT_LEGACY,
    CODEC_MASK,
    CONTROL,
    MAGIC_AT,
    PREFIX,
    TRANSACTIONAL,
    V2,
    Codec,
)
from records.kernel import Buffer, Outcome

from .aborted import AbortedTransactions
from .compressed import CompressedEntries, CompressedEntry
from .engine import COMPRESSED_WEIGHT, Engine, Progress
from .output import Output
from .oversize import Oversize
from .policy import RESPONSE_SIZE_MAX
from .request import Request
from .rules import rules_for
from .stats import Counts
from .window import LogWindow

SOURCE, TARGET, BATCH, END, DAMAGE = (
    int(outcome)
    for outcome in (Outcome.SOURCE, Outcome.TARGET, Outcome.BATCH, Outcome.END, Outcome.DAMAGE)
)

LARGE_CHUNK_SIZE: Final = 64 * 1024

MADE_SIZE: Final = 32 * 1024  # bytes that the kernel makes by itself in a step of a plan
MESSAGES_SIZE: Final = 64 * 1024  # the same if no client waits for a size: a millisecond or two


class Converter:
    """Converts one range of records once. The first step takes its buffers, so a response of many
    ranges holds the buffers of only one."""

    __slots__ = (
        "_aborted",
        "_compressed",
        "_engine",
        "_is_between",
        "_is_direct",
        "_oversize",
        "_request",
        "_rules",
        "_stops_to_make",
        "_transcoder",
        "chunk_size",
        "has_stopped",
        "output",
        "window",
    )

    def __init__(
        self,
        request: Request,
        window: LogWindow,
        output: Output,
        chunk_size: int,
        engine: Engine | None = None,
    ) -> None:
        """`chunk_size`: bytes of the window converted at a time. `engine`: stands at the window's
        position."""
        self.window = window
        self.output = output
        self._request = request
        self.chunk_size = min(chunk_size, window.size)
        self._rules = rules_for(request.policy, request.to_magic)
        self._engine = Engine(window.records, request) if engine is None else engine
        self._transcoder = self._engine.transcoder
        self._aborted = AbortedTransactions(request.aborted)
        shared = request, self.window, output, self._transcoder
        self._oversize = Oversize(*shared)
        self._compressed = CompressedEntries(*shared)
        self._stops_to_make = False
        self.has_stopped = False  # before an entry that has to be compressed again
        self._is_direct = True  # no decision is known to be due next
        self._is_between = True  # it stands between two pieces and can continue without a buffer

    @classmethod
    def converting(
        cls, records: Records, request: Request, engine: Engine | None = None, position: int = 0
    ) -> Self:
        """Makes messages. Two small chunks are read at once, since a read costs as much as
        converting four kilobytes. `engine`: stands at `position`."""
        size = request.policy.chunk_size
        window = LogWindow(records, size * 2 if size < LARGE_CHUNK_SIZE else size)
        window.position = position
        # A message has 26 or 34 bytes besides key and value, a record at least 7. This size fits
        # nearly every chunk.
        return cls(request, window, Output(2 * size), size, engine)

    @classmethod
    def measuring(cls, records: Records, request: Request, *, first_only: bool = False) -> Self:
        """Measures how large messages will be. `first_only`: reads little more than a batch."""
        size = request.policy.chunk_size
        if not first_only:
            size = max(size, LARGE_CHUNK_SIZE)
        return cls(request, LogWindow(records, size), Output(2 * size, is_measuring=True), size)

    @classmethod
    def planning(cls, records: Records, request: Request) -> Self:
        """Measures, and stops before an entry that has to be compressed again: see `make`."""
        converter = cls.measuring(records, request)
        converter._stops_to_make = True
        return converter

    def make(self) -> None:
        """Makes messages from now on. If the conversion has stopped, `pieces` continues."""
        self._stops_to_make = self.output.is_measuring = False
        self._is_direct = True
        self.output.open()

    @property
    def has_compressed(self) -> bool:
        """Whether any entry had to be compressed again."""
        return self._compressed.has_compressed or self._transcoder.decompressed > 0

    @property
    def position(self) -> int:
        """The position in the file up to which records are converted."""
        return self.window.records.origin + self.window.position

    @property
    def counts(self) -> Counts:
        """The counts so far."""
        records, batches, source_bytes, produced, copied = self._transcoder.totals
        window, compressed, oversize = self.window, self._compressed, self._oversize
        temporary = source_bytes + produced + copied
        return Counts(
            records + oversize.messages,
            batches + oversize.messages,
            window.position + window.in_hand,
            temporary + compressed.temporary_bytes + oversize.copied_bytes,
        )

    @property
    def buffer_bytes(self) -> int:
        """The largest size that its buffers have had."""
        compressed = self._compressed.buffer_bytes
        return self.window.buffer_bytes + self.output.buffer_bytes + compressed

    @property
    def work(self) -> int:
        """The work so far: bytes that went through memory. Bytes compressed again count several
        times."""
        _, _, source_bytes, produced, copied = self._transcoder.totals
        compressed = self._compressed
        done = source_bytes + produced + copied + compressed.temporary_bytes
        done += self._oversize.copied_bytes
        weight = COMPRESSED_WEIGHT if self.has_compressed else 1
        return done * weight + compressed.decompressed * COMPRESSED_WEIGHT

    def pieces(self, end: int) -> Iterator[int]:
        """Converts up to `end`: the boundary of an entry, or the end of the records.

        Yields the size of each piece, which is in `output.ready`. Yields 0 if a window's worth of
        work made none. Between two pieces `write` may continue by itself. Raises RecordsError if
        the records are damaged or refused, after everything before that place."""
        window, output = self.window, self.output
        is_measuring = output.is_measuring
        transcode, measure = self._transcoder.transcode, self._transcoder.measure
        step = chunk_size = self.chunk_size
        while window.position < end:
            if is_measuring and self._is_direct and self._engine.can_run:
                measured = self._measure_ahead(end)
                if measured:
                    yield measured
                continue
            if window.start >= window.filled:
                if not window.is_open:
                    window.open()
                    output.open()
                window.read()
            start, left = window.start, end - window.position
            stop = min(start + step, window.filled)
            if is_measuring:
                consumed, produced, outcome = measure(
                    window.source, start, stop, left, RESPONSE_SIZE_MAX
                )
            else:
                target = output.target
                consumed, produced, outcome = transcode(
                    window.source, start, stop, left, target, 0, len(target)
                )
            window.position += consumed
            window.start = start = start + consumed
            self._is_direct = consumed > 0 and outcome != BATCH
            if produced or start >= stop:
                yield produced
            step = chunk_size
            if outcome == SOURCE or (outcome == TARGET and not produced):
                if consumed and stop < window.filled:
                    continue  # the window continues after the chunk
                if not consumed and (start == 0 or window.is_all):
                    if stop - start < window.size and stop < window.filled and outcome == SOURCE:
                        step = window.size  # an item larger than a chunk, smaller than the window
                        continue
                    window.check_whole()
                    self._is_between = False
                    yield from self._oversize.convert(left)
                    self._is_between = True
                window.start = window.filled = 0
            elif not window.is_open:
                continue  # buffers were released, so ask the kernel again
            elif outcome == BATCH:
                entry = self._decide()
                if entry is None:
                    continue
                if self._stops_to_make and entry.target_codec is not Codec.NONE:
                    self.has_stopped = True
                    return
                size = self._compressed.begin(entry)
                if size is None:
                    window.in_hand = entry.size
                    self._is_between = False
                    yield from self._compressed.rest()
                    self._is_between = True
                    window.in_hand = 0
                window.advance(entry.size)
                if size:
                    yield size
                output.plain()
            elif outcome == DAMAGE:
                raise window.damage(self._transcoder)
            elif outcome == END:
                return

    def can_run(self, end: int) -> bool:
        """Whether the kernel may convert the next records by itself: no decision is due."""
        return (
            self._is_direct
            and self._is_between
            and self.window.position < end
            and self._engine.can_run
        )

    def write(self, end: int, channel: tuple[int, bool], promised: int, budget: int) -> Progress:
        """Lets the kernel convert and write up to `end`, like `Engine.send`, until a decision is
        due. The caller has checked `can_run`. Raises ClosedRecordsError."""
        position = self.window.position
        done = self._engine.send(position, end, self.chunk_size, channel, promised, budget)
        return self._went_on(done)

    def next_made(self, pieces: Iterator[int], end: int, budget: int) -> Buffer | None:
        """The next messages, or a part of a large one, in memory. If the kernel makes them by
        itself, about `budget` bytes. Otherwise the next of the `pieces`, which end at `end`. None:
        there are no more."""
        if self.can_run(end):
            position = self.window.position
            done = self._went_on(self._engine.make(position, end, self.chunk_size, budget))
            return done.rest or b""
        size = next(pieces, None)
        return None if size is None else self.output.ready[:size]

    def messages(self, end: int) -> Iterator[Buffer]:
        """All messages up to `end`, some at a time, or parts of a large one. They are valid until
        the next ones are requested."""
        pieces = self.pieces(end)
        while (piece := self.next_made(pieces, end, MESSAGES_SIZE)) is not None:
            if piece:
                yield piece

    def _measure_ahead(self, end: int) -> int:
        """Lets the kernel measure until a decision is due. Returns the size."""
        return self._went_on(self._engine.measure(self.window.position, end)).size

    def _went_on(self, done: Progress) -> Progress:
        """Updates the position after the kernel converted without the window."""
        window = self.window
        window.release()
        window.position += done.consumed
        self._compressed.counted_elsewhere()
        self._is_direct = done.goes_on
        return done

    @property
    def can_rest(self) -> bool:
        """Whether it can continue without a buffer. It cannot inside an entry larger than a window
        or a compressed one."""
        return self._is_between

    def rest(self) -> None:
        """Releases the buffers if `can_rest`: no piece is needed for a while."""
        if self._is_between:
            self.release()

    def release(self) -> None:
        """Releases the buffers, after all ready bytes have been taken."""
        self.window.release()
        self.output.release()
        self._compressed.release()

    def _decide(self) -> CompressedEntry | None:
        """Decides about the entry where the kernel stopped. Its head is in the window. Returns
        the entry if it is compressed and to be converted. None: it is left out, or the kernel
        copies or converts it."""
        window = self.window
        source, start = window.source, window.start
        size = PREFIX.unpack_from(source, start)[1] + PREFIX.size
        magic = source[start + MAGIC_AT]
        if magic < V2:
            codec_id = source[start + ATTRIBUTES_AT_LEGACY] & CODEC_MASK
        else:
            attributes = source[start + ATTRIBUTES_AT_BATCH + 1]
            if attributes & (CONTROL | TRANSACTIONAL) and self._is_left_out(attributes):
                window.advance(size)
                return None
            codec_id = attributes & CODEC_MASK
            if codec_id == Codec.NONE:
                self._transcoder.allow_next()
                return None
        codec, target_codec = self._rules.codec_for(codec_id, magic, self.position)
        if magic <= self._request.to_magic and codec is target_codec:
            self._transcoder.allow_next()
            return None
        return CompressedEntry(size, magic, codec, target_codec)

    def _is_left_out(self, attributes: int) -> bool:
        """Whether a batch is a marker, which converts to nothing, or belongs to an aborted
        transaction."""
        if not self._rules.committed_only:
            return False
        window = self.window
        header = BatchHeader.parse(window.source, window.start, window.position)
        if attributes & CONTROL:
            marker = next(read_batch(window.records, header, verify=False), None)
            if marker is not None and marker.key is not None:
                self._aborted.marker(header.producer_id, header.last_offset, marker.key)
            return True
        return self._aborted.holds(header.producer_id, header.base_offset, header.last_offset)
