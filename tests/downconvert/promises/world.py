"""Clients that fetch one log, in any order, and all that is promised of what they get.

Each step lets one client do something, or the memory for what was converted runs out or is there
again. Whatever was done before, an answer is what it would be alone and without any cache, as long
as it was promised to be, within its limits, and the next one begins with what it left out.

Not here: what is in the log (any_log.py), how clients ask (clients.py)."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from io import BytesIO
from pathlib import Path
from random import Random
from typing import Final

import pytest

from downconvert import LazyDownConvertRecords, eager
from downconvert.conversion import made, plan
from downconvert.conversion.made import ENOUGH
from downconvert.conversion.plan import Steps
from downconvert.conversion.policy import CHUNK_SIZE
from downconvert.conversion.send import LazyDownConvertSend
from downconvert.serving.fetch_assembly import hard_size, head_of
from records import FileRecords, MemoryRecords, read
from records.files.source import Records

from .any_log import AnyLog, Found, any_log
from .clients import Asks, Piped, Taken, any_asks

PADDING_MAX: Final = 0.03  # of an answer, besides one message
LARGE_EVERY: Final = 200  # of so many logs one is large
IDLE_TURNS_MAX: Final = 500  # of a client whose channel takes what it is given
LEAVES_MAX: Final = 5  # of a client, without an answer: the longest ones take hundreds of turns
ANSWERS_MAX: Final = 12  # of a client, which then has seen enough
ENOUGH_MADE: Final = (300, 3_000, 3_000, ENOUGH)  # bytes that are made for an answer


class BrokenPromiseError(AssertionError):
    """What none of this may do."""


def promised(holds: bool, promise: str, *details: object) -> None:
    if not holds:
        raise BrokenPromiseError(": ".join([promise, *map(repr, details)]))


class Client:
    """Fetches a log from an offset to its end, one answer after the other."""

    def __init__(self, world: "World", asks: Asks, offset: int, random: Random) -> None:
        self._world = world
        self._asks = asks
        self._offset = offset
        self._random = random
        self._steps: Steps[LazyDownConvertRecords] | None = None
        self._send: LazyDownConvertSend | None = None
        self._fetched = 0  # answers
        self._idle = 0  # turns
        self._left = 0  # times, since the last answer
        self.is_done = False
        self._channel: Taken | Piped = Taken(random)

    def turn(self) -> None:
        """Asks, or goes on with planning or taking the answer."""
        if self._send is not None:
            self._take(self._send)
        elif self._steps is not None:
            self._plan(self._steps)
        else:
            self._ask()

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
        self._channel.close()
        self._channel = Taken(self._random)

    def _ask(self) -> None:
        part = self._world.part(self._offset, self._asks.max_bytes)
        if part is None:
            self.is_done = True
            return
        self._position, self._size = part
        self._records = self._world.source(self._random).slice(*part)
        asks = self._asks
        self._steps = LazyDownConvertRecords.in_steps(
            self._records, asks.to_magic, self._offset, asks.policy
        )
        self._idle = 0

    def _plan(self, steps: Steps[LazyDownConvertRecords]) -> None:
        self._idle += 1
        promised(self._idle < IDLE_TURNS_MAX, "an answer is planned in a bounded number of turns")
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
        self._channel = Piped() if self._random.random() < 0.5 else Taken(self._random)
        self._idle = 0

    def _hard(self, lazy: LazyDownConvertRecords) -> int | None:
        asks = self._asks
        if asks.hard is None:
            return None
        records = MemoryRecords(self._world.bytes_of(self._position, self._size))
        head = partial(head_of, lazy, records, asks.to_magic, self._offset, asks.policy)
        return hard_size(lazy.size, asks.hard, head)

    def _take(self, send: LazyDownConvertSend) -> None:
        self._idle += 1
        promised(self._idle < IDLE_TURNS_MAX, "an answer is sent in a bounded number of turns")
        if not send.completed:
            budget = self._random.choice((None, None, 1, 1_000, 1 << 20))
            before = send.remaining
            written = send.write_to(self._channel.channel, budget)
            promised(written == before - send.remaining, "what was written is counted")
            if written:
                self._idle = 0
            self._channel.drain()
        if send.completed:
            answer = bytes(self._channel.taken)
            self._send = None
            self._leave_channel()
            self._world.check(
                self._asks,
                self._offset,
                (self._position, self._size),
                answer,
                size=send.size,
                limit=self._limit,
            )
            self._go_on(answer)

    def _go_on(self, answer: bytes) -> None:
        """Asks for what follows the last record."""
        before = self._offset
        found = delivered(answer, before)
        if found:
            self._offset = found[-1][0] + 1
        else:
            self._offset = self._world.after(self._position, self._size)
        promised(self._offset > before, "each answer brings a client further", before)
        self._fetched += 1
        self._left = 0
        self.is_done = self._fetched == ANSWERS_MAX


class World:
    """A log, its clients, and what is kept for them. To be closed."""

    def __init__(self, random: Random, directory: Path, *, is_large: bool = False) -> None:
        self._patch = pytest.MonkeyPatch()
        self._taken = 0  # bytes of the budget for what is held
        self._patch.setattr(plan, "ENOUGH", random.choice(ENOUGH_MADE))
        self._patch.setattr(made, "HELD_SIZE_MAX", random.choice((1_000, made.HELD_SIZE_MAX)))
        asks_kafka = random.random() < 0.1
        self.log: AnyLog = any_log(random, is_large=is_large, has_zstd=not asks_kafka)
        self.path = directory / "00000000000000000000.log"
        self.path.write_bytes(self.log.data)
        self._file = FileRecords.open(self.path)
        self._memory = MemoryRecords(self.log.data)
        self._batches = list(self._memory.batches())
        self.answers = 0  # that were checked
        self._alone: dict[object, bytes] = {}
        self._own: dict[object, list[tuple[int, int]]] = {}
        offsets = [each[0] for each in self.log.truth] or [0]
        self.clients = []
        for _ in range(random.choice((1, 2, 4))):
            asks = any_asks(random, len(self.log.data))
            while not asks_kafka and asks.policy.recode.get("zstd") == "refuse":
                asks = any_asks(random, len(self.log.data))
            offset = max(0, random.choice(offsets) + random.choice((-1, 0, 0, 1)))
            self.clients.append(Client(self, asks, offset, random))

    def close(self) -> None:
        for client in self.clients:
            client.abandon()
        self._file.close()
        self._leave(None)
        self._patch.undo()

    # --- what may happen

    def step(self, random: Random) -> None:
        """Something happens."""
        happens = random.random()
        client = random.choice(self.clients)
        if happens < 0.03:
            client.leave()
        elif happens < 0.06:
            self._leave(random.choice((0, 500, None)))
        else:
            client.turn()

    def run(self, random: Random) -> None:
        """Steps until every client has all."""
        turns_max = 10 * ANSWERS_MAX * IDLE_TURNS_MAX
        for _ in range(turns_max):
            waiting = [client for client in self.clients if not client.is_done]
            if not waiting:
                return
            self.clients = waiting
            self.step(random)
        promised(False, "every client is answered in a bounded number of turns")

    def _leave(self, size: int | None) -> None:
        """Leaves so many bytes to hold messages in; None: as many as there are."""
        made.budget.release(self._taken)
        self._taken = 0
        if size is not None:
            self._taken = max(made.budget.left - size, 0)
            made.budget.take(self._taken)

    # --- the log

    def source(self, random: Random) -> Records:
        """The log, as one may have it."""
        kinds: tuple[Callable[[], Records], ...] = (
            lambda: self._memory,
            lambda: self._file,
        )
        return random.choice(kinds)()

    def part(self, offset: int, max_bytes: int) -> tuple[int, int] | None:
        """Position and size of what is read for a fetch; None: there is nothing."""
        for header in self._batches:
            if header.last_offset >= offset:
                left = self._memory.size - header.position
                return header.position, min(max(max_bytes, header.size), left)
        return None

    def after(self, position: int, size: int) -> int:
        """The offset after a part of the log."""
        *_, last = self._memory.slice(position, size).batches()
        return last.last_offset + 1

    def bytes_of(self, position: int, size: int) -> bytes:
        return self.log.data[position : position + size]

    # --- what is promised

    def check(
        self,
        asks: Asks,
        offset: int,
        part: tuple[int, int],
        answer: bytes,
        *,
        size: int,
        limit: int | None,
    ) -> None:
        """BrokenPromiseError: this is not what the client was to get."""
        self.answers += 1
        promised(len(answer) == size, "the bytes sent are those promised", len(answer), size)
        promised(limit is None or len(answer) <= limit, "an answer is within its limit", limit)
        alone = self._sent_alone(asks, offset, part, limit)
        promised(answer == alone, "what is sent is what would be alone", len(answer), len(alone))
        found = delivered(answer, offset)
        truth = [each for each in self.log.truth if each[0] >= offset]
        promised(found == truth[: len(found)], "a fetch begins with what is next", offset)
        is_exact = asks.policy.size == "exact"
        own = self._own_sizes(asks, offset, part)
        gets_on = any(last >= offset for last, _ in own)
        if limit is not None and gets_on:
            promised(bool(found), "under a hard limit the first message is whole")
        if is_exact and own:
            last = found[-1][0] if found else -1
            needed = sum(each for at, each in own if at <= last)
            largest = max(each for _, each in own)
            bound = needed + PADDING_MAX * len(answer) + largest
            promised(len(answer) <= bound, "padding is bounded", len(answer), needed, largest)
            promised(limit is not None or bool(found) or not gets_on, "each fetch gets on")

    def _sent_alone(
        self, asks: Asks, offset: int, part: tuple[int, int], limit: int | None
    ) -> bytes:
        """What is sent without caches, and whatever else there is."""
        policy = replace(asks.policy, chunk_size=CHUNK_SIZE)
        key = (asks.to_magic, offset, part, policy, limit)
        if key not in self._alone:
            records = MemoryRecords(self.bytes_of(*part))
            with self._patch.context() as patch:
                patch.setattr(plan, "SMALL_SIZE_MAX", 0)  # small answers are what large ones are
                lazy = LazyDownConvertRecords(records, asks.to_magic, offset, policy)
            send, channel = lazy.to_send(limit), BytesIO()
            while not send.completed:
                send.write_to(channel)
            self._alone[key] = channel.getvalue()
        return self._alone[key]

    def _own_sizes(self, asks: Asks, offset: int, part: tuple[int, int]) -> list[tuple[int, int]]:
        """The last offset and the size of each message that the part becomes."""
        policy = replace(asks.policy, size="exact")
        key = (asks.to_magic, offset, part, policy)
        if key not in self._own:
            records = MemoryRecords(self.bytes_of(*part))
            whole = MemoryRecords(eager(records, asks.to_magic, offset, policy))
            headers = whole.batches()
            self._own[key] = [(header.last_offset, header.size) for header in headers]
        return self._own[key]


def delivered(answer: bytes, offset: int) -> list[Found]:
    """The records of an answer from an offset on; a message that was cut has none."""
    records = read(MemoryRecords(answer))
    return [(each.offset, each.key, each.value) for each in records if each.offset >= offset]


def run_case(seed: int, number: int, directory: Path) -> int:
    """One world until all clients have had enough. Returns how many answers were checked."""
    random = Random(f"{seed}/{number}")
    world = World(random, directory, is_large=number % LARGE_EVERY == 0)
    try:
        world.run(random)
        return world.answers
    finally:
        world.close()
