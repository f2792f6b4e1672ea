"""Forwards bytes from one connection to another, no faster than the other side takes them.

Between plain sockets on Linux, the operating system moves a large response through a pipe, without
copying it to user space [splice(2)]. Not here: pipes (pipes.py)."""

import asyncio
import os
from typing import Final

from records.files.sends import NOTHING
from records.units import KiB, MiB

from . import pipes
from .ended import ConnectionEndedError, taken_failure
from .event_loop import EventLoop
from .socket_transport import READABLE, WRITABLE
from .streams import PIECE_SIZE, Stream
from .tcp import unsent

IS_POSSIBLE: Final = hasattr(os, "splice")
WORTHWHILE: Final = 128 * KiB  # bytes; below that, a pipe costs more than the copies
TURN_SIZE: Final = MiB  # bytes until other connections have their turn
ROUNDS: Final = 16  # rounds until then, if each moves few bytes


class TargetEndedError(Exception):
    """The target's connection has broken."""


class SourceEndedError(Exception):
    """The source has failed."""


class SilenceError(Exception):
    """The awaited side has neither sent nor taken a byte for too long."""


class Splice:
    """A pipe between two non-blocking sockets, for a response of `size` bytes. `head`: the part
    that has been read already.

    Callbacks of the event loop move the bytes, because a task would handle each piece one turn of
    the loop later. `patience`: for source and target, the seconds without a byte after which it has
    failed; None: no limit. `ended`: done when nothing more is moved. The files may then be closed.
    The owner of either connection may set it when that connection has ended. `failure`: the error
    that ended the transfer, until `run` raises it."""

    def __init__(
        self,
        source: int,
        target: int,
        size: int,
        patience: tuple[float | None, float | None] = (None, None),
        head: memoryview = NOTHING,
    ) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, EventLoop)
        self._loop = loop
        self.ended: asyncio.Future[None] = self._loop.create_future()
        self.failure: Exception | None = None
        self._source, self._target = source, target
        self._head = head  # the part of `head` that is not in the pipe yet
        self._left = size - len(head)  # bytes that have not been taken from the source
        self._in_pipe = 0
        self._patience = patience
        self._moved_at = self._loop.time()
        self._unsent = 0  # unacknowledged bytes of the target at the last check
        self._timer: asyncio.TimerHandle | None = None
        self._watched: int | None = None  # the socket that the loop watches
        # The loop allows one watcher per file, and already watches the sockets. So their duplicates
        # are watched here.
        self._copies: dict[int, int] = {}
        self._pipe = pipes.take()

    @property
    def pending(self) -> int:
        """Bytes that the target has not taken."""
        return len(self._head) + self._left + self._in_pipe

    @property
    def waits_for_target(self) -> bool:
        """Whether the target must take bytes before more are read."""
        return self._in_pipe > 0

    async def run(self) -> bool:
        """Moves the whole response. False: the source ended before, or `ended` was set.

        SourceEndedError, TargetEndedError, SilenceError. OSError: there are too many files."""
        self._advance()
        self._look_again()
        try:
            await self.ended
        finally:
            if self._timer is not None:
                self._timer.cancel()
            self._watch(None)
        if self.failure is not None:
            raise taken_failure(self)
        return not self.pending

    def _advance(self, _events: int = 0) -> None:
        """Moves all bytes that can move now. The loop calls it again when more bytes can move."""
        if self.ended.done():
            return
        try:
            file = self._move()
            if file == self._target:
                self._unsent = unsent(file)
            self._watch(file)
        except Exception as error:  # `run` raises it, also unexpected ones
            self.failure = error
            file = None
        if file is None:
            self.ended.set_result(None)

    def _move(self) -> int | None:
        """Moves bytes. Returns the file to wait for. None: all bytes are moved, or the source
        ended."""
        moved = 0
        for _ in range(ROUNDS):
            if not self._in_pipe:
                if not self.pending:
                    return None
                try:
                    if not self._fill():
                        return None
                except BlockingIOError:
                    return self._source
            try:
                size = os.splice(self._pipe.outlet, self._target, self._in_pipe)
            except BlockingIOError:
                return self._target
            except OSError as error:
                raise TargetEndedError from error
            self._in_pipe -= size
            self._moved_at = self._loop.time()
            moved += size
            if moved >= TURN_SIZE:
                break
        if self._in_pipe:
            return self._target
        return self._source if self.pending else None

    def _fill(self) -> bool:
        """Fills the empty pipe with available bytes. False: the source has ended.

        BlockingIOError: there are none yet."""
        if self._head:
            self._in_pipe = os.write(self._pipe.inlet, self._head)
            self._head = self._head[self._in_pipe :] or NOTHING  # NOTHING holds no buffer
        if self._left and not self._head:
            try:
                size = os.splice(self._source, self._pipe.inlet, min(self._left, pipes.PIPE_SIZE))
            except BlockingIOError:  # the source has no bytes, or the pipe is full
                if not self._in_pipe:
                    raise
                return True
            except OSError as error:
                raise SourceEndedError from error
            self._left -= size
            self._in_pipe += size
            self._moved_at = self._loop.time()
        return self._in_pipe > 0

    def _look_again(self) -> None:
        """Ends the transfer if the awaited side has been silent for too long. Otherwise sets the
        timer for the next check."""
        if self.ended.done():
            return
        patience = self._patience[self.waits_for_target]
        left = None if patience is None else self._moved_at + patience - self._loop.time()
        if patience is not None and left is not None and left <= 0:
            before, self._unsent = self._unsent, unsent(self._target)
            if not (self.waits_for_target and self._unsent < before):
                self.failure = SilenceError()
                self.ended.set_result(None)
                return
            self._moved_at, left = self._loop.time(), patience  # the target has taken some bytes
        limits = [one for one in (left, *self._patience) if one is not None]
        if limits:
            self._timer = self._loop.call_later(min(limits), self._look_again)

    def _watch(self, file: int | None) -> None:
        """Has the loop call `_advance` when the file is ready. OSError: too many files are open."""
        if file == self._watched:
            return
        if self._watched is not None:
            self._loop.unwatch(self._copies[self._watched])
            self._watched = None
        if file is not None:
            if file not in self._copies:
                self._copies[file] = os.dup(file)
            events = WRITABLE if file == self._target else READABLE
            self._loop.watch(self._copies[file], self._advance, events)
            self._watched = file

    def close(self) -> None:
        """Closes the duplicates and returns the pipe. To be called once, after the end."""
        for copy in self._copies.values():
            os.close(copy)
        pipes.give_back(self._pipe, is_empty=not self._in_pipe)


