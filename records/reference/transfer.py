"""Converts from a file to a channel (`Transcoder.transfer`), or only measures.

Not here: converting a chunk (transcoder.py)."""

import errno
import os
from dataclasses import dataclass
from typing import Final, Protocol

from records.formats import (
    BATCH_HEADER_SIZE,
    CODEC_MASK,
    CONTROL,
    MAGIC_AT,
    PREFIX,
    TRANSACTIONAL,
    V2,
    Codec,
)
from records.kernel import MEMORY, Buffer, Outcome, Progress, Recodes, Transcoder, Transferred

from . import sources
from .places import Header

EXPANSION_MAX: Final = 8  # the limit of decompressed bytes, as a multiple of the budget
LARGE_CHUNK_SIZE: Final = 64 * 1024  # two smaller chunks are read at once


class Transferring(Transcoder, Protocol):
    """The methods of a transcoder that a transfer needs."""

    @property
    def stops_transactional(self) -> bool: ...
    def recode_into(self, room: int, entry: Buffer, codec: int, how: Recodes) -> bytes | None:
        """Like `recode`. None also if the messages are more than `room` bytes."""


@dataclass
class Transfer:
    """One call, and its progress."""

    source: int | Buffer
    position: int
    end: int
    chunk_size: int
    channel: int
    promised: int
    budget: int
    recodes: Recodes | None
    consumed: int = 0
    written: int = 0
    rest: bytes | None = None
    error: int = 0

    def __post_init__(self) -> None:
        limits = (self.position, self.end - self.position, self.promised, self.budget)
        if min(limits) < 0 or self.chunk_size <= 0 or self.channel < MEMORY:
            raise ValueError("a number is negative, or nothing can be done")
        sources.check(self.source, self.end)

    def run(self, transcoder: Transferring) -> Transferred:
        target = memoryview(bytearray(2 * self.chunk_size))
        before = transcoder.decompressed
        is_small = self.chunk_size < LARGE_CHUNK_SIZE
        sizes = (self.chunk_size, 2 * self.chunk_size) if is_small else (self.chunk_size,)
        while True:
            left = self.end - self.position - self.consumed
            if not left:
                return self._done(Outcome.END)
            expanded = (transcoder.decompressed - before) // EXPANSION_MAX
            work = max(self.consumed, self.written, expanded)
            if work >= self.budget or self.written >= self.promised:
                return self._done(Outcome.LIMIT)
            room = min(len(target), self.promised - self.written)
            for size in sizes:  # a larger window if an item is larger than a chunk
                window = self._window(min(size, left))
                if not window:
                    return self._done(Outcome.SOURCE)
                consumed, produced, outcome = transcoder.transcode(
                    window, 0, len(window), left, target, 0, room
                )
                if consumed or outcome != Outcome.SOURCE:
                    break
            self.consumed += consumed
            if produced and not self._write(target[:produced]):
                return self._done(Outcome.CHANNEL)
            if outcome == Outcome.BATCH:
                made = self._recoded(transcoder)
                if made is None:
                    return self._done(Outcome.BATCH)
                if made and not self._write(memoryview(made)):
                    return self._done(Outcome.CHANNEL)
                continue
            goes_on = (outcome == Outcome.SOURCE and consumed) or (
                outcome == Outcome.TARGET and produced
            )
            if not goes_on:
                return self._done(Outcome(outcome))

    def _recoded(self, transcoder: Transferring) -> bytes | None:
        """The next batch as messages. None: it is for the caller."""
        recodes = self.recodes
        left = self.end - self.position - self.consumed
        head = self._window(min(BATCH_HEADER_SIZE, left))
        if recodes is None or len(head) < BATCH_HEADER_SIZE or head[MAGIC_AT] != V2:
            return None
        room = self.promised - self.written
        header = Header.read(head, 0)
        size = header.size + PREFIX.size
        is_transactional = header.attributes & (CONTROL | TRANSACTIONAL)
        if room <= 0 or (is_transactional and transcoder.stops_transactional):
            return None
        codec = recodes.codecs.ljust(8, b"\0")[header.attributes & CODEC_MASK]
        if codec not in (Codec.GZIP, Codec.SNAPPY, Codec.LZ4):
            return None
        if size > min(recodes.body_size_max, left):
            return None
        entry = self._window(size)
        if len(entry) < size:
            return None
        made = transcoder.recode_into(room, entry, codec, recodes)
        if made is not None:
            self.consumed += size
        return made

    def _window(self, size: int) -> Buffer:
        return sources.read(self.source, self.position + self.consumed, size)

    def _write(self, chunk: memoryview) -> bool:
        """Writes a chunk. Returns whether the channel took all of it."""
        if not chunk:
            return True
        if self.channel == MEMORY:
            self.rest = (self.rest or b"") + chunk
            self.written += len(chunk)
            return True
        try:
            taken = os.write(self.channel, chunk)
        except OSError as error:
            if error.errno not in (errno.EAGAIN, errno.EWOULDBLOCK):
                self.error = error.errno or errno.EIO
            taken = 0
        self.written += taken
        self.rest = bytes(chunk[taken:]) or None
        return self.rest is None

    def _done(self, outcome: Outcome) -> Transferred:
        return self.consumed, self.written, outcome, self.rest, self.error


def measure_from(
    transcoder: Transcoder,
    source: int | Buffer,
    position: int,
    end: int,
    chunk_size: int,
    room: int,
    budget: int,
) -> Progress:
    if min(position, end - position, room, budget) < 0 or chunk_size <= 0:
        raise ValueError("a number is negative, or nothing can be done")
    sources.check(source, end)
    consumed = produced = 0
    while left := end - position - consumed:
        if consumed >= budget:
            return consumed, produced, Outcome.LIMIT
        window = sources.read(source, position + consumed, min(chunk_size, left))
        if not window:
            return consumed, produced, Outcome.SOURCE
        progress = transcoder.measure(window, 0, len(window), left, room - produced)
        consumed += progress[0]
        produced += progress[1]
        if progress[2] != Outcome.SOURCE or not progress[0]:
            return consumed, produced, progress[2]
    return consumed, produced, Outcome.END
