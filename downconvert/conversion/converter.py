"""The walk over a log that is being converted, a bounded piece at a time.

Windows of the log go through the kernel. Where it comes back for a decision the policy's rules
decide; compressed batches and what is larger than a window go their own ways (compressed.py,
oversize.py). What is ready lies in `ready[:n]` for each n that the walk gives, until it is asked
for the next.

The same walk measures: then sizes are all that it gives and nothing is written. Only compressed
output has no size before it is made, so it is made then, too, and dropped.

Not here: when the walk is driven and where its bytes go (send.py, plan.py)."""

from collections.abc import Iterable, Iterator
from typing import Final

from records.backend import Transcoder
from records.batch import BatchHeader
from records.errors import CorruptRecordsError
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
from records.reader import read_batch
from records.source import TRUNCATED, Records

from . import buffers
from .aborted import AbortedTransactions
from .compressed import CompressedBatches
from .oversize import Oversize
from .policy import RESPONSE_SIZE_MAX, ConversionPolicy
from .rules import rules_for
from .stats import ConversionStats

SOURCE, TARGET, BATCH, END, DAMAGE = (
    int(outcome)
    for outcome in (Outcome.SOURCE, Outcome.TARGET, Outcome.BATCH, Outcome.END, Outcome.DAMAGE)
)

LARGE_CHUNK_SIZE: Final = 64 * 1024


def _window_size(policy: ConversionPolicy, measuring: bool, first_only: bool) -> int:
    """Of the log. Two small chunks are read at once, since a read costs as much as four kilobytes
    do; measuring, which has no target, takes its room. No record larger than `record_size_max`
    fits, so that none goes unseen."""
    size = policy.chunk_size
    if not measuring:
        size *= 2 if size < LARGE_CHUNK_SIZE else 1
    elif not first_only:
        size = max(size, LARGE_CHUNK_SIZE)
    return min(size, policy.record_size_max or size)


