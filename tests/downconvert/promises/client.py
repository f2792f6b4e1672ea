"""A client that fetches one log, a response after the other, and what it checks by itself.

If the file was truncated since the client asked, its response may fail, or end early. If the
channel fails, the send goes on with another one. Another thread may convert the same range
meanwhile.

Not here: what is in a response (world.py)."""

from random import Random
from typing import TYPE_CHECKING, Final

from downconvert import LazyDownConvertRecords
from downconvert.conversion import plan
from downconvert.conversion.send import LazyDownConvertSend
from downconvert.serving.fetch_assembly import hard_size
from records import CorruptRecordsError
from records.steps import Steps

from .channels import Channel, Taken, any_channel
from .clients import Asks
from .meanwhile import Meanwhile
from .promise import delivered, promised

if TYPE_CHECKING:
    from .world import World

IDLE_TURNS_MAX: Final = 500  # of a client whose channel takes what it is given
LEAVES_MAX: Final = 5  # of a client, without a response: the longest ones take hundreds of turns
RESPONSES_MAX: Final = 12  # of a client, which then has seen enough
BUDGETS: Final = None, None, 1, 1_000, 1 << 20  # of a turn


class Ticks:
    """A clock that is later by a second whenever it is read. Code that measures a duration reads it
    twice."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 1
        return self.now


class Client:
    """Fetches a log from an offset to its end, one response after the other."""

    def __init__(self, world: "World", asks: Asks, offset: int, random: Random) -> None:
        self._world = world
        self._asks = asks
        self._offset = offset
        self._random = random
        self._steps: Steps[LazyDownConvertRecords] | None = None
        self._send: LazyDownConvertSend | None = None
        self._is_whole = False  # as the response says of itself
        self._head = memoryview(b"")  # as it said that it begins
        self._fetched = 0  # responses
        self._idle = 0  # turns
        self._left = 0  # times, since the last response
        self.is_done = False
        self._channel: Channel = Taken(random)
        self._lost = b""  # what a channel had taken before it failed
        self._meanwhile: Meanwhile | None = None
        self._ended: LazyDownConvertSend | None = None  # the last send, which its client keeps
        self._cuts = 0  # how often the file had been truncated and mended when it asked

    def turn(self) -> None:
        """Asks, or goes on with planning or taking the response."""
        if self._send is None and self._steps is None:
            self._ask()
            return
        try:
            if self._send is not None:
                self._take(self._send)
            elif self._steps is not None:
                self._plan(self._steps)
        except CorruptRecordsError:
            promised(self._saw_cut, "a good log is not found damaged")
            self._check_cut()

    @property
    def _saw_cut(self) -> bool:
        """Whether the file was truncated since the client asked."""
        return self._world.cuts > self._cuts

    def _check_cut(self) -> None:
        """The client has what was sent until its response failed, and asks again."""
        if self._send is not None:
            self._channel.drain()
            promised(len(self._channel.taken) <= self._send.size, "no more is sent than promised")
        if not self._lost:
            self._world.check_cut(self._asks, self._offset, bytes(self._channel.taken))
        self.abandon()

    def leave(self) -> None:
        """The connection breaks, unless that has happened often enough. The client asks again."""
        self._left += 1
        if self._left <= LEAVES_MAX:
            self.abandon()

    def abandon(self) -> None:
        """Lets go of what is under way."""
        if self._steps is not None:
            self._steps.close()
        self._steps = self._send = None
        self._leave_channel()

    def _leave_channel(self) -> None:
        if self._meanwhile is not None:
            self._meanwhile.join()
        self._channel.close()
        self._channel, self._lost, self._meanwhile = Taken(self._random), b"", None

    def _ask(self) -> None:
        part = self._world.part(self._offset, self._asks.max_bytes)
        if part is None:
            self.is_done = True
            return
        self._part = part
        self._records = self._world.source(self._random).slice(*part)
        asks = self._asks
        self._clock = Ticks()
        self._cuts = self._world.cuts - self._world.is_cut
        self._steps = LazyDownConvertRecords.in_steps(
            self._records,
            asks.to_magic,
            self._offset,
            asks.policy,
            aborted=self._world.aborted(asks, part[0]),
            clock=self._clock,
        )
        self._idle = 0

    def _plan(self, steps: Steps[LazyDownConvertRecords]) -> None:
        self._idle += 1
        promised(self._idle < IDLE_TURNS_MAX, "a response is planned in a bounded number of turns")
        try:
            for _ in range(self._random.choice((1, 9, 999))):
                next(steps)
        except StopIteration as end:
            self._steps = None
            self._begin(end.value)

    def _begin(self, lazy: LazyDownConvertRecords) -> None:
        self._limit = self._hard(lazy)
        self._send = lazy.to_send(self._limit)
        size = lazy.size if self._limit is None else min(self._limit, lazy.size)
        promised(self._send.size == size, "a send is as long as promised", size)
        self._is_whole = lazy.is_whole and size == lazy.size
        self._head = lazy.head()[:size]
        self._channel = any_channel(self._random, size)
        self._budgets = self._random.choice(((None,), BUDGETS, BUDGETS))
        self._piece_max = self._world.piece_max(self._asks, self._offset, self._part)
        self._planned = self._clock.now / 2
        # A small response is planned once, unless it has enough before it has everything.
        self._is_planned_once = lazy.is_held and lazy.is_whole and lazy.size < plan.ENOUGH
        if self._random.random() < 0.2:
            self._send_copy(self._send)
        if self._random.random() < 0.1:
            self._meanwhile = Meanwhile(lazy.to_send(self._limit))
        self._idle = 0

    def _send_copy(self, send: LazyDownConvertSend) -> None:
        """Takes a copy of some messages, if all of them have been made."""
        copy = bytearray(send.size)
        if send.copy_to(memoryview(copy)):
            size = self._random.choice((0, send.size // 2, send.size))
            send.skip(size)
            self._lost = bytes(copy[:size])

    def _hard(self, lazy: LazyDownConvertRecords) -> int | None:
        asks = self._asks
        if asks.hard is None:
            return None
        return hard_size(lazy.size, asks.hard, lazy.head)

    def _take(self, send: LazyDownConvertSend) -> None:
        self._idle += 1
        promised(self._idle < IDLE_TURNS_MAX, "a response is sent in a bounded number of turns")
        if not send.completed:
            self._write(send)
        self._channel.drain()
        if send.completed and len(self._lost) + len(self._channel.taken) == send.size:
            if self._saw_cut:
                self._check_cut()
                return
            self._check(send)
        elif send.completed and not self._channel.is_open:
            self._check_cut()  # the rest was in the socket when the client closed it

    def _write(self, send: LazyDownConvertSend) -> None:
        budget = self._random.choice(self._budgets)
        before = send.remaining
        try:
            written = send.write_to(self._channel.channel, budget)
        except OSError:
            promised(not self._channel.is_open, "only a channel that was closed fails")
            self._replace_channel(send)
            return
        promised(written == before - send.remaining, "what was written is counted")
        promised(send.remaining >= 0, "no more is sent than promised", send.remaining)
        if self._budgets == (None,) and not self._saw_cut:
            promised(written <= self._piece_max, "a write without a budget is a chunk", written)
        if written:
            self._idle = 0

    def _replace_channel(self, send: LazyDownConvertSend) -> None:
        """The send goes on with another channel after the bytes that this one took. The client may
        have got fewer."""
        alone = self._world.sent_alone(self._asks, self._offset, self._part, self._limit)
        taken = bytes(self._channel.taken)
        promised(self._saw_cut or alone.startswith(taken), "what was sent is right", len(taken))
        self._channel.close()
        self._lost = alone[: send.size - send.remaining]
        self._channel = any_channel(self._random, send.size, leaves=False)

    def _check(self, send: LazyDownConvertSend) -> None:
        response = self._lost + self._channel.taken
        promised(response.startswith(self._head), "a response begins as it says", len(self._head))
        stats = send.stats
        promised(stats.bytes_out == len(response), "all bytes are counted", stats)
        if self._meanwhile is None:
            self._check_time(stats.seconds_converting)
        else:
            same = self._meanwhile.join() == response
            promised(same, "another thread is sent the same", len(response))
        self._send, self._ended = None, send
        self._leave_channel()
        self._world.check(
            self._asks,
            self._offset,
            self._part,
            response,
            size=send.size,
            limit=self._limit,
            is_whole=self._is_whole,
            stats=stats,
        )
        self._go_on(response)

    def _check_time(self, seconds: float) -> None:
        sending = self._clock.now / 2 - self._planned
        planning = seconds - sending
        least = self._planned if self._is_planned_once else 0
        promised(least <= planning <= self._planned, "time counts once", planning, self._planned)

    def _go_on(self, response: bytes) -> None:
        """Asks for what follows the last record."""
        before = self._offset
        found = delivered(response, before)
        if found:
            self._offset = found[-1][0] + 1
        else:
            self._offset = self._world.after(*self._part)
        promised(self._offset > before, "each response brings a client further", before)
        self._fetched += 1
        self._left = 0
        self.is_done = self._fetched == RESPONSES_MAX
