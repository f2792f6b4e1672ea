"""Clients that fetch one log, in any order, and all that is promised of what they get.

Each step lets one client do something, or the memory for what was converted runs out or is there
again, or the file grows, or is truncated for a while. A response is always what it would be alone
and without any cache. It is as long as promised, and within its limits. The next one begins with
what it left out. If the file was truncated meanwhile, a response may fail,
or end early. The bytes that were sent are then right, and no more than were promised.

Not here: what is in the log (any_log.py), how clients ask and take (client.py, clients.py,
channels.py)."""

import gc
import os
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from random import Random
from typing import Final

import pytest

from downconvert import (
    AbortedTransaction,
    ConversionStats,
    LazyDownConvertRecords,
    convert,
    eager,
)
from downconvert.conversion import made, plan
from downconvert.conversion.filler import FILLER_SIZE_MAX, filler
from downconvert.conversion.policy import CHUNK_SIZE
from records import FileRecords, MemoryRecords
from records.files.source import Records
from tests import backends
from tests.downconvert.conversion.comparable import comparable

from .any_log import AnyLog, Found, Zstd, any_log
from .client import IDLE_TURNS_MAX, RESPONSES_MAX, Client
from .clients import Asks, any_asks
from .limits import any_limits
from .promise import delivered, expected, promised
from .without_descriptor import WithoutDescriptor

WORLDS: Final[dict[Zstd, int]] = {"anywhere": 6, "aborted": 1, "nowhere": 1}  # how many of each
PADDING_MAX: Final = 0.03  # of a response, besides one message
LARGE_EVERY: Final = 200  # of so many logs one is large
CUTS_MAX: Final = 20  # of a file: the longest responses take hundreds of turns