class Converter:
    """Converts one range of records once. Its buffers are had from the first step of a walk on: an
    answer of many ranges holds those of one.

    `position` is how far it has come in the source; `ready` is where the last piece lies."""

    def __init__(
        self,
        records: Records,
        to_magic: int,
        first_offset: int,
        policy: ConversionPolicy,
        *,
        measuring: bool = False,
        first_only: bool = False,
    ) -> None:
        """`measuring`: sizes are all that is asked for; `first_only`: of little more than a
        batch."""
        self.records = records
        self.to_magic = to_magic
        self.first_offset = first_offset
        self.policy = policy
        self.measuring = measuring
        self.position = 0
        self.in_hand = 0  # bytes from there on that are being converted as one
        window_size = _window_size(policy, measuring, first_only)
        self._is_held = records.view is not None  # the window is all of the records
        self._has_buffers = False
        self._spare = self._target = bytearray()
        self.source_view = self.target = self.ready = memoryview(self._spare)
        self.source: Buffer = self._spare
        self._step = window_size if measuring else policy.chunk_size
        self._step_max = window_size
        self._buffer_bytes = 0
        self.start = self.filled = 0  # source[start:filled] is the log from `position` on
        self._rules = rules_for(policy, to_magic)
        self._committed_only = policy.isolation == "read_committed"
        self.transcoder = Transcoder(
            to_magic, first_offset, self._rules.pass_codecs, self._committed_only
        )
        self._aborted = AbortedTransactions(policy.aborted)
        self._oversize = Oversize()
        self._compressed = CompressedBatches(policy)

    @property
    def compresses(self) -> bool:
        """Whether something has had to be compressed again."""
        return self._compressed.has_compressed

    def stats(
        self, *, bytes_out: int = 0, filler: int = 0, seconds: float = 0.0
    ) -> ConversionStats:
        """What has been done so far, with what only the caller knows."""
        records, batches, source_bytes, produced, copied = self.transcoder.totals
        temporary = source_bytes + produced + copied
        compressed, oversize = self._compressed, self._oversize
        return ConversionStats(
            records_converted=records + oversize.messages,
            batches_converted=batches + oversize.messages,
            bytes_in=self.position + self.in_hand,
            bytes_out=bytes_out,
            filler_bytes=filler,
            temporary_bytes=temporary + compressed.temporary_bytes + oversize.copied_bytes,
            peak_buffer_bytes=self._buffer_bytes + compressed.buffer_bytes,
            seconds_converting=seconds,
        )

    def walk(self, end: int) -> Iterator[int]:
        """Converts up to `end`: the boundary of an entry, or the end of the records.

        Gives the size of each piece, or 0 where a window's worth of work made none. Raises
        RecordsError where the records are damaged or refused, after everything before that
        place."""
        if not self._has_buffers:
            self._take_buffers()
        source, target = self.source, self._target
        capacity = len(target)
        transcode, measure = self.transcoder.transcode, self.transcoder.measure
        step = self._step
        while self.position < end:
            if self.start >= self.filled:
                self.read()
            start, left = self.start, end - self.position
            stop = min(start + step, self.filled)
            if self.measuring:
                consumed, produced, outcome = measure(source, start, stop, left, RESPONSE_SIZE_MAX)
            else:
                consumed, produced, outcome = transcode(
                    source, start, stop, left, target, 0, capacity
                )
            self.position += consumed
            self.start = start + consumed
            if produced or self.start >= stop:
                yield produced
            step = self._step
            if outcome == SOURCE or (outcome == TARGET and not produced):
                if consumed and stop < self.filled:
                    continue  # the window goes on behind the chunk
                if not consumed and (start == 0 or self._is_held):
                    if stop - start < self._step_max and stop < self.filled and outcome == SOURCE:
                        step = self._step_max  # an item larger than a chunk, but not that large
                        continue
                    yield from self._oversize.convert(self, left)
                self.start = self.filled = 0
            elif outcome == BATCH:
                yield from self._decide()
                self.ready = self.target
            elif outcome == DAMAGE:
                raise self.damage()
            elif outcome == END:
                return

    def _take_buffers(self) -> None:
        self._has_buffers = True
        view = self.records.view
        self._spare = buffers.take(0 if view is not None else self._step_max)
        self.source_view = memoryview(self._spare) if view is None else view
        self.source = self._spare if view is None else self.source_view
        # Messages have 26 or 34 bytes more than key and value, records 7 or more: room for nearly
        # every chunk's.
        self._target = buffers.take(0 if self.measuring else 2 * self.policy.chunk_size)
        self.target = self.ready = memoryview(self._target)
        self._buffer_bytes = len(self._spare) + len(self._target)

    def release(self) -> None:
        """Nothing more will be asked for: the buffers are for others now."""
        for buffer in (self._spare, self._target):
            buffers.give_back(buffer)
        self.source = self._spare = self._target = bytearray()
        self.source_view = self.target = self.ready = memoryview(self._spare)

    def read(self) -> None:
        """Reads the window that begins at `position`."""
        if self._is_held:
            self.start, self.filled = self.position, len(self.source)
        else:
            self.start, self.filled = 0, self.records.read_into(self.source_view, self.position)
        if self.start >= self.filled:
            raise self.damaged(TRUNCATED)

    def skip(self, size: int) -> None:
        """Goes over the entry that the walk stands before."""
        self.position += size
        self.start += size

    def damaged(self, reason: str) -> CorruptRecordsError:
        """The error for damage to the entry or record that the walk stands before."""
        return CorruptRecordsError(reason, self.records.origin + self.position)

    def damage(self) -> CorruptRecordsError:
        """The error for what the kernel found in the window."""
        reason, index = self.transcoder.damage or ("damaged", self.start)
        return CorruptRecordsError(reason, self.records.origin + self.position + index - self.start)

    def _decide(self) -> Iterable[int]:
        """What the kernel asked about: the window holds the head of the entry at `start`."""
        source, start = self.source, self.start
        size = PREFIX.unpack_from(source, start)[1] + PREFIX.size
        magic = source[start + MAGIC_AT]
        if magic < V2:
            codec_id = source[start + ATTRIBUTES_AT_LEGACY] & CODEC_MASK
        else:
            attributes = source[start + ATTRIBUTES_AT_BATCH + 1]
            if attributes & (CONTROL | TRANSACTIONAL) and self._is_left_out(attributes):
                self.skip(size)
                return ()
            codec_id = attributes & CODEC_MASK
            if codec_id == Codec.NONE:
                self.transcoder.admit()
                return ()
        codec, instead = self._rules.codec_for(codec_id, magic, self.records.origin + self.position)
        if magic <= self.to_magic and codec is instead:
            self.transcoder.admit()
            return ()
        pieces = self._compressed.convert(self, size, codec, instead)
        if isinstance(pieces, tuple):
            self.skip(size)
            return pieces
        return self._in_hand(pieces, size)

    def _in_hand(self, pieces: Iterable[int], size: int) -> Iterator[int]:
        self.in_hand = size
        yield from pieces
        self.in_hand = 0
        self.skip(size)

    def _is_left_out(self, attributes: int) -> bool:
        """Whether a batch is a marker, which converts to nothing, or belongs to an aborted
        transaction."""
        if not self._committed_only:
            return False
        header = BatchHeader.parse(self.source, self.start, self.position)
        if attributes & CONTROL:
            marker = next(read_batch(self.records, header, verify=False), None)
            if marker is not None and marker.key is not None:
                self._aborted.marker(header.producer_id, header.last_offset, marker.key)
            return True
        return self._aborted.holds(header.producer_id, header.base_offset, header.last_offset)
