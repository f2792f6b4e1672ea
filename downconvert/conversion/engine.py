"""Converts records by the kernel: to a channel or into memory, or only measures their size.

The kernel reads files, mappings and memory. This file reads records without a descriptor for it, a
window at a time. The kernel writes to the descriptors of plain sockets, pipes and raw files. It
does not write to a socket with a timeout, because Python must wait for that one.

Not here: decisions, the position (converter.py), what the kernel leaves to Python (streamed)."""

import io
import sys
from typing import Any, Final, TypeAlias

from records import backend
from records.files.source import Records
from records.kernel import COUNTER, MEMORY, Buffer, Outcome
from records.units import KiB

from . import buffers
from .request import Request
from .rules import rules_for
from .stats import Counts

CHANNEL, END, LIMIT, SOURCE = (
    int(outcome) for outcome in (Outcome.CHANNEL, Outcome.END, Outcome.LIMIT, Outcome.SOURCE)
)

Target: TypeAlias = tuple[int, bool]  # a descriptor, and whether it is a socket
IN_MEMORY: Final[Target] = MEMORY, False
COUNTED: Final[Target] = COUNTER, False

# Recompressing a byte costs about this many times as much as moving a byte through memory.
COMPRESSED_WEIGHT: Final = 8

# An item may be as large as one chunk if chunks have this size or more, else as large as two
# chunks.
LARGE_CHUNK_SIZE: Final = 64 * KiB


# Bytes of records consumed; bytes that the target took; the outcome; messages in memory (those that
# a channel has not taken, if the target is one); the errno of the last write, or 0.
Progress: TypeAlias = tuple[int, int, int, Buffer | None, int]


class Engine:
    """One conversion of a range of records. Raises ClosedRecordsError if the file has been closed.
    A call keeps the file open while it reads."""

    __slots__ = ("_is_file", "_records", "_view", "rules", "transcoder")

    def __init__(self, records: Records, request: Request) -> None:
        self.rules = rules = rules_for(request.policy, request.to_magic)
        self._records: Any = records
        self._view = records.view
        self._is_file = hasattr(type(records), "file")
        self.transcoder = backend.Transcoder(
            request.to_magic,
            request.first_offset,
            rules.pass_codecs,
            rules.committed_only,
            rules.recodes,
        )

    def advance(
        self, position: int, end: int, chunk_size: int, target: Target, room: int, budget: int
    ) -> Progress:
        """Converts from `position` up to `end`. Makes at most `room` bytes, and begins no other
        chunk after `budget` bytes."""
        if self._view is not None:
            source, origin = self._view, 0
        elif self._is_file:
            file = self._records.file  # held during the call: another thread may close it
            source, origin = file.fileno(), self._records.origin
        else:
            return self._advance_window(position, end, chunk_size, target, room, budget)
        descriptor, is_socket = target
        return self.transcoder.advance(
            source, origin + position, origin + end, chunk_size, descriptor, is_socket, room, budget
        )

    def _advance_window(
        self, position: int, end: int, chunk_size: int, target: Target, room: int, budget: int
    ) -> Progress:
        """Converts a window that this method reads for the kernel."""
        left = end - position
        window = buffers.take(chunk_size if chunk_size >= LARGE_CHUNK_SIZE else 2 * chunk_size)
        try:
            view = memoryview(window)
            source = view[: self._records.read_into(view[:left], position)]
            call = source, 0, left, chunk_size, *target, room, budget
            consumed, size, outcome, rest, error = self.transcoder.advance(*call)
        finally:
            buffers.release(window)
        if outcome == SOURCE and consumed:
            outcome = LIMIT
        return consumed, size, outcome, rest, error

    def counts(self, consumed: int) -> Counts:
        """The kernel's counts so far. `consumed`: bytes of records that it has converted."""
        records, batches, temporary_bytes, _ = self.transcoder.totals
        return Counts(records, batches, consumed, temporary_bytes)


def descriptor_of(channel: Any) -> Target | None:
    """The channel's descriptor, and whether it is a socket. None if the kernel cannot write to
    it."""
    if type(channel) is io.FileIO:
        return channel.fileno(), False
    socket = sys.modules.get("socket")
    if socket is None or type(channel) is not socket.socket:
        return None
    descriptor = channel.fileno()
    return None if descriptor < 0 or channel.gettimeout() else (descriptor, True)