async def forward(source: Stream, target: Stream, size: int) -> None:
    """Forwards `size` bytes. ConnectionEndedError, TimeoutError: of either side."""
    is_plain = source.is_plain and target.is_plain
    if IS_POSSIBLE and is_plain and size >= WORTHWHILE:
        size -= await _splice(source, target, size)
    while size:
        if (arrived := len(source.available)) >= size:
            target.send(source.available[:size])
            source.consume(size)
            arrived = size
        else:
            arrived = await source.receive_into(
                target.send, size, PIECE_SIZE, lambda: target.is_writable
            )
        size -= arrived
        await target.drain()


async def _splice(source: Stream, target: Stream, size: int) -> int:
    """Moves `size` bytes without copying them. Returns how many."""
    source.pause_reading()
    splice: Splice | None = None
    try:
        if target.transport.get_write_buffer_size():
            await target.flushed()
        _check_open(source, target)
        files, patience = (source.file, target.file), (source.patience, target.patience)
        splice = Splice(*files, size, patience, source.take(size))
        for stream in (source, target):  # the end of either connection ends the splice
            stream.beside = splice.ended
        if not await splice.run():
            _check_open(source, target)
            raise ConnectionEndedError(source.peer)
    except TargetEndedError as error:
        raise ConnectionEndedError(target.peer) from error
    except SourceEndedError as error:
        raise ConnectionEndedError(source.peer) from error
    except SilenceError:
        assert splice is not None
        raise (target if splice.waits_for_target else source).silence() from None
    finally:
        if splice is not None:
            splice.close()
        if not source.transport.is_closing():
            source.resume_reading()
    return size


def _check_open(source: Stream, target: Stream) -> None:
    """ConnectionEndedError: one of the two connections has ended."""
    for stream in (target, source):
        if stream.transport.is_closing():
            raise ConnectionEndedError(stream.peer)
