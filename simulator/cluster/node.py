"""A simulated machine with a broker: a real `Broker` on real files, without sockets.

It is killed and started again with its files, or with the files that remain when the power fails.
While it runs it answers requests, one after the other on each connection, and checkpoints high
watermarks."""

from collections import deque
from collections.abc import Callable
from contextlib import suppress
from io import BytesIO
from pathlib import Path
from random import Random
from shutil import rmtree
from typing import Final

from downconvert.broker import BadRequestError, Broker, BrokerConfig, Client, Exchange
from downconvert.broker.replication.replica_manager import Replication
from downconvert.storage import LogConfig, LogDir, StorageError, TopicPartition
from downconvert.storage.disk.faulty_disk import FaultyDisk, Killed
from records import RecordsError

from .context import Context
from .membership import Membership
from .network import Connection
from .timeline import Action

LENGTH_SIZE: Final = 4  # bytes before a response
HEARTBEAT: Final = 0.5  # seconds
CHECKPOINT: Final = 1.0  # seconds between checkpoints of high watermarks

# A broker's state by partition: leader epoch, whether it leads, whether its high watermark is
# certain.
Tag = dict[TopicPartition, tuple[int, bool, bool]]


class Node:
    """One machine. `life` changes whenever its broker dies or starts."""

    def __init__(
        self, context: Context, id_: int, path: Path, on_death: Callable[["Node"], None]
    ) -> None:
        """on_death: called when the broker has died during an operation on its disk."""
        self.id = id_
        self.host = f"broker-{id_}"
        self.life = 0
        self.is_up = False
        self.connections: set[Connection] = set()
        self.broker: Broker | None = None
        self.replication: Replication | None = None
        self.disk: FaultyDisk | None = None
        # Whether unflushed data was lost since the broker was last in sync for all its partitions.
        self.has_lost = False
        self._context = context
        self._on_death = on_death
        self._path = path
        self._random = Random(f"{context.options.seed}/{self.host}")
        self._paused_until = 0.0
        self._tick_at = float("inf")
        self._waiting: dict[Connection, deque[bytes]] = {}
        self._log_dir: LogDir | None = None
        self._ends_by_power = False
        self.membership = Membership(self, context)

    @property
    def is_registered(self) -> bool:
        return self.replication is not None and self.replication.broker_epoch >= 0

    @property
    def may_lose(self) -> bool:
        """Whether the power is about to fail."""
        return self._ends_by_power

    # --- life and death

    def start(self) -> None:
        options = self._context.options
        self.life += 1
        self.is_up, self._ends_by_power, self._tick_at = True, False, float("inf")
        self._path.mkdir(exist_ok=True)
        self.disk = FaultyDisk(self._path, random=self._random)
        config = LogConfig(
            segment_bytes=options.segment_bytes, segment_index_bytes=240, index_interval_bytes=512
        )
        self._log_dir = LogDir.open(self._path, writable=True, config=config, files=self.disk)
        for name, replicas in self._context.assignment.items():
            if self.id in replicas:
                self._log_dir.logs.create(name)
        self.broker = Broker(
            self._log_dir,
            BrokerConfig(
                node_id=self.id,
                is_writable=True,
                min_insync_replicas=options.min_insync,
                replica_lag_time_max_ms=options.lag_max_ms,
            ),
        )
        self.replication = Replication(self.broker)
        self.membership.register()
        for every, action in (
            (HEARTBEAT, self.membership.heartbeat),
            (options.lag_max_ms / 2000, self.membership.change_isr),
            (CHECKPOINT, self._checkpoint),
        ):
            self._repeat(every, action)

    def die(self, *, power: bool = False) -> None:
        """Kills the broker. `power`: the power fails, so unflushed data may be lost."""
        if not self.is_up:
            return
        self.is_up = False
        self.life += 1
        assert self._log_dir is not None
        assert self.disk is not None
        for connection in sorted(self.connections, key=lambda c: c.host):
            connection.reset(silent=power)
        self.membership.end(lost=power)
        self._waiting = {}
        self.broker = self.replication = None
        log_dir, self._log_dir = self._log_dir, None
        log_dir.abandon()
        if power:
            self.has_lost = True
            survivors = self._path.with_name(f"{self.host}-{self.life}")
            survivors.mkdir()
            self.disk.survivors(survivors)
            rmtree(self._path)
            self._path = survivors
        self.disk = None

    def die_in(self, operations: int, *, power: bool) -> None:
        """Dies at one of its next operations on the disk."""
        if self.disk is not None:
            self._ends_by_power = power
            self.disk.dies_in(operations)

    def pause(self, seconds: float) -> None:
        """Stops for a while, as in a long pause for garbage collection."""
        self._paused_until = self._context.timeline.now + seconds

    def flush(self) -> None:
        """Writes dirty pages back, as an operating system does."""

        def flush() -> None:
            assert self._log_dir is not None
            with suppress(StorageError):  # the disk is full
                for log in self._log_dir.logs.opened.values():
                    log.writer.flush()

        self.run(flush)

    def run(self, action: Action) -> None:
        """Runs an action on this machine, which may die during it."""
        if not self.is_up:
            return
        timeline = self._context.timeline
        if self._paused_until > timeline.now:
            self._later(self._paused_until - timeline.now, action)
            return
        try:
            action()
            self._tick()
        except Killed:
            self.die(power=self._ends_by_power)
            self._on_death(self)

    def _later(self, seconds: float, action: Action) -> None:
        life = self.life

        def act() -> None:
            if self.life == life:
                self.run(action)

        self._context.timeline.after(seconds, act)

    def _repeat(self, every: float, action: Action) -> None:
        def act() -> None:
            self._later(every, act)
            action()

        self._later(every * self._random.random(), act)

    def _tick(self) -> None:
        if self.broker is None:
            return
        now = self._context.timeline.now
        deadline = self.broker.tick(now)
        if deadline is not None and not now < self._tick_at <= deadline:
            self._tick_at = deadline
            self._later(deadline - now, self._ticked)

    def _ticked(self) -> None:
        self._tick_at = float("inf")

    # --- requests

    def receive(self, connection: Connection, data: bytes) -> None:
        waiting = self._waiting.get(connection)
        if waiting is not None:  # one request at a time
            waiting.append(data)
            return
        self._waiting[connection] = deque()
        self.run(lambda: self._handle(connection, data))

    def _handle(self, connection: Connection, data: bytes) -> None:
        assert self.broker is not None
        client = Client(id(connection), connection.host)
        life = self.life

        def on_done(exchange: Exchange) -> None:
            if self.life == life:
                self._done(connection, exchange)

        try:
            self.broker.handle(client, memoryview(data), self._context.timeline.now, on_done)
        except BadRequestError:
            self._end(connection)
        self.membership.change_isr()

    def _done(self, connection: Connection, exchange: Exchange) -> None:
        """Sends the response, now or when the socket has space."""
        if exchange.defect is not None:
            raise exchange.defect
        tag = self.tag()
        if exchange.close_after_reply:
            self._give_up(connection, exchange)
        elif exchange.send is None:
            self._later(0, lambda: self._finish(connection, exchange))
        else:
            delay = self._random.uniform(0, 0.2) if self._random.random() < 0.2 else 0.0
            self._later(delay, lambda: self._send(connection, exchange, tag))

    def _send(self, connection: Connection, exchange: Exchange, tag: Tag) -> None:
        """Reads the records only now, because the log may have changed since."""
        send, channel = exchange.send, BytesIO()
        assert send is not None
        try:
            while not send.completed:
                send.write_to(channel)
        except (RecordsError, StorageError, OSError):
            self._give_up(connection, exchange)
            return
        connection.reply(channel.getvalue()[LENGTH_SIZE:], tag)
        self._finish(connection, exchange)

    def _finish(self, connection: Connection, exchange: Exchange) -> None:
        """Ends the exchange, so that the next request may come."""
        assert self.broker is not None
        self.broker.finished(exchange)
        waiting = self._waiting.pop(connection, None)
        if waiting:
            data = waiting.popleft()
            self._waiting[connection] = waiting
            self._handle(connection, data)

    def _give_up(self, connection: Connection, exchange: Exchange) -> None:
        assert self.broker is not None
        self.broker.finished(exchange)
        self._end(connection)

    def _end(self, connection: Connection) -> None:
        self._waiting.pop(connection, None)
        connection.reset()

    def tag(self) -> Tag:
        """The current state of the broker, to check its responses against."""
        if self.broker is None:
            return {}
        return {
            p.name: (p.leader_epoch, p.leader == self.id, p.is_high_watermark_certain)
            for p in self.broker.topics.partitions()
        }

    # --- timers

    def _checkpoint(self) -> None:
        assert self.replication is not None
        with suppress(StorageError):
            self.replication.note_high_watermarks()

    def later(self, seconds: float, action: Callable[[], None]) -> None:
        """Runs an action later, unless the broker has died by then."""
        self._later(seconds, action)
