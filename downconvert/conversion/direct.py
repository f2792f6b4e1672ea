"""From a file to a channel by one call of the kernel, which converts and writes by itself.

For files, mappings and memory; and for channels that are written through their descriptor: plain
sockets, pipes, raw files. Not for a socket with a time-out, for which Python waits.

Not here: what the kernel leaves to its caller (converter.py), how the bytes written are counted
(send.py)."""

import io
import sys
from collections.abc import Callable
from typing import Any, Concatenate, NamedTuple, ParamSpec, TypeVar, cast

from records.files.source import Records
from records.files.zero_copy import FileRange
from records.kernel import MEMORY as MEMORY
from records.kernel import Buffer

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


class Written(NamedTuple):
    """What the kernel has written. size: bytes that the channel took. rest: what it left of a
    chunk, or what was written to memory. error: why, as errno, or 0."""

    size: int
    rest: bytes | None
    error: int


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
