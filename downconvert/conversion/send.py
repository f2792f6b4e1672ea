"""Writes a converted range to a channel. Converts a chunk after the channel has taken the last one.

It works in any loop: `selectors`, `asyncio`, a thread. Bytes that a channel did not take wait here
and are written first the next time. No byte is lost or sent twice.

Not here: the promised size (plan.py), the conversion (converter.py), writing to a channel
(records.files.sends)."""

import errno
import os
from collections.abc import Iterator
from typing import Any, Final

from records.errors import CorruptRecordsError
from records.files.sends import PendingBytes
from records.files.source import Records

from .converter import Converter
from .engine import descriptor_of
from .failed import Failed
from .filler import filler
from .made import Held
from .plan import Plan, ends
from .request import Request
from .stats import Clock, ConversionStats, Counts

CHANGED: Final = "the records changed after they were measured"

ONE_CHUNK: Final = 1  # byte: a budget that the first chunk uses up

# Bytes that a turn reads without making a piece. This happens if a large record or message is read
# ahead for its CRC, or if a batch shrinks to nearly nothing. It is more than one compressed message
# needs, so most sends hold no buffers between two turns.
UNPRODUCTIVE_MAX: Final = 2 * 1024 * 1024


class LazyDownConvertSend:
    """The bytes of one `LazyDownConvertRecords`, once. Not for two threads at a time."""

    __slots__ = (
        "_chunk_size",
        "_clock",
        "_converter",
        "_counts",
        "_cuts_no_message",
        "_end",
        "_filler_bytes",
        "_held",
        "_is_exact",
        "_pending",
        "_pieces",
        "_seconds",
        "_sent",
        "size",
    )

    def __init__(
        self,
        records: Records,
        request: Request,
        plan: Plan,
        size_max: int | None = None,
        *,
        clock: Clock,
    ) -> None:
        """The first `size_max` bytes of the plan, or all of it."""
        self.size = plan.size if size_max is None else min(plan.size, size_max)
        self._chunk_size = request.policy.chunk_size
        self._is_exact = plan.is_exact
        self._cuts_no_message = plan.cuts_no_message and self.size == plan.size
        self._clock = clock
        self._held = held = plan.held  # the messages at its end
        self._pending = PendingBytes()  # converted, and not taken by the channel
        self._converter: Converter | None = None
        self._end = 0  # how far the conversion goes before the next of the ends
        self._pieces: Iterator[int] = iter(())
        if held is not None and not plan.held_from:
            self._pending.left = memoryview(held.messages)[: self.size]
        else:
            self._converter = Converter.converting(records, request)
            self._pieces = self._all_pieces(self._converter, ends(records, request, plan), held)
        self._sent = self._filler_bytes = 0
        self._seconds = 0.0 if held is None else held.seconds
        self._counts = Counts() if held is None else held.counts  # of the held messages

    @property
    def remaining(self) -> int:
        """Bytes that are promised and not yet written."""
        return self.size - self._sent

    @property
    def completed(self) -> bool:
        """Whether all promised bytes have been written."""
        return self._sent == self.size

    def write_to(self, channel: Any, budget: int | None = None) -> int:
        """Writes to the channel and returns the bytes written: one chunk by one write, or chunk
        after chunk until the channel takes no more or `budget` bytes have been converted or
        written.

        A chunk is converted just before it is written. The kernel moves it from the file to a plain
        socket, pipe or raw file by itself, unless a decision is due. Between two calls with a
        budget the send holds only the part of a chunk that the channel has not taken.

        0: not now. The channel takes nothing, or a chunk's worth of records converted to nothing.
        Raises CorruptRecordsError if an estimate was promised and the records are damaged further
            on, or if they changed after they were measured. Raises OSError if they cannot be read.
            Later calls raise the same error: a failed send is never completed. Errors of the
            channel pass through, and the next call continues. `remaining` then shows how much was
            written."""
        if self._converter is None:
            return self._write_held(channel, self._chunk_size if budget is None else budget)
        descriptor = descriptor_of(channel)
        converter, window = self._converter, self._converter.window
        sent, position = self._sent, window.position
        steps, steps_max = 0, max(UNPRODUCTIVE_MAX // self._chunk_size, 1)
        enough = ONE_CHUNK if budget is None else budget
        enough_passed = max(enough, self._chunk_size)
        try:
            while self._sent < self.size:
                done, passed = self._sent - sent, window.position - position
                if done >= enough or passed >= enough_passed or steps >= steps_max:
                    break
                if descriptor is None or self._pending.left or not converter.can_run(self._end):
                    steps += not self._write_piece(converter, channel)
                else:
                    # The kernel writes several chunks at once to a socket. The first chunk is
                    # written alone, so that the client's first byte comes early.
                    is_first = descriptor[1] and not self._sent
                    left = ONE_CHUNK if is_first else max(enough - max(done, passed), ONE_CHUNK)
                    steps += not self._write_directly(converter, descriptor, left)
                if self._pending.left:
                    break
        finally:
            if (budget is not None or self._pending.left) and converter.can_rest:
                # Only a copy of the bytes that the channel has not taken is held.
                self._pending.copy()
                converter.rest()
        return self._sent - sent

    def _write_held(self, channel: Any, size_max: int) -> int:
        """Like `write_to`, if all messages are held."""
        written = self._pending.write_to(channel, size_max)
        self._sent += written
        if self._sent == self.size:
            self._finish()
        return written

    def _all_pieces(
        self, converter: Converter, ends: Iterator[int], held: Held | None
    ) -> Iterator[int]:
        """All pieces of a response. It ends with the messages made before."""
        for self._end in ends:
            yield 0  # the kernel may convert the next records
            yield from converter.pieces(self._end)
        if held is not None:
            messages, chunk_size = memoryview(held.messages), self._chunk_size
            for at in range(0, len(messages), chunk_size):
                converter.output.ready = messages[at:]
                yield min(chunk_size, len(messages) - at)

    def _write_piece(self, converter: Converter, channel: Any) -> int:
        pending = self._pending
        if not pending.left:
            remaining = self.size - self._sent
            if not remaining:
                return 0
            started = self._clock()
            try:
                size = next(self._pieces, None)
                if size is None:
                    pending.left = self._filler(converter, remaining)
                elif size > remaining:
                    pending.left = self._cut(converter, remaining)
                elif size:
                    pending.left = converter.output.ready[:size]
            except BaseException as error:
                self._fail(error)
                raise
            self._seconds += self._clock() - started
        written = pending.write_to(channel)
        self._sent += written
        if self._sent == self.size:
            self._finish()
        return written

    def _write_directly(self, converter: Converter, channel: tuple[int, bool], budget: int) -> int:
        """As much as the kernel converts and writes by itself. Returns the bytes written."""
        started = self._clock()
        try:
            written = converter.write(self._end, channel, self.remaining, budget)
        except BaseException as error:
            self._fail(error)
            raise
        self._seconds += self._clock() - started
        self._pending.left = memoryview(written.rest or b"")
        self._sent += written.size
        if self._sent == self.size:
            self._finish()
        if written.error and written.error != errno.EINTR:
            raise OSError(written.error, os.strerror(written.error))
        return written.size

    def _fail(self, error: BaseException) -> None:
        self._finish()
        self._pieces = Failed(error)
        self._end = 0

    def _finish(self) -> None:
        self._pieces = iter(())
        self._held = None
        if self._converter is not None:
            self._converter.release()

    def _filler(self, converter: Converter, remaining: int) -> memoryview:
        if self._is_exact:
            raise CorruptRecordsError(CHANGED, converter.position)
        piece = memoryview(filler(remaining))
        self._filler_bytes += len(piece)
        return piece

    def _cut(self, converter: Converter, remaining: int) -> memoryview:
        """As much of a piece as was promised."""
        if self._cuts_no_message:
            raise CorruptRecordsError(CHANGED, converter.position)
        return converter.output.ready[:remaining]

    @property
    def stats(self) -> ConversionStats:
        """The statistics so far."""
        counts, buffer_bytes = self._counts, 0
        if self._converter is not None:
            counts = self._converter.counts.plus(counts)
            buffer_bytes = self._converter.buffer_bytes
        return counts.stats(
            bytes_out=self._sent,
            filler_bytes=self._filler_bytes,
            peak_buffer_bytes=buffer_bytes,
            seconds_converting=self._seconds,
        )
