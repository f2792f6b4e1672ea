"""Old clients that fetch one log of a broker in any order, and what is promised of their responses.

Ranges requested by several clients are converted once while there is memory. The memory and the
number of clients differ. Each response is the beginning of an eager conversion from its offset on.

Not here: the library alone (world.py)."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Final

from downconvert import ConversionPolicy, eager
from downconvert.broker import Broker, Client, Exchange, Owner
from downconvert.protocol.fetch_versions import FIRST_BATCH_WHOLE_SINCE, magic_of
from downconvert.protocol.schemas import ApiKey
from records import MemoryRecords
from tests.downconvert.broker.asking import parsed
from tests.downconvert.broker.fetching import broker_of, fetching, only

from .any_log import AnyLog, any_log
from .channels import Taken
from .clients import RECODES
from .promise import delivered, expected, promised

TOPIC: Final = "events"
KEPT: Final = (0, 3_000, 30_000, 1 << 24)  # bytes of conversions that a broker keeps
TURNS_MAX: Final = 3_000  # of a client until it has its response
RESPONSES_MAX: Final = 8  # of a client, which then has seen enough


class Fetching:
    """One connection: fetches from an offset to the end of the log."""

    def __init__(self, serving: "Serving", number: int, random: Random) -> None:
        self._serving = serving
        self._random = random
        self._number = number
        self._version = random.randrange(4)
        size = len(serving.log.data)
        self._max_bytes = random.choice((1, 100, size // 4, size // 2, 2 * size))
        self._offset = serving.any_offset(random)
        self._exchange: Exchange | None = None
        self._owner = Owner()
        self._turns = self._responses = 0
        self.is_done = False

    def turn(self) -> None:
        """Asks, or goes on with what was asked, or takes some of the response."""
        broker, exchange = self._serving.broker, self._exchange
        self._turns += 1
        promised(self._turns < TURNS_MAX, "a client is answered in a bounded number of turns")
        if exchange is None:
            self._channel = Taken(self._random)
            self._exchange = fetching(
                broker,
                self._version,
                TOPIC,
                self._offset,
                now=0.0,
                client=Client(self._number, "127.0.0.1"),
                owner=self._owner,
                max_bytes=self._max_bytes,
            )
        elif not exchange.is_done:
            broker.run_due(self._owner, 0.0) or broker.run_turn(self._owner, 0.0)
        else:
            self._take(exchange)

    def abandon(self) -> None:
        """The connection breaks."""
        if self._exchange is not None:
            self._serving.broker.finished(self._exchange)
        self._exchange = None
        self._owner = Owner()

    def _take(self, exchange: Exchange) -> None:
        assert exchange.defect is None, exchange.defect
        send = exchange.send
        assert send is not None
        if not send.completed:
            send.write_to(self._channel, self._random.choice((None, 1_000, 1 << 20)))
            return
        self._serving.broker.finished(exchange)
        self._exchange = None
        response = parsed(ApiKey.Fetch, self._version, bytes(self._channel.taken))
        self._check(bytes(only(response).records))

    def _check(self, response: bytes) -> None:
        log, offset = self._serving.log, self._offset
        truth = expected(log.truth, magic_of(self._version) or 0, offset)
        found = delivered(response, offset)
        promised(found == truth[: len(found)], "a fetch begins with what is next", offset)
        promised(bool(found) == bool(truth), "each response brings a client further", offset)
        whole = self._serving.converted(self._version, offset)
        promised(whole.startswith(response), "what is sent is what is converted", len(response))
        messages = [header.size for header in MemoryRecords(response).batches()]
        if self._version < FIRST_BATCH_WHOLE_SINCE:
            limit = max(self._max_bytes, *messages[:1], 0)
            promised(len(response) <= limit, "a response is within its limit", len(response), limit)
        else:
            promised(sum(messages) == len(response), "a response is whole messages")
        self._turns = 0
        self._responses += 1
        self.is_done = not found or self._responses == RESPONSES_MAX
        if found:
            self._offset = found[-1][0] + 1


class Serving:
    """A broker over one log, and its clients."""

    def __init__(self, broker: Broker, log: AnyLog, random: Random) -> None:
        self.broker = broker
        self.log = log
        self._memory = MemoryRecords(log.data)
        self._converted: dict[tuple[int, int], bytes] = {}
        count = random.choice((1, 2, 4, 4, 20))
        self.clients = [Fetching(self, number, random) for number in range(1, count + 1)]

    def any_offset(self, random: Random) -> int:
        return random.choice(self.log.truth)[0] if self.log.truth else 0

    def converted(self, version: int, offset: int) -> bytes:
        """All of the log from an offset on."""
        magic = magic_of(version)
        assert magic is not None
        key = (magic, offset)
        if key not in self._converted:
            headers = self._memory.batches()
            first = next((each.position for each in headers if each.last_offset >= offset), 0)
            rest = self._memory.slice(first, self._memory.size - first)
            self._converted[key] = eager(rest, magic, offset, self.broker.config.policy)
        return self._converted[key]

    def run(self, random: Random) -> None:
        """Steps until every client has had enough."""
        while self.clients:
            client = random.choice(self.clients)
            if random.random() < 0.02:
                client.abandon()
            else:
                client.turn()
            self.clients = [each for each in self.clients if not each.is_done]


@contextmanager
def serving(random: Random, directory: Path, *, is_large: bool = False) -> Iterator[Serving]:
    """A broker in a directory that is its own."""
    directory.mkdir()
    log = any_log(random, is_large=is_large)
    policy = ConversionPolicy(
        recode=random.choice(RECODES),
        split_at_gaps=random.random() < 0.7,
        wrapper_size_max=random.choice((2_048, 16 * 1024, 1 << 20, 1 << 20)),
    )
    segments = {TOPIC: {log.start: [log.data]}}
    kept = random.choice(KEPT)
    with broker_of(directory, segments, policy=policy, conversions_kept_bytes=kept) as broker:
        yield Serving(broker, log, random)
