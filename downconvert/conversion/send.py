"""Writes a converted range to a channel. A chunk is converted after the channel has taken the one
before.

It works in any loop: `selectors`, `asyncio`, a thread. Bytes that a channel did not take wait here
and are written first the next time. No byte is lost or sent twice.

Not here: the promised size (plan.py), the conversion (converter.py), writing to a channel
(records.files.sends)."""

import errno
import os
from collections.abc import Iterator
from typing import Any, Final

from records.batches.compressed import STEP_SIZE
from records.errors import CorruptRecordsError
from records.files.sends import NOTHING, PendingBytes
from records.files.source import Records
from records.units import MiB

from .converter import Converter
from .engine import CHANNEL, IN_MEMORY, LIMIT, Target, descriptor_of
from .filler import filler
from .plan import Plan, ends
from .request import Request
from .stats import Clock, ConversionStats, Counts

CHANGED: Final = "the records changed after they were measured"

ONE_CHUNK: Final = 1  # byte: a budget that the first chunk uses up

# The maximum bytes that a turn reads without sending any. A turn may send nothing while it reads a
# large record ahead for its CRC, or while a batch shrinks to nearly nothing. One compressed message
# needs fewer bytes, so most sends hold no buffers between two turns.
UNPRODUCTIVE_MAX: Final = 2 * MiB


