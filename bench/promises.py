"""Does each response keep its promises, whatever happens at the same time and whatever is cached?

    python -m bench.promises --cases 100000 --seed 1

A case is a log of arbitrary batches, and one to four clients that fetch it in any order. Policies,
chunk sizes, formats and limits are random. The cache holds everything, evicts, or holds nothing.
Checks compare sizes, limits and padding, and the bytes with those of the same response alone. Each
response must continue where the last one ended.

A failure ends with the command that repeats it.

Not here: the cases (tests/downconvert/promises)."""

import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic
from traceback import format_exc

import click

from tests.downconvert.promises.world import run_case

REPORT_EVERY = 1_000


@click.command()
@click.option("--cases", default=100_000, help="How many.")
@click.option("--seed", default=1, help="Of all of them.")
@click.option("--only", type=int, help="One case, by its number.")
def main(cases: int, seed: int, only: int | None) -> None:
    """Runs cases until one of them breaks a promise."""
    click.echo(f"bench.promises --cases {cases} --seed {seed}", err=True)
    started, responses = monotonic(), 0
    with TemporaryDirectory() as directory:
        for number in range(cases) if only is None else [only]:
            try:
                responses += run_case(seed, number, Path(directory))
            except Exception:
                click.echo(format_exc(), err=True)
                command = f"python -m bench.promises --seed {seed} --only {number}"
                click.echo(f"case {number}; reproduce: {command}", err=True)
                sys.exit(1)
            if (number + 1) % REPORT_EVERY == 0:
                click.echo(f"{number + 1:,} in {monotonic() - started:.0f} s", err=True)
    click.echo(f"{cases if only is None else 1:,} cases, {responses:,} responses: all as promised")


if __name__ == "__main__":
    main()
