"""A conversion that the kernel runs by itself. It converts records to a channel or to memory, or
only measures their size. It returns if a decision is due.

It reads files, mappings and memory. It writes to channels through their descriptor: plain sockets,
pipes and raw files. It does not write to a socket with a time-out, because Python waits for that
one. The caller keeps the position.

Not here: the decisions, and the cases that the kernel leaves to its caller (converter.py)."""

import io
import sys
from typing import Any, Final, NamedTuple, cast

from records import backend
from records.files.source import Records
from records.files.zero_copy import FileRange
from records.kernel import COUNTER, MEMORY, Buffer, Outcome

from .policy import RESPONSE_SIZE_MAX
from .request import Request
from .rules import rules_for
from .stats import Counts

GOES_ON: Final = int(Outcome.CHANNEL), int(Outcome.LIMIT)  # the kernel could have continued

# The kernel measures records in pieces of this size.
MEASURED_CHUNK_SIZE: Final = 128 * 1024
MEASURED_SIZE: Final = 1024 * 1024


# Compressing again costs about this many times more for each byte that goes through memory.
COMPRESSED_WEIGHT: Final = 8


class Progress(NamedTuple):
    """consumed: bytes of the records. size: bytes that the target took. rest: the unwritten part of
    a chunk, or the bytes made in memory. error: why the target took no more, as errno, or 0."""

    consumed: int
    size: int
    outcome: int
    rest: bytes | None = None
    error: int = 0

    @property
    def goes_on(self) -> bool:
        """Whether the kernel can continue by itself."""
        return self.outcome in GOES_ON


class Engine:
    """One conversion of a range of records.

    can_run: whether the kernel can read the records by itself. Every call raises ClosedRecordsError
    if the file has been closed. A call keeps the file open while it reads."""

    __slots__ = ("_records", "_view", "can_run", "transcoder")

    def __init__(self, records: Records, request: Request) -> None:
        rules = rules_for(request.policy, request.to_magic)
        self._records = records
        self._view = records.view
        self.can_run = self._view is not None or hasattr(records, "file")
        self.transcoder = backend.Transcoder(
            request.to_magic,
            request.first_offset,
            rules.pass_codecs,
            rules.committed_only,
            rules.recodes,
        )

    def send(
        self,
        position: int,
        end: int,
        chunk_size: int,
        channel: tuple[int, bool],
        room: int,
        budget: int,
    ) -> Progress:
        """Converts from `position` up to `end` and writes to a channel: a descriptor, and whether
        it is a socket. Writes at most `room` bytes, and no other chunk after `budget` bytes."""
        source, origin, _open = self._source()
        span = origin + position, origin + end
        return Progress(*self.transcoder.advance(source, *span, chunk_size, *channel, room, budget))

    def make(self, position: int, end: int, chunk_size: int, budget: int) -> Progress:
        """Converts into memory. All bytes made are in `rest`."""
        return self.send(position, end, chunk_size, (MEMORY, False), RESPONSE_SIZE_MAX, budget)

    def measure(self, position: int, end: int) -> Progress:
        """Measures the messages of the next records, up to `MEASURED_SIZE` bytes."""
        counter = COUNTER, False
        return self.send(
            position, end, MEASURED_CHUNK_SIZE, counter, RESPONSE_SIZE_MAX, MEASURED_SIZE
        )

    @property
    def work(self) -> int:
        """The work so far: bytes that went through memory. Bytes compressed again count several
        times."""
        _, _, source_bytes, produced, copied = self.transcoder.totals
        weight = COMPRESSED_WEIGHT if self.transcoder.decompressed else 1
        return (source_bytes + produced + copied) * weight

    def counts(self, consumed: int) -> Counts:
        """The kernel's counts so far. `consumed`: bytes of the records converted for them."""
        records, batches, source_bytes, produced, copied = self.transcoder.totals
        return Counts(records, batches, consumed, source_bytes + produced + copied)

    def _source(self) -> tuple[int | Buffer, int, object]:
        """The source for the kernel, where the records begin in it, and an object that keeps it
        open."""
        if self._view is not None:
            return self._view, 0, None
        records = cast(FileRange, self._records)
        file = records.file
        return file.fileno(), records.origin, file


def descriptor_of(channel: Any) -> tuple[int, bool] | None:
    """The descriptor of a channel that the kernel can write to, and whether it is a socket.
    None: the kernel cannot write to it."""
    if type(channel) is io.FileIO:
        return channel.fileno(), False
    socket = sys.modules.get("socket")
    if socket is None or type(channel) is not socket.socket:
        return None
    if channel.gettimeout() or channel.fileno() < 0:
        return None
    return channel.fileno(), True
