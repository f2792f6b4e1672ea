"""Converts from a file to a target (`Transcoder.advance`).

Not here: converting a chunk (transcoder.py)."""

import errno
import os
from dataclasses import dataclass
from typing import Final

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
from records.kernel import COUNTER, MEMORY, PLAIN, Advanced, Buffer, Outcome
from records.units import KiB

from . import sources
from .places import Header
from .state import Stateful

EXPANSION_MAX: Final = 8  # limits the decompressed bytes to this multiple of the budget
LARGE_CHUNK_SIZE: Final = 64 * KiB  # two chunks are read at once if they are smaller


@dataclass
class Advance:
    """One call, and its progress."""

    source: int | Buffer
    position: int
    end: int
    chunk_size: int
    target: int
    room: int
    budget: int
    consumed: int = 0
    written: int = 0
    rest: bytes | None = None
    error: int = 0

    def __post_init__(self) -> None:
        limits = (self.position, self.end - self.position, self.room, self.budget)
        if min(limits) < 0 or self.chunk_size <= 0 or self.target < COUNTER:
            raise ValueError("a number is negative, or nothing can be done")
        sources.check(self.source, self.position)

    def run(self, transcoder: Stateful) -> Advanced:
        chunk = memoryview(bytearray(2 * self.chunk_size))
        account = transcoder.state.account
        before = account.decompressed_bytes
        is_small = self.chunk_size < LARGE_CHUNK_SIZE
        sizes = (self.chunk_size, 2 * self.chunk_size) if is_small else (self.chunk_size,)
        while True:
            left = self.end - self.position - self.consumed
            if not left:
                return self._done(Outcome.END)
            expanded = (account.decompressed_bytes - before) // EXPANSION_MAX
            work = max(self.consumed, self.written, expanded)
            if work >= self.budget or self.written >= self.room:
                return self._done(Outcome.LIMIT)
            room = self.room - self.written
            for size in sizes:  # a larger window if an item is larger than a chunk
                window = self._window(min(size, left))
                if not window:
                    return self._done(Outcome.SOURCE)
                call = (window, 0, len(window), left)
                if self.target == COUNTER:
                    consumed, produced, outcome = transcoder.measure(*call, room)
                else:
                    room = min(len(chunk), room)
                    consumed, produced, outcome = transcoder.transcode(*call, chunk, 0, room)
                if consumed or outcome != Outcome.SOURCE:
                    break
            self.consumed += consumed
            if self.target == COUNTER:
                self.written += produced
            elif produced and not self._write(chunk[:produced]):
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

    def _recoded(self, transcoder: Stateful) -> bytes | None:
        """The next batch as messages; None if it is left to the caller. It ends within the range:
        rule 2 of a log comes before the rules that ask for a decision."""
        recodes = transcoder.state.recodes
        head = self._window(BATCH_HEADER_SIZE)
        if len(head) < BATCH_HEADER_SIZE or head[MAGIC_AT] != V2:
            return None
        room = self.room - self.written
        header = Header.read(head, 0)
        size = header.size + PREFIX.size
        is_transactional = header.attributes & (CONTROL | TRANSACTIONAL)
        if is_transactional and transcoder.state.stop_transactional:
            return None
        codec = recodes.codecs.ljust(8, b"\0")[header.attributes & CODEC_MASK]
        compressing = () if self.target == COUNTER else (Codec.GZIP, Codec.SNAPPY, Codec.LZ4)
        if codec not in (PLAIN, *compressing):
            return None
        if size > recodes.body_size_max:
            return None
        entry = self._window(size)
        if len(entry) < size:
            return None
        target_codec = None if codec == PLAIN else Codec(codec)
        made = transcoder.recode_into(memoryview(entry), target_codec, room)
        if made is not None:
            self.consumed += size
        return made

    def _window(self, size: int) -> Buffer:
        return sources.read(self.source, self.position + self.consumed, size)

    def _write(self, chunk: memoryview) -> bool:
        """Writes a chunk. Returns whether the target took all of it."""
        if self.target < 0:
            self.written += len(chunk)
            if self.target == MEMORY:
                self.rest = (self.rest or b"") + chunk
            return True
        try:
            taken = os.write(self.target, chunk)
        except OSError as error:
            if error.errno not in (errno.EAGAIN, errno.EWOULDBLOCK):
                self.error = error.errno or errno.EIO
            taken = 0
        self.written += taken
        self.rest = bytes(chunk[taken:]) or None
        return self.rest is None

    def _done(self, outcome: Outcome) -> Advanced:
        return self.consumed, self.written, outcome, self.rest, self.error
