"""The broker of a simulation: a server in a process of its own, which measures itself.

In lazy mode it is the server as users run it. In eager mode the same server makes a whole response
before it sends the first byte, as Kafka did before 2.0."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from time import thread_time
from typing import Any

from downconvert.broker import Broker, BrokerConfig, Client, Exchange
from downconvert.broker.owner import Owner
from downconvert.broker.server import Server
from downconvert.protocol.fetch_versions import magic_of
from downconvert.protocol.responses import ResponseSend
from downconvert.protocol.schemas import ApiKey
from downconvert.storage import LogDir
from records.backend import NAME
from records.files.channel import writer
from simulator.children import Parent
from simulator.collector import Collector
from simulator.measure import Cpu, Memory
from simulator.modes import Mode

from .options import LoadOptions
from .plan import config_of


@dataclass(slots=True)
class Served:
    """The server's measurements of its own process. Sizes are bytes, times CPU seconds.

    finding: receiving requests, finding records and measuring responses. This may be most of the
    work, because records compressed for measuring are kept if there is space.
    converting: reading, converting and compressing records for responses that are made whole.
    turning: the same and the socket's part, for responses that are converted while they are sent.
    One call of the kernel does both.
    sending: the socket's part for all other responses.
    The rest of `cpu` is the server's loop, and Python itself."""

    backend: str
    idle: int
    peak: int  # above idle
    cpu: float
    finding: float
    converting: float
    turning: float
    sending: float


class _Phases:
    """CPU seconds of all threads, by phase."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.finding = self.converting = self.turning = self.sending = 0.0

    def found(self, seconds: float) -> None:
        with self._lock:
            self.finding += seconds

    def converted(self, seconds: float) -> None:
        with self._lock:
            self.converting += seconds

    def turned(self, seconds: float) -> None:
        with self._lock:
            self.turning += seconds

    def sent(self, seconds: float) -> None:
        with self._lock:
            self.sending += seconds


class _MeasuredSend(ResponseSend):
    """A response whose turns are timed. It writes to the connection's own socket, as without
    measurement."""

    def __init__(self, send: ResponseSend, phases: _Phases, *, is_converted: bool) -> None:
        super().__init__(send.parts, send.size)
        self._took = phases.turned if is_converted else phases.sent

    def write_to(self, channel: Any, budget: int | None = None, *, more: bool = False) -> int:
        started = thread_time()
        try:
            return super().write_to(channel, budget, more=more)
        finally:
            self._took(thread_time() - started)


class _EagerSend(ResponseSend):
    """A response that is made whole before any of it is sent. As in Kafka before 2.0, no limit
    counts it."""

    def __init__(self, send: ResponseSend, phases: _Phases) -> None:
        super().__init__(send.parts, send.size)
        self._phases = phases
        self._left: memoryview | None = None

    def write_to(self, channel: Any, budget: int | None = None, *, more: bool = False) -> int:  # noqa: ARG002
        if self._left is None:
            self._left = memoryview(self._made())
        started = thread_time()
        try:
            written = writer(channel)(self._left)
        finally:
            self._phases.sent(thread_time() - started)
        self.sent += written
        self._left = memoryview(b"") if self.completed else self._left[written:]
        return written

    def _made(self) -> bytearray:
        started = thread_time()
        lazy, collector = ResponseSend(self.parts, self.size), Collector()
        while not lazy.completed:
            lazy.write_to(collector)
        self._phases.converted(thread_time() - started)
        return collector.data


class _MeasuredBroker(Broker):
    """A broker with measured responses; `is_eager`: makes them whole first."""

    def __init__(
        self, log_dir: LogDir, config: BrokerConfig, phases: _Phases, *, is_eager: bool
    ) -> None:
        super().__init__(log_dir, config)
        self._phases = phases
        self.exchange_type = _measured(phases, is_eager=is_eager)

    def handle(
        self,
        client: Client,
        frame: memoryview,
        now: float,
        on_done: Callable[[Exchange], None] | None = None,
        owner: Owner | None = None,
    ) -> Exchange:
        started = thread_time()
        try:
            return super().handle(client, frame, now, on_done, owner)
        finally:
            self._phases.found(thread_time() - started)

    def run_due(self, owner: Owner, now: float) -> bool:
        started = thread_time()
        try:
            return super().run_due(owner, now)
        finally:
            self._phases.found(thread_time() - started)

    def run_turn(self, owner: Owner, now: float) -> bool:
        started = thread_time()
        try:
            return super().run_turn(owner, now)
        finally:
            self._phases.found(thread_time() - started)

    def keep_time(self, now: float) -> float:
        started = thread_time()
        try:
            return super().keep_time(now)
        finally:
            self._phases.found(thread_time() - started)


def _measured(phases: _Phases, *, is_eager: bool) -> type[Exchange]:
    """Exchanges whose responses are measured; `is_eager`: those of old fetches are made whole."""

    class Measured(Exchange):
        def finish(self, send: ResponseSend | None) -> None:
            super().finish(None if send is None else self._watched(send))

        def _watched(self, send: ResponseSend) -> ResponseSend:
            request = self.request
            is_converted = request.api is ApiKey.Fetch and magic_of(request.version) is not None
            if is_converted and is_eager:
                return _EagerSend(send, phases)
            return _MeasuredSend(send, phases, is_converted=is_converted)

    return Measured


def serve(parent: Parent, directory: Path, mode: Mode, options: LoadOptions) -> Served:
    """Sends the parent its address and idle memory, serves until the parent sends anything, and
    returns its measurements."""
    phases = _Phases()
    with LogDir.open(directory, writable=True) as log_dir:  # as a broker opens it
        is_eager = mode == "eager"
        config = config_of(options)
        if is_eager:  # brokers that make whole responses share no conversions
            config = replace(config, conversions_kept_bytes=0)
        broker = _MeasuredBroker(log_dir, config, phases, is_eager=is_eager)
        for partition in broker.topics.partitions():
            _ = partition.high_watermark  # opens the log, as in a broker that has run for long
        with Server(broker) as server:
            memory, cpu = Memory(), Cpu()
            parent.send((server.address, memory.idle))
            parent.receive()
            used = cpu.seconds()
            return Served(
                NAME,
                memory.idle,
                memory.peak(),
                used,
                phases.finding,
                phases.converting,
                phases.turning,
                phases.sending,
            )
