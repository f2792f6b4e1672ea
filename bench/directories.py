"""Does any command, on any directory, change foreign files, or lose a whole batch?

Each case is a log directory with links, pipes, zeros and damage. A command or a broker works on it
and may be killed at one of its operations, or files are moved away meanwhile
(tests/downconvert/cli/directory_commands.py). A failure names its seed.

    python -m bench.directories --cases 10000 --seed 1"""

import logging
import tempfile
from collections import Counter
from pathlib import Path
from time import perf_counter
from typing import Final

import click

from tests.downconvert.cli.directory_commands import check_case

MEMORY: Final = Path("/dev/shm")  # if it exists: no file has to survive this machine


@click.command(help=(__doc__ or "").partition("\n\n    ")[0])
@click.option("--cases", type=click.IntRange(1), default=1000, show_default=True)
@click.option("--seed", type=int, default=0, show_default=True, help="Of the first case.")
def main(cases: int, seed: int) -> None:
    logging.getLogger("downconvert").setLevel(logging.CRITICAL)
    done, failed = Counter[str](), 0
    began = perf_counter()
    for number in range(seed, seed + cases):
        with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as place:
            try:
                done[check_case(Path(place), number)] += 1
            except Exception as error:
                failed += 1
                click.echo(f"seed {number}: {type(error).__name__}: {error}")
    for what, count in sorted(done.items()):
        click.echo(f"{count:8,}  {what}")
    seconds = perf_counter() - began
    click.echo(f"{cases:,} cases from seed {seed}, {failed:,} failed, in {seconds:.0f} s")
    if failed:
        click.echo("reproduce: python -m bench.directories --cases 1 --seed N")
        raise SystemExit(1)


if __name__ == "__main__":
    main()
