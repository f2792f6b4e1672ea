"""Does the replicated broker keep its promises in ten thousand runs with faults?

    python -m bench.cluster_seeds --seeds 10000

Runs seed after seed of `downconvert simulate-cluster` in several processes. Every seed that fails
is printed with the command that repeats it; the exit code is then 1."""

import argparse
import sys
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from time import process_time

from simulator.cluster.cluster import Outcome, simulate_cluster
from simulator.cluster.options import options_for
from simulator.cluster.truth import InvariantError


@dataclass(frozen=True, slots=True)
class Run:
    """The result of one seed."""

    seed: int
    seconds: float  # of the processor
    outcome: Outcome | None
    problem: str = ""


def run(seed: int) -> Run:
    started = process_time()
    try:
        outcome = simulate_cluster(options_for(seed))
    except InvariantError as error:
        return Run(seed, process_time() - started, None, str(error))
    except Exception as error:
        return Run(seed, process_time() - started, None, f"{type(error).__name__}: {error}")
    return Run(seed, process_time() - started, outcome)


def command(seed: int) -> str:
    return f"downconvert simulate-cluster --seed {seed}"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seeds", type=int, default=10_000)
    parser.add_argument("--from", dest="first", type=int, default=0, help="the first seed")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--every", type=int, default=250, help="seeds between lines of progress")
    options = parser.parse_args(arguments)
    seeds = range(options.first, options.first + options.seeds)
    failed: list[Run] = []
    faults: Counter[str] = Counter()
    written = simulated = processor = 0.0
    with ProcessPoolExecutor(options.processes) as pool:
        for count, found in enumerate(pool.map(run, seeds, chunksize=5), 1):
            processor += found.seconds
            if found.outcome is None:
                failed.append(found)
                print(f"seed {found.seed}: {found.problem}\n  {command(found.seed)}", flush=True)
            else:
                faults.update(found.outcome.faults)
                written += found.outcome.written
                simulated += found.outcome.seconds
            if count % options.every == 0 or count == len(seeds):
                print(
                    f"{count} seeds, {len(failed)} failed; {written:.0f} records, "
                    f"{simulated / 3600:.1f} simulated hours, {processor:.0f} s of processor",
                    flush=True,
                )
    print(", ".join(f"{name} {n}" for name, n in sorted(faults.items())))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
