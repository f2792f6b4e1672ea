"""Options of a simulated cluster, all from one seed."""

from dataclasses import dataclass
from random import Random
from typing import Final

from records.units import format_count

# Kinds of faults, implemented in `faults.py`.
FAULTS: Final = (
    "delays",  # the link between two hosts is slow
    "drops",  # data between two hosts is lost
    "reorders",  # connections have different speeds, and overtake one another
    "stalls",  # a broker does nothing for a while, or a socket accepts nothing
    "resets",  # connections end
    "kills",  # a broker dies, also during a write
    "torn-disks",  # and its machine with it: unflushed data is lost, or partly written
    "full-disks",  # a disk is full for a while
    "elections",  # another replica leads
)
BROKERS_MAX: Final = 9
PRODUCE_VERSIONS: Final = (0, 1, 2, 3, 5, 7, 8, 9, 11, 12, 13)
FETCH_VERSIONS: Final = (0, 1, 2, 3, 4, 5, 7, 10, 11, 12, 13, 15, 17)
ZSTD_SINCE: Final = 10  # version of Fetch


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerOptions:
    """The options of a producer. acks: 0, 1 or -1 (all). linger: seconds. batch_size: records."""

    version: int
    acks: int
    is_idempotent: bool
    codec: str
    linger: float
    batch_size: int
    rate: float  # records a second


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerOptions:
    """The options of a consumer. max_bytes: of a partition, in one fetch. reads_nearby: it reads
    from any replica, as with a rack-aware replica selector."""

    version: int
    max_bytes: int
    is_committed: bool
    reads_nearby: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterOptions:
    """The options of a run. seconds: simulated time with faults."""

    seed: int
    brokers: int
    partitions: int
    replicas: int
    min_insync: int
    faults: tuple[str, ...]
    seconds: float
    fault_every: float
    lag_max_ms: int
    segment_bytes: int
    producers: tuple[ProducerOptions, ...]
    consumers: tuple[ConsumerOptions, ...]

    def describe(self) -> list[str]:
        """All options, a line each, for the first lines of a run."""
        lines = [
            f"seed {self.seed}, {format_count(self.brokers, 'broker')}, "
            f"{format_count(self.partitions, 'partition')} with "
            f"{self.replicas} replicas, min.insync.replicas {self.min_insync}",
            f"{self.seconds:g} s with faults every {self.fault_every:.2f} s: "
            f"{', '.join(self.faults) or 'none'}",
            f"replica.lag.time.max.ms {self.lag_max_ms}, segment.bytes {self.segment_bytes}",
        ]
        for one in self.producers:
            acks = "all" if one.acks < 0 else str(one.acks)
            idempotent = ", idempotent" if one.is_idempotent else ""
            lines.append(
                f"producer: v{one.version}, acks {acks}{idempotent}, {one.codec}, {one.rate:.1f} "
                f"records/s, batches of {one.batch_size}, linger {1000 * one.linger:.0f} ms"
            )
        for reader in self.consumers:
            isolation = "committed" if reader.is_committed else "uncommitted"
            nearby = ", any replica" if reader.reads_nearby else ""
            lines.append(
                f"consumer: v{reader.version}, {reader.max_bytes} bytes, read {isolation}{nearby}"
            )
        return lines


def options_for(
    seed: int,
    *,
    brokers: int = 3,
    faults: tuple[str, ...] = FAULTS,
    seconds: float | None = None,
) -> ClusterOptions:
    """The options that follow from a seed. ValueError: there are no such faults, or too many
    brokers."""
    for fault in faults:
        if fault not in FAULTS:
            raise ValueError(f"a fault is one of {', '.join(FAULTS)}, not {fault!r}")
    if not 1 <= brokers <= BROKERS_MAX:
        raise ValueError(f"brokers are 1 to {BROKERS_MAX}")
    random = Random(f"{seed}/options")
    replicas = min(3, brokers)
    # In most runs there are most kinds of faults, so that they interact. Sometimes there are few.
    share = random.choice((0.3, 0.7, 1.0))
    chosen = tuple(fault for fault in faults if random.random() < share)
    consumers = tuple(_consumer(random) for _ in range(random.randint(1, 3)))
    knows_zstd = all(one.version >= ZSTD_SINCE for one in consumers)
    return ClusterOptions(
        seed=seed,
        brokers=brokers,
        partitions=random.randint(1, 3),
        replicas=replicas,
        min_insync=random.choice([n for n in (1, 2, 2, 2, 3) if n <= replicas]),
        faults=chosen,
        seconds=random.choice((5.0, 7.0, 10.0)) if seconds is None else seconds,
        fault_every=random.uniform(0.3, 1.5),
        lag_max_ms=random.choice((2000, 3000, 5000)),
        segment_bytes=random.choice((14_000, 20_000, 1_000_000)),
        producers=tuple(_producer(random, zstd=knows_zstd) for _ in range(random.randint(1, 3))),
        consumers=consumers,
    )


def _producer(random: Random, *, zstd: bool) -> ProducerOptions:
    version = random.choice(PRODUCE_VERSIONS)
    acks = random.choice((-1, -1, -1, 1, 0))
    codecs = ["none", "gzip", "snappy", "lz4"] + (["zstd"] if version >= 7 and zstd else [])
    return ProducerOptions(
        version=version,
        acks=acks,
        is_idempotent=version >= 3 and acks < 0 and random.random() < 0.7,
        codec=random.choice(codecs),
        linger=random.choice((0.0, 0.02, 0.2)),
        batch_size=random.choice((1, 5, 20)),
        rate=random.choice((2.0, 6.0, 12.0)),
    )


def _consumer(random: Random) -> ConsumerOptions:
    version = random.choice(FETCH_VERSIONS)
    return ConsumerOptions(
        version=version,
        max_bytes=random.choice((300, 4_000, 1_048_576)),
        is_committed=version >= 4 and random.random() < 0.5,
        reads_nearby=version >= 11 and random.random() < 0.5,
    )
