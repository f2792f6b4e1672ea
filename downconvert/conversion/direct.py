"""From a file to a channel by one call of the kernel, which converts and writes by itself.

For files, mappings and memory; and for channels that are written through their descriptor: plain
sockets, pipes, raw files. Not for a socket with a time-out, for which Python waits.

Not here: what the kernel leaves to its caller (converter.py), how the bytes written are counted
(send.py)."""

import io
import sys
from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec, Self, TypeVar, cast

from records.kernel import MEMORY, Buffer, Recodes, Transcoder
from records.source import Records
from records.zero_copy import FileRange

from .policy import RESPONSE_SIZE_MAX

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


class Direct:
    """One turn: what may be written to which descriptor, and what came of it.

    promised: bytes that the send has left. budget: bytes that the turn has left. written: bytes
    that the channel took. rest: what it left of a chunk, or what was written to memory; error: why,
    as errno, or 0."""

    __slots__ = (
        "_descriptor",
        "_is_socket",
        "budget",
        "error",
        "promised",
        "rest",
        "written",
    )

    def __init__(self, descriptor: int, is_socket: bool, promised: int, budget: int) -> None:
        self._descriptor = descriptor
        self._is_socket = is_socket
        self.promised = promised
        self.budget = budget
        self.written = self.error = 0
        self.rest: bytes | None = None

    @classmethod
    def into_memory(cls, budget: int) -> Self:
        """All that is written is in `rest`."""
        return cls(MEMORY, False, RESPONSE_SIZE_MAX, budget)

    def run(
        self,
        transcoder: Transcoder,
        source: "Source",
        position: int,
        end: int,
        chunk_size: int,
        recodes: Recodes,
    ) -> tuple[int, int]:
        """Bytes consumed, and the Outcome."""
        consumed, self.written, outcome, self.rest, self.error = source.call(
            transcoder.transfer,
            position,
            end,
            chunk_size,
            self._descriptor,
            self._is_socket,
            self.promised,
            self.budget,
            recodes,
        )
        return consumed, outcome


class Source:
    """Records that the kernel can read by itself: in memory, or in a file."""

    __slots__ = ("_records", "_view")

    def __init__(self, records: Records, view: Buffer | None) -> None:
        """`view`: all of the records; None: they are in a file."""
        self._records = records
        self._view = view

    def call(
        self,
        function: Callable[Concatenate[int | Buffer, int, int, Arguments], Result],
        position: int,
        end: int,
        *arguments: Arguments.args,
        **named: Arguments.kwargs,
    ) -> Result:
        """Calls a function of the kernel with these records from `position` up to `end`.

        ClosedRecordsError: the file has been closed. While it is read it stays open."""
        if self._view is not None:
            return function(self._view, position, end, *arguments, **named)
        records = cast(FileRange, self._records)
        file, origin = records.file, records.origin
        number = file.fileno()
        return function(number, origin + position, origin + end, *arguments, **named)


def source_of(records: Records) -> Source | None:
    """What the kernel can read these records from; or None."""
    if records.view is not None or hasattr(records, "file"):
        return Source(records, records.view)
    return None


def descriptor_of(channel: Any) -> tuple[int, bool] | None:
    """The descriptor of a channel that the kernel can write to, and whether it is a socket; or
    None."""
    if type(channel) is io.FileIO:
        return channel.fileno(), False
    socket = sys.modules.get("socket")
    if socket is None or type(channel) is not socket.socket:
        return None
    if channel.gettimeout() or channel.fileno() < 0:
        return None
    return channel.fileno(), True
