"""One network thread alone, with a clock that a test sets, and clients with real sockets."""

import queue
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

from downconvert.broker import Broker
from downconvert.broker.exchange import Client, Exchange
from downconvert.broker.network.connection import Connection, Incoming
from downconvert.broker.network.network_thread import NetworkThread
from downconvert.broker.network.serving import Serving
from downconvert.broker.state import BrokerState
from downconvert.protocol.schemas import ApiKey, Message
from downconvert.serving.limits import Limits
from downconvert.serving.places import Places
from downconvert.serving.request_memory import RequestMemory
from downconvert.serving.unread import UnreadResponses
from records.units import KiB, MiB
from tests.downconvert.broker.fetching import broker_of
from tests.downconvert.broker.talking import API_VERSIONS, SECONDS, TOPIC, Talk
from tests.downconvert.storage import logs
from tests.waiting import wait_for

LIMITS: Final = Limits(request=5.0, idle=60.0, stop=20.0)
START: Final = 1000.0
FIRST_SIZE: Final = 10 * KiB  # of a request before the client is known


class ManualClock:
    """Stands still until a test moves it. Counts how often it is read."""

    def __init__(self) -> None:
        self.now = START
        self.is_ahead = 0.0  # seconds of the system's clock
        self.reads = 0

    def __call__(self) -> float:
        self.reads += 1
        return self.now

    def shift(self) -> float:
        return self.is_ahead


class OneThread:
    """A network thread that a test starts, and the connections that it is given."""

    def __init__(self, broker: Broker, limits: Limits, clock: Any, memory: int) -> None:
        self.broker = broker
        self.limits = limits
        self.clock = clock
        self.places = Places()
        self.memory = RequestMemory(memory)
        self.deadlines: list[float] = []  # that the thread passed on to the timekeeper
        self.unread = UnreadResponses(limits.requests_memory)
        serving = Serving(broker, limits, self.memory, self.unread, clock, self.deadlines.append)
        self.thread = NetworkThread(serving, "one")
        self.ticks: queue.SimpleQueue[float] = queue.SimpleQueue()
        self.thread.on_ticks.append(self.ticks.put)
        self._numbers = iter(range(1, 1000))

    def connect(
        self, *, authenticates: bool = False, give: bool = True, small: bool = False
    ) -> tuple[Talk, Connection]:
        """A client and its connection, which the thread has if `give`."""
        with socket.create_server(("127.0.0.1", 0)) as listener:
            if small:
                listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 16 * KiB)
            talk = Talk(listener.getsockname()[:2], receive_buffer=4 * KiB if small else None)
            channel, _ = listener.accept()
        channel.setblocking(False)
        place = self.places.take("10.0.0.1", 100, 100)
        size_max = FIRST_SIZE if authenticates else self.limits.request_size
        incoming = Incoming(size_max, self.memory.of("10.0.0.1"))
        client = Client(next(self._numbers), "10.0.0.1")
        connection = Connection(client, channel, incoming, place, self.clock())
        connection.authenticates = authenticates
        if authenticates:
            connection.request_started = self.clock()
        else:
            place.settle()
        if give:
            self.thread.take(connection)
        return talk, connection

    def answered(self, talk: Talk, connection: Connection, *request: Any) -> Message:
        """Asks, and waits until the thread has done with the request."""
        response = talk.ask(*(request or API_VERSIONS))
        wait_for(lambda: connection.exchange is None)
        return response

    def advance(self, to: float) -> None:
        """Moves the clock to so many seconds after the start. Returns after the thread's checks."""
        self.clock.now = START + to
        self.thread.wake_up()
        while self.ticks.get(timeout=SECONDS) != self.clock.now:
            pass

    def hold(self, api: ApiKey) -> list[Exchange]:
        """Requests of this kind wait. Returns the list that they come to."""
        held: list[Exchange] = []

        def add(_broker: BrokerState, exchange: Exchange, _now: float) -> None:
            held.append(exchange)

        self.handle(api, add)
        return held

    def handle(self, api: ApiKey, handler: Callable[[BrokerState, Exchange, float], None]) -> None:
        """Requests of this kind are handled so."""
        before = self.broker.apis[api]
        self.broker.apis = {**self.broker.apis, api: type(before)(handler, before.versions)}


@contextmanager
def one_thread(
    path: Path,
    *,
    limits: Limits = LIMITS,
    clock: Any = None,
    memory: int = 64 * MiB,
    batches: int = 3,
    starts: bool = True,
) -> Iterator[OneThread]:
    made = [logs.batch(*range(10 * n, 10 * n + 10), size=10 * KiB) for n in range(batches)]
    with ExitStack() as stack:
        broker = stack.enter_context(broker_of(path, {TOPIC: {0: made}}))
        one = OneThread(broker, limits, ManualClock() if clock is None else clock, memory)
        if starts:
            one.thread.start()
        try:
            yield one
        finally:
            one.thread.stop()
            if isinstance(one.clock, ManualClock):
                one.clock.now += limits.stop
                one.thread.wake_up()
            one.thread.join()