class World:
    """A log, its clients, and what is kept for them. To be closed."""

    def __init__(self, random: Random, directory: Path, *, is_large: bool = False) -> None:
        self._patch = pytest.MonkeyPatch()
        gc.collect()
        self._held = made.budget.held  # bytes, which others hold
        self._taken = 0  # bytes of the budget for what is held
        any_limits(random, self._patch)
        (zstd,) = random.choices(list(WORLDS), list(WORLDS.values()))
        self.log: AnyLog = any_log(random, is_large=is_large, zstd=zstd)
        self.path = directory / "00000000000000000000.log"
        self.path.write_bytes(self.log.data)
        self._file = FileRecords.open(self.path)
        self.is_cut = False  # whether the file is truncated now
        self.cuts = 0  # how often it was
        self._memory = MemoryRecords(self.log.data)
        self._batches = list(self._memory.batches())
        self._has_twin = len(self.log.data) % 10 == 0  # the kernels are compared, too
        self.responses = 0  # that were checked
        self._alone: dict[object, bytes] = {}
        self._converted: dict[object, bytes] = {}
        self._counted: dict[object, ConversionStats] = {}
        offsets = [each[0] for each in self.log.truth] or [0]
        self.clients = []
        for _ in range(random.choice((1, 2, 4))):
            asks = any_asks(random, len(self.log.data), zstd)
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
        elif happens < 0.07:
            self._change_file(random)
        elif self.is_cut and happens < 0.3:
            self._mend_file()
        else:
            client.turn()

    def run(self, random: Random) -> None:
        """Steps until every client has all."""
        turns_max = 10 * RESPONSES_MAX * IDLE_TURNS_MAX
        for _ in range(turns_max):
            waiting = [client for client in self.clients if not client.is_done]
            if not waiting:
                held = made.budget.held - self._held - self._taken
                promised(not held, "a send that has ended holds nothing", held)
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

    def _change_file(self, random: Random) -> None:
        """Something is appended, which nobody who opened the file before may see; or the file is
        truncated, until it is mended."""
        if self.is_cut:
            self._mend_file()
        elif self.cuts == CUTS_MAX or random.random() < 0.5:
            with self.path.open("ab") as file:
                file.write(random.choice((self.log.data[:1_000], random.randbytes(100))))
        else:
            os.truncate(self.path, random.randrange(len(self.log.data)))
            self.is_cut = True
            self.cuts += 1

    def _mend_file(self) -> None:
        with self.path.open("r+b") as file:
            file.write(self.log.data)
        self.is_cut = False

    # --- the log

    def source(self, random: Random) -> Records:
        """The log, as one may have it."""
        kinds: tuple[Callable[[], Records], ...] = (
            lambda: self._memory,
            lambda: self._file,
            lambda: WithoutDescriptor(self._file),
        )
        return random.choice(kinds)()

    def part(self, offset: int, max_bytes: int) -> tuple[int, int] | None:
        """Position and size of what is read for a fetch; None: there is nothing."""
        for header in self._batches:
            if header.last_offset >= offset:
                left = self._memory.size - header.position
                return header.position, min(max(max_bytes, header.size), left)
        return None

    def aborted(self, asks: Asks, position: int) -> list[AbortedTransaction]:
        """The aborted transactions from a part of the log on, as far as the client wants them left
        out. Those that have ended before would seem to be still under way."""
        if not asks.is_committed:
            return []
        first = next(each for each in self._batches if each.position == position)
        return [each for each in self.log.aborted if (each.last_offset or 0) >= first.base_offset]

    def expected(self, asks: Asks, offset: int) -> list[Found]:
        """The records that the client is to get."""
        truth = self.log.committed if asks.is_committed else self.log.truth
        return expected(truth, asks.to_magic, offset)

    def after(self, position: int, size: int) -> int:
        """The offset after a part of the log."""
        *_, last = self._memory.slice(position, size).batches()
        return last.last_offset + 1

    def piece_max(self, asks: Asks, offset: int, part: tuple[int, int]) -> int:
        """The most bytes of a write without a budget: a converted chunk, or what one batch becomes,
        or filler."""
        ends = [header.last_offset for header in self._batches]
        sizes: Counter[int] = Counter()
        for last_offset, size in self._own_sizes(asks, offset, part):
            sizes[bisect_left(ends, last_offset)] += size
        filler_max = FILLER_SIZE_MAX if asks.policy.size == "estimate" else 0
        return max(2 * asks.policy.chunk_size + max(sizes.values(), default=0), filler_max)

    def bytes_of(self, position: int, size: int) -> bytes:
        return self.log.data[position : position + size]

    # --- what is promised

    def check(
        self,
        asks: Asks,
        offset: int,
        part: tuple[int, int],
        response: bytes,
        *,
        size: int,
        limit: int | None,
        is_whole: bool,
        stats: ConversionStats,
    ) -> None:
        """BrokenPromiseError: this is not what the client was to get."""
        self.responses += 1
        promised(len(response) == size, "the bytes sent are those promised", len(response), size)
        promised(limit is None or len(response) <= limit, "a response is within its limit", limit)
        alone = self.sent_alone(asks, offset, part, limit)
        promised(
            response == alone, "what is sent is what would be alone", len(response), len(alone)
        )
        if self._has_twin:
            self._check_twins(asks, offset, part)
        self._check_whole(asks, offset, part, response, stats.filler_bytes)
        if is_whole or (limit is None and asks.has_everything):
            self._check_all(asks, offset, part, response, stats)
        found = delivered(response, offset)
        truth = self.expected(asks, offset)
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
            bound = needed + PADDING_MAX * len(response) + largest
            promised(len(response) <= bound, "padding is bounded", len(response), needed, largest)
            promised(limit is not None or bool(found) or not gets_on, "each fetch gets on")

    def check_cut(self, asks: Asks, offset: int, taken: bytes) -> None:
        """BrokenPromiseError: this is not how a response begins."""
        self.responses += 1
        found = delivered(taken, offset)
        truth = self.expected(asks, offset)
        promised(found == truth[: len(found)], "what was sent is in the log", offset)

    def _check_all(
        self,
        asks: Asks,
        offset: int,
        part: tuple[int, int],
        response: bytes,
        stats: ConversionStats,
    ) -> None:
        """BrokenPromiseError: something is missing in the response, or counted differently than in
        a conversion without a promise."""
        promised(response == self._whole(asks, offset, part), "a whole response has everything")
        counted, *same = (
            (each.records_converted, each.batches_converted, each.temporary_bytes)
            for each in (stats, self._counted[self._key(asks, offset, part)])
        )
        promised([counted] == same, "all conversions count the same", counted, same)

    def _check_whole(
        self, asks: Asks, offset: int, part: tuple[int, int], response: bytes, filler_bytes: int
    ) -> None:
        """BrokenPromiseError: there is something else than the beginning of the conversion, or
        filler in its place."""
        whole = self._whole(asks, offset, part)
        converted = response[: len(whole)]
        promised(whole.startswith(converted), "what is sent is what is converted", len(response))
        left = len(response) - len(converted)
        promised(not left or asks.policy.size == "estimate", "only estimates have filler", left)
        filled = b""
        while len(filled) < left:
            filled += filler(left - len(filled))
        promised(response[len(converted) :] == filled, "what is missing is filled up", left)
        promised(left == filler_bytes, "the filler is counted", left, filler_bytes)

    def _check_twins(self, asks: Asks, offset: int, part: tuple[int, int]) -> None:
        """BrokenPromiseError: the kernels convert differently."""
        records = MemoryRecords(self.bytes_of(*part))
        conversions = []
        for name in backends.NAMES:
            with backends.running_on(name):
                converted = eager(
                    records, asks.to_magic, offset, asks.policy, aborted=self.aborted(asks, part[0])
                )
                conversions.append(list(comparable(converted)))
        same = all(each == conversions[0] for each in conversions)
        promised(same, "both kernels convert to the same messages", offset)

    def sent_alone(
        self, asks: Asks, offset: int, part: tuple[int, int], limit: int | None
    ) -> bytes:
        """The bytes that are sent without caches and other clients."""
        policy = replace(asks.policy, chunk_size=CHUNK_SIZE)
        key = (asks.to_magic, offset, part, policy, limit)
        if key not in self._alone:
            records = MemoryRecords(self.bytes_of(*part))
            with self._patch.context() as patch:
                patch.setattr(plan, "SMALL_SIZE_MAX", 0)  # small responses are what large ones are
                lazy = LazyDownConvertRecords(
                    records, asks.to_magic, offset, policy, aborted=self.aborted(asks, part[0])
                )
            send, channel = lazy.to_send(limit), BytesIO()
            while not send.completed:
                send.write_to(channel)
            self._alone[key] = channel.getvalue()
        return self._alone[key]

    def _whole(self, asks: Asks, offset: int, part: tuple[int, int]) -> bytes:
        """All that the part becomes."""
        key = self._key(asks, offset, part)
        if key not in self._converted:
            records, aborted = MemoryRecords(self.bytes_of(*part)), self.aborted(asks, part[0])
            conversion = convert(records, asks.to_magic, offset, asks.policy, aborted=aborted)
            self._converted[key] = b"".join(conversion)
            self._counted[key] = conversion.stats
        return self._converted[key]

    @staticmethod
    def _key(asks: Asks, offset: int, part: tuple[int, int]) -> object:
        return asks.to_magic, offset, part, replace(asks.policy, size="exact")

    def _own_sizes(self, asks: Asks, offset: int, part: tuple[int, int]) -> list[tuple[int, int]]:
        """The last offset and the size of each message that the part becomes."""
        whole = MemoryRecords(self._whole(asks, offset, part))
        return [(header.last_offset, header.size) for header in whole.batches()]


def run_case(seed: int, number: int, directory: Path) -> int:
    """One world until all clients have had enough. Returns how many responses were checked."""
    random = Random(f"{seed}/{number}")
    world = World(random, directory, is_large=number % LARGE_EVERY == 0)
    try:
        world.run(random)
        return world.responses
    finally:
        world.close()
