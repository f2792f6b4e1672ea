"""Does a hostile client, or a hostile cluster, make the gateway hang, or fail with a foreign error?

    python -m bench.fuzz_gateway --count 1000000 --seed 1

A failure ends with the command that repeats it."""

import sys
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic
from traceback import format_exc

import click

from tests.downconvert.gateway.hostile import attempt, cluster

REPORT_EVERY = 10_000


@click.command()
@click.option("--count", default=1_000_000, help="How many mutants.")
@click.option("--seed", default=1, help="Of all of them.")
@click.option("--only", type=int, help="One mutant, by its number.")
def main(count: int, seed: int, only: int | None) -> None:
    """Tries mutants of requests and of responses."""
    ends = Counter[str]()
    started = monotonic()
    with TemporaryDirectory() as directory, cluster(Path(directory)) as broker:
        for number in range(count) if only is None else [only]:
            try:
                ends[attempt(broker, seed, number)] += 1
            except Exception:
                click.echo(format_exc(), err=True)
                command = f"python -m bench.fuzz_gateway --seed {seed} --only {number}"
                click.echo(f"mutant {number}; reproduce: {command}", err=True)
                sys.exit(1)
            if (number + 1) % REPORT_EVERY == 0:
                click.echo(f"{number + 1:,} in {monotonic() - started:.0f} s", err=True)
    for end, times in ends.most_common():
        click.echo(f"{times:>10,}  {end}")


if __name__ == "__main__":
    main()
