"""Moves bytes from one socket to another without copying them to user space [splice(2)].

The operating system moves a response through a pipe. For plain sockets on Linux only; others are
copied (streams.py)."""

import asyncio
import fcntl
import os
from contextlib import suppress
from typing import Final

IS_POSSIBLE: Final = hasattr(os, "splice")
PIPE_SIZE: Final = 256 * 1024  # bytes that are moved at a time
WORTHWHILE: Final = 128 * 1024  # bytes: below that, a pipe costs more than the copies
ROUNDS: Final = 8  # until others have their turn: 1 MiB in one, also where pipes are not quite full


class TargetEndedError(Exception):
    """The connection that bytes go to has broken."""


class SourceEndedError(Exception):
    """The source has failed."""


class SilenceError(Exception):
    """Whoever was waited for has neither sent nor taken a byte for too long."""


class Splice:
    """A pipe between two non-blocking sockets, for a response of `size` bytes.

    The event loop's own callbacks move them: a task would hear of every piece a turn of the loop
    later. `patience`: seconds without a byte after which the source has failed, and those for the
    target; None: no limit. `ended`: set when nothing more is moved, also by whoever knows of one of
    the two connections that it has ended."""

    def __init__(
        self,
        source: int,
        target: int,
        size: int,
        patience: tuple[float | None, float | None] = (None, None),
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self.ended: asyncio.Future[None] = self._loop.create_future()
        self._left = size  # bytes that have not been taken from the source
        self._in_pipe = 0
        self._patience = patience
        self._moved_at = self._loop.time()
        self._timer: asyncio.TimerHandle | None = None
        self._watched: int | None = None  # the file that the loop watches
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
        return self._left + self._in_pipe

    @property
    def waits_for_target(self) -> bool:
        """Whether the target has to take something before more is read."""
        return self._in_pipe > 0

    async def run(self) -> bool:
        """Moves all of it. False: the source, or `ended`, ended before.

        SourceEndedError, TargetEndedError, SilenceError."""
        self._advance()
        self._look_again()
        try:
            await self.ended
        finally:
            if self._timer is not None:
                self._timer.cancel()
            self._watch(None)
        return not self.pending

    def _advance(self) -> None:
        """Moves what can be moved now. The loop calls it again when more can."""
        if self.ended.done():
            return
        try:
            file = self._move()
        except (SourceEndedError, TargetEndedError) as error:
            self.ended.set_exception(error)
            return
        self._watch(file)
        if file is None:
            self.ended.set_result(None)

    def _move(self) -> int | None:
        """The file that has to be waited for; None: all is moved, or the source has ended."""
        for _ in range(ROUNDS):
            if not self._in_pipe:
                if not self._left:
                    return None
                try:
                    size = os.splice(self._source, self._inlet, min(self._left, PIPE_SIZE))
                except BlockingIOError:
                    return self._source
                except OSError as error:
                    raise SourceEndedError from error
                if not size:
                    return None
                self._left -= size
                self._in_pipe = size
                self._moved_at = self._loop.time()
            try:
                self._in_pipe -= os.splice(self._outlet, self._target, self._in_pipe)
            except BlockingIOError:
                return self._target
            except OSError as error:
                raise TargetEndedError from error
            self._moved_at = self._loop.time()
        if self._in_pipe:
            return self._target
        return self._source if self._left else None

    def _look_again(self) -> None:
        """Ends it if whoever it waits for has been silent for too long, and else looks again when
        that may be."""
        if self.ended.done():
            return
        patience = self._patience[self.waits_for_target]
        left = None if patience is None else self._moved_at + patience - self._loop.time()
        if left is not None and left <= 0:
            self.ended.set_exception(SilenceError)
            return
        limits = [one for one in (left, *self._patience) if one is not None]
        if limits:
            self._timer = self._loop.call_later(min(limits), self._look_again)

    def _watch(self, file: int | None) -> None:
        if file == self._watched:
            return
        if self._watched is not None:
            is_target = self._watched == self._target
            (self._loop.remove_writer if is_target else self._loop.remove_reader)(self._watched)
        if file is not None:
            is_target = file == self._target
            (self._loop.add_writer if is_target else self._loop.add_reader)(file, self._advance)
        self._watched = file

    def close(self) -> None:
        for file in self._files:
            os.close(file)
        self._files = []
