"""Moves bytes from one socket to another without copying them to user space [splice(2)].

The operating system moves a response through a pipe. For plain sockets on Linux only; others are
copied (streams.py)."""

import asyncio
import fcntl
import os
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final

IS_POSSIBLE: Final = hasattr(os, "splice")
PIPE_SIZE: Final = 256 * 1024  # bytes that are moved at a time
WORTHWHILE: Final = 128 * 1024  # bytes: below that, a pipe costs more than the copies
ROUNDS: Final = 4  # until others have their turn
Wait = Callable[["asyncio.Future[None]"], Awaitable[None]]


class TargetEndedError(Exception):
    """The connection that bytes go to has broken."""


class Splice:
    """A pipe between two non-blocking sockets, for a response of `size` bytes.

    `left`: bytes that have not been taken from the source."""

    def __init__(self, source: int, target: int, size: int) -> None:
        self.left = size
        self._in_pipe = 0
        # An event loop watches a file for one purpose: copies of the sockets are other files.
        self._files: list[int] = []
        try:
            self._files += [os.dup(source), os.dup(target)]
            self._files += os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
            self._source, self._target, self._outlet, self._inlet = self._files
            with suppress(OSError):  # the user has too many pipes: it stays at 64 KiB
                fcntl.fcntl(self._inlet, fcntl.F_SETPIPE_SZ, PIPE_SIZE)
        except BaseException:
            self.close()
            raise

    @property
    def pending(self) -> int:
        """Bytes that the target has not taken."""
        return self.left + self._in_pipe

    async def run(self, has_ended: Callable[[], bool], to_read: Wait, to_write: Wait) -> bool:
        """Moves all of it. False: the source ended before.

        `to_read`, `to_write`: wait for a future that is set when the source has something, or the
        target takes something. TargetEndedError, OSError, and what these raise."""
        rounds = 0
        while self.pending:
            if has_ended():
                return False
            if not self._in_pipe:
                try:
                    if not self._fill():
                        return False
                except BlockingIOError:
                    await until(self._source, to_read, writes=False)
            while self._in_pipe and not self._empty():
                await until(self._target, to_write, writes=True)
            rounds += 1
            if rounds % ROUNDS == 0:
                await asyncio.sleep(0)
        return True

    def _fill(self) -> bool:
        """Whether the source has not ended. BlockingIOError: nothing has arrived."""
        size = os.splice(self._source, self._inlet, min(self.left, PIPE_SIZE))
        self._in_pipe += size
        self.left -= size
        return size > 0

    def _empty(self) -> bool:
        """Whether something was taken. TargetEndedError: it takes nothing any more."""
        try:
            self._in_pipe -= os.splice(self._outlet, self._target, self._in_pipe)
        except BlockingIOError:
            return False
        except OSError as error:
            raise TargetEndedError from error
        return True

    def close(self) -> None:
        for file in self._files:
            os.close(file)
        self._files = []


async def until(file: int, wait: Wait, *, writes: bool) -> None:
    """Waits until a file takes something, or has something. It must be a copy: an event loop
    watches a file for one purpose. What `wait` raises."""
    loop = asyncio.get_running_loop()
    add, remove = (
        (loop.add_writer, loop.remove_writer) if writes else (loop.add_reader, loop.remove_reader)
    )
    future: asyncio.Future[None] = loop.create_future()
    add(file, _set, future)
    try:
        await wait(future)
    finally:
        remove(file)


def _set(future: "asyncio.Future[None]") -> None:
    if not future.done():
        future.set_result(None)