class LazyDownConvertSend:
    """The bytes of one `LazyDownConvertRecords`, once. Not for two threads at a time."""

    __slots__ = (
        "_chunk_size",
        "_clock",
        "_converter",
        "_counts",
        "_cuts_no_message",
        "_end",
        "_ends",
        "_error",
        "_filler_bytes",
        "_held",
        "_is_exact",
        "_made",
        "_pending",
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
        self._pending = PendingBytes()  # converted, and not taken by the channel
        self._converter: Converter | None = None
        self._end = 0  # converts up to here, then takes the next of `_ends`
        self._ends: Iterator[int] = iter(())
        self._error: BaseException | None = None
        self._made = held = plan.held  # counts against the budget until all of it is sent
        self._held = memoryview(b"" if held is None else held.messages)  # not yet in `_pending`
        if not plan.end:  # all messages are held
            self._pending.left, self._held = self._held[: self.size], NOTHING
        else:
            self._converter = Converter(records, request)
            if plan.is_exact:
                self._end = plan.end
            else:
                self._ends = ends(records, request, plan.end)
        self._sent = self._filler_bytes = 0
        self._seconds = 0.0 if held is None else held.seconds
        self._counts = Counts() if held is None else held.counts  # of the held messages
        if not self.size:
            self._finish()

    @property
    def remaining(self) -> int:
        """Bytes that are promised and not yet written."""
        return self.size - self._sent

    @property
    def completed(self) -> bool:
        """Whether all promised bytes have been written."""
        return self._sent == self.size

    @property
    def converts(self) -> bool:
        """Whether writing still converts records. If not, all messages have been made."""
        return self._converter is not None

    def copy_to(self, buffer: memoryview) -> bool:
        """Like `ZeroCopySend.copy_to`. Returns False if some messages have not been made."""
        if self._converter is not None:
            return False
        buffer[: self.size] = self._pending.left
        return True

    def skip(self, size: int) -> None:
        """Skips bytes that were sent in another way. Must be called before any `write_to`."""
        self._pending.left = self._pending.left[size:]
        self._note_sent(size)

    def write_to(self, channel: Any, budget: int | None = None) -> int:
        """Writes to the channel and returns the bytes written: one chunk by one write, or chunk
        after chunk until the channel takes no more or `budget` bytes have been converted or
        written.

        A chunk is converted just before it is written. The kernel moves it from the file to a plain
        socket, pipe or raw file by itself, unless a decision is due. A budget saves time: several
        chunks are read at once and, for a socket, written at once. Between two calls with a budget
        the send holds only the part of a chunk that the channel has not taken.

        0 means "not now": the channel takes nothing, or a chunk's worth of records converted to
        nothing. Raises CorruptRecordsError if an estimate was promised and the records are damaged
        further on, or if they changed after they were measured. Raises OSError if they cannot be
        read. Later calls raise the same error: a failed send is never completed. Errors of the
        channel pass through, and the next call continues. `remaining` then shows how much was
        written."""
        if self._error is not None:
            raise self._error.with_traceback(None)  # the first traceback would grow
        converter, sent, pending = self._converter, self._sent, self._pending
        if converter is None:
            self._write_pending(channel, self._chunk_size if budget is None else budget)
            return self._sent - sent
        target = descriptor_of(channel) or IN_MEMORY
        left = enough = ONE_CHUNK if budget is None else budget
        # One chunk of records is always converted, even if the budget is smaller.
        position = converter.position + max(self._chunk_size - enough, 0)
        wasted = 0
        try:
            while left > 0 and (before := self._sent) < self.size and wasted < UNPRODUCTIVE_MAX:
                is_full = False
                if not pending.left:
                    # The kernel writes several chunks at once to a socket. The first chunk is
                    # written alone, so that the client's first byte comes early.
                    is_first = target[1] and not before
                    is_full = self._convert(converter, target, ONE_CHUNK if is_first else left)
                if pending.left:
                    if not is_full:
                        self._write_pending(channel)
                    if pending.left:
                        break
                left = enough - max(self._sent - sent, converter.position - position)
                if self._sent == before:
                    wasted += max(self._chunk_size, STEP_SIZE)
        finally:
            if (budget is not None or pending.left) and converter.is_between:
                # Only a copy of the bytes that the channel has not taken is held.
                pending.copy()
                converter.release()
        return self._sent - sent

    def _convert(self, converter: Converter, target: Target, budget: int) -> bool:
        """Converts some more. Returns whether the channel is full."""
        started = self._clock()
        room = self.size - self._sent
        if target is IN_MEMORY:
            budget = ONE_CHUNK  # one write
        try:
            while (done := converter.advance(self._end, target, room, budget)) is None:
                end = next(self._ends, None)
                if end is None:
                    done = 0, 0, LIMIT, self._after(converter, room), 0
                    break
                self._end = end
            _, size, outcome, messages, error = done
            rest = NOTHING if messages is None else memoryview(messages)
            if len(rest) > room:
                if self._cuts_no_message:
                    raise CorruptRecordsError(CHANGED, converter.error_position)
                rest = rest[:room]
        except BaseException as failure:
            self._finish()
            self._error = failure
            raise
        self._seconds += self._clock() - started
        self._pending.left = rest
        if target is IN_MEMORY:
            return False
        self._note_sent(size)
        if error and error != errno.EINTR:
            raise OSError(error, os.strerror(error))
        return outcome == CHANNEL

    def _after(self, converter: Converter, room: int) -> memoryview:
        """The bytes that follow the converted ones: messages made while planning, or else
        filler."""
        if self._held:
            piece, self._held = self._held[: self._chunk_size], self._held[self._chunk_size :]
        elif self._is_exact:
            raise CorruptRecordsError(CHANGED, converter.error_position)
        else:
            piece = memoryview(filler(room))
            self._filler_bytes += len(piece)
        return piece

    def _write_pending(self, channel: Any, size_max: int | None = None) -> None:
        self._note_sent(self._pending.write_to(channel, size_max))

    def _note_sent(self, size: int) -> None:
        self._sent += size
        if self._sent == self.size:
            self._finish()

    def _finish(self) -> None:
        self._pending.left = self._held = NOTHING
        self._made = None
        if self._converter is not None:
            self._converter.release()

    @property
    def stats(self) -> ConversionStats:
        """The statistics so far."""
        counts, buffer_bytes = self._counts, 0
        if self._converter is not None:
            counts = self._converter.counts.plus(counts)
            buffer_bytes = self._converter.buffer_bytes
        return ConversionStats(
            *counts,
            bytes_out=self._sent,
            filler_bytes=self._filler_bytes,
            peak_buffer_bytes=buffer_bytes,
            seconds_converting=self._seconds,
        )
