"""A cluster of real brokers in simulated time: the same seed makes the same run.

Requests and responses are bytes that a simulated network carries. There are no threads, no sockets
and no clock. Invariants are checked all the time. `run` ends when faults have stopped, all replicas
are equal and all consumers have read everything.

Not here: the faults (faults.py), the options drawn from the seed (options.py)."""

from dataclasses import dataclass
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Final

from downconvert.broker.partition import Partition
from downconvert.storage import TopicPartition
from records.units import format_count

from .clients import TOPIC
from .consumer import Consumer
from .context import Context
from .controller import Controller
from .faults import Faults
from .network import Network
from .node import Node
from .options import ClusterOptions
from .producer import ALL, Producer
from .timeline import Timeline
from .truth import InvariantError, Truth, Written

MEMORY: Final = Path("/dev/shm")  # if it exists: no file has to survive this machine
START: Final = 1_700_000_000.0  # seconds since the epoch
CHECKS: Final = 0.5  # seconds between checks of the cluster
SETTLES: Final = 60.0  # seconds from the last fault until all replicas are equal


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a run without a broken invariant."""

    seconds: float  # simulated
    written: int  # records, by producers
    promised: int  # of these, acknowledged with acks all: no fault may lose them
    committed: int  # in the logs at the end; a repeated record may count twice
    faults: dict[str, int]
    epochs: int  # the highest of all partitions

    def describe(self) -> str:
        faults = ", ".join(f"{name} {n}" for name, n in sorted(self.faults.items())) or "no faults"
        return (
            f"held: {on_every_replica(self.promised)}; the logs also hold "
            f"{format_count(self.others, 'record')} that faults may lose or repeat "
            f"({self.written - self.promised:,} were written without that promise); "
            f"{format_count(self.epochs, 'leader epoch')}, {self.seconds:.1f} s: {faults}"
        )

    @property
    def others(self) -> int:
        """The number of records in the logs that were not promised."""
        return self.committed - self.promised


def on_every_replica(promised: int) -> str:
    """The invariant in words: this number of records may not be lost."""
    if promised == 0:
        return "no record was acknowledged with acks=all"
    if promised == 1:
        return "the one record acknowledged with acks=all is on every replica"
    return f"all {promised:,} records acknowledged with acks=all are on every replica"


def simulate_cluster(options: ClusterOptions) -> Outcome:
    """One run, in a temporary directory. InvariantError: an invariant was broken."""
    with TemporaryDirectory(
        prefix="cluster-", dir=MEMORY if MEMORY.is_dir() else None
    ) as directory:
        cluster = Cluster(options, Path(directory))
        try:
            return cluster.run()
        finally:
            cluster.close()


class Cluster:
    """The parts of a run. `directory` is empty, and gets a directory for each broker."""

    def __init__(self, options: ClusterOptions, directory: Path) -> None:
        self.options = options
        self.timeline = Timeline(START)
        self.network = Network(self.timeline, Random(f"{options.seed}/network"))
        brokers = range(options.brokers)
        self.assignment = {
            TopicPartition(TOPIC, index): tuple(
                (index + at) % len(brokers) for at in range(options.replicas)
            )
            for index in range(options.partitions)
        }
        self.controller = Controller(self.assignment, options.min_insync)
        self.truth = Truth(list(self.assignment))
        context = Context(
            options=options,
            timeline=self.timeline,
            network=self.network,
            controller=self.controller,
            truth=self.truth,
            assignment=self.assignment,
        )
        self.nodes = [
            Node(context, id_, directory / f"broker-{id_}", self._restart_later) for id_ in brokers
        ]
        context.machines = self.nodes
        for node in self.nodes:
            node.start()
        topic = next(n.broker.topics[TOPIC] for n in self.nodes if n.broker and n.broker.topics)
        context.topic_id = topic.id
        self.producers = [
            Producer(context, number, one, self._check_held)
            for number, one in enumerate(options.producers)
        ]
        self.consumers = [
            Consumer(context, number, one, self._check_held)
            for number, one in enumerate(options.consumers)
        ]
        hosts = [client.host for client in (*self.producers, *self.consumers)]
        self.faults = Faults(context, self.nodes, hosts, self._restart_later)

    def run(self) -> Outcome:
        """InvariantError: an invariant was broken."""
        timeline = self.timeline
        end = timeline.now + self.options.seconds
        while timeline.now < end:
            self._step()
        self.faults.stop()
        for producer in self.producers:
            producer.stop()
        deadline = timeline.now + SETTLES
        while not self._is_settled():
            if timeline.now > deadline:
                raise InvariantError(f"not settled after {SETTLES:g} s: {self._unsettled()}")
            self._step()
        return self._check_all()

    def close(self) -> None:
        """Closes all files."""
        for node in self.nodes:
            node.die()

    def _restart_later(self, node: Node) -> None:
        """Restarts a broker that has died, after a while."""

        def start() -> None:
            if not node.is_up:
                node.start()

        self.timeline.after(self.faults.down_time(), start)

    def _check_held(self, name: TopicPartition, offset: int, why: str) -> None:
        """InvariantError: a record is on fewer brokers than min.insync.replicas. Brokers that are
        down, or have lost data, count as if they had it."""
        held = maybe = 0
        for node in self.nodes:
            partition = self._partition(node, name)
            if partition is None or node.has_lost:
                maybe += node.id in self.assignment[name]
            else:
                held += partition.end_offset > offset
        if held + maybe < min(self.options.min_insync, self.options.replicas):
            raise InvariantError(
                f"{why}: offset {offset} of {name}, which {held} brokers hold, and at most {maybe} "
                f"that are down; min.insync.replicas is {self.options.min_insync}"
            )

    # --- steps and checks

    def _step(self) -> None:
        self.timeline.run_until(self.timeline.now + CHECKS)
        self.controller.check(self.timeline.now)
        for node in self.nodes:
            if node.has_lost and self._is_in_sync(node):
                node.has_lost = False

    def _is_in_sync(self, node: Node) -> bool:
        """Whether a broker is in sync for all its partitions."""
        return node.is_registered and all(
            node.id in self.controller.partitions[name].isr
            for name, replicas in self.assignment.items()
            if node.id in replicas
        )

    def _partition(self, node: Node, name: TopicPartition) -> Partition | None:
        return None if node.broker is None else node.broker.topics.partition(*name)

    def _replicas(self, name: TopicPartition) -> list[Partition | None]:
        return [self._partition(self.nodes[node], name) for node in self.assignment[name]]

    def _is_settled(self) -> bool:
        return not self._unsettled()

    def _unsettled(self) -> str:
        """A description of missing data; empty if nothing is missing."""
        for producer in self.producers:
            if not producer.is_done:
                return f"{producer.host} has records that no broker takes"
        for name in self.assignment:
            found = self._replicas(name)
            ends = {(p.end_offset, p.high_watermark) for p in found if p is not None}
            if None in found or len(ends) != 1 or any(end != high for end, high in ends):
                return f"{name} has ends and high watermarks {sorted(ends)}"
            ((end, _),) = ends
            for consumer in self.consumers:
                if consumer.positions[name.partition] != end:
                    position = consumer.positions[name.partition]
                    return f"{consumer.host} is at {position} of {name}, which ends at {end}"
        return ""

    # --- checks at the end

    def _check_all(self) -> Outcome:
        committed = 0
        for name in self.assignment:
            replicas = [p for p in self._replicas(name) if p is not None]
            logs = {_bytes_of(partition) for partition in replicas}
            if len(logs) != 1:
                sizes = sorted(map(len, logs))
                raise InvariantError(f"the replicas of {name} differ, in {sizes} bytes")
            values = [record.value or b"" for record in replicas[0].log.records()]
            committed += len(values)
            self.truth.check_log(name, values)
            for producer in self.producers:
                self._check_producer(producer, name, values)
        return Outcome(
            seconds=self.timeline.now - START,
            written=sum(producer.written for producer in self.producers),
            promised=sum(len(one.acknowledged) for one in self.truth.partitions.values()),
            committed=committed,
            faults=self.faults.happened,
            epochs=max(one.leader_epoch for one in self.controller.partitions.values()),
        )

    def _check_producer(
        self, producer: Producer, name: TopicPartition, values: list[bytes]
    ) -> None:
        """InvariantError: the producer's records are out of order, some are missing with acks all,
        or some are repeated although it is idempotent. With acks 0, records may overtake one
        another on their way to a new leader."""
        written = (Written.of(value) for value in values)
        numbers = [one.number for one in written if one.producer == producer.number]
        if producer.options.acks == 0:
            numbers.sort()
        elif not producer.options.is_idempotent:
            numbers = list(dict.fromkeys(numbers))  # each once, in the order of first appearance
        is_all = producer.options.acks == ALL
        expected = (
            list(range(producer.expected(name.partition))) if is_all else sorted(set(numbers))
        )
        if numbers != expected:
            pairs = enumerate(zip(numbers, expected, strict=False))
            at = next((i for i, (a, b) in pairs if a != b), "the end")
            raise InvariantError(
                f"{name} has {len(numbers)} records of {producer.host}, and {len(expected)} were "
                f"to be there, in this order; they differ at {at}"
            )


def _bytes_of(partition: Partition) -> bytes:
    """A whole log, because replicas may divide it into segments differently."""
    log, data = partition.log, bytearray()
    for segment in log.segments:
        data += segment.path().read_bytes()[: log.end_of(segment)]
    return bytes(data)
