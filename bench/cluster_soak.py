"""Does a replicated cluster leak files, objects or requests when it runs for an hour with faults?

    python -m bench.cluster_soak --seconds 3600

One run of the deterministic simulation, an hour of simulated time by default. Once a simulated
minute it counts open files, objects of the interpreter, pending events, connections, and waiting
requests. A count that grows from one third of the run to the next is printed, and the exit code is
1. Records that the simulation keeps for its checks do not count."""

import argparse
import gc
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Final

from simulator.cluster.cluster import MEMORY, Cluster
from simulator.cluster.options import options_for

# The ratio by which counts may grow from one third of a run to the next, because faults vary.
SHARE_MAX: Final = 1.2
SLACK: Final = {"files": 12, "objects": 4_000, "events": 60, "connections": 12, "waiting": 12}


@dataclass(frozen=True, slots=True)
class Sample:
    """The counts at one moment of simulated time."""

    seconds: float
    files: int
    objects: int
    events: int
    connections: int
    waiting: int


def soak(directory: Path, *, seconds: float, every: float, seed: int) -> list[Sample]:
    """Runs a cluster, and counts at intervals. InvariantError, as `Cluster.run`."""
    options = replace(options_for(seed), seconds=seconds, segment_bytes=1_000_000)
    cluster = Cluster(options, directory)
    samples: list[Sample] = []

    def take() -> None:
        samples.append(_sample(cluster, len(samples) * every))
        cluster.timeline.after(every, take)

    take()
    try:
        cluster.run()
    finally:
        cluster.close()
    return samples


def growth(samples: list[Sample]) -> list[str]:
    """The counts that kept growing, in words. The first third of a run is the warm-up."""
    third = len(samples) // 3
    before, after = samples[third : 2 * third], samples[2 * third :]
    found = []
    for name, slack in SLACK.items():
        middle, end = (median(getattr(s, name) for s in part) for part in (before, after))
        if end > SHARE_MAX * middle + slack:
            found.append(f"{name}: {middle:.0f} in the second third, {end:.0f} in the last")
    return found


def _sample(cluster: Cluster, seconds: float) -> Sample:
    gc.collect()
    brokers = [node.broker for node in cluster.nodes if node.broker is not None]
    return Sample(
        seconds=seconds,
        files=sum(1 for _ in Path("/proc/self/fd").iterdir()),
        objects=len(gc.get_objects()),
        events=len(cluster.timeline),
        connections=sum(len(node.connections) for node in cluster.nodes),
        waiting=sum(len(broker.purgatory) for broker in brokers),
    )


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=3600.0)
    parser.add_argument("--every", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(arguments)
    parent = MEMORY if MEMORY.is_dir() else None
    with TemporaryDirectory(prefix="soak-", dir=parent) as directory:
        samples = soak(
            Path(directory), seconds=options.seconds, every=options.every, seed=options.seed
        )
    for sample in samples:
        print(" ".join(f"{name} {value:g}" for name, value in asdict(sample).items()))
    found = growth(samples)
    for line in found:
        print(f"grows: {line}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
