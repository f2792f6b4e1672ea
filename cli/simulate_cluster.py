"""`downconvert simulate-cluster`: replicated brokers under faults, in simulated time.

Not here: the simulation (simulator.cluster), what a seed stands for (simulator.cluster_options)."""

import shlex

import click

from simulator.cluster import simulate_cluster as run_cluster
from simulator.cluster_options import BROKERS_MAX, FAULTS, options_for
from simulator.truth import InvariantError

from .failure import CommandError

BROKERS = 3
ALL, NONE = "all", "none"
CHECK_FAILED = 1


def _faults(_context: click.Context, _option: click.Parameter, text: str) -> tuple[str, ...]:
    if text in (ALL, NONE):
        return FAULTS if text == ALL else ()
    names = [name.strip() for name in text.split(",")]
    for name in names:
        if name not in FAULTS:
            raise click.BadParameter(f"{name!r} is not one of {', '.join((*FAULTS, ALL, NONE))}")
    return tuple(fault for fault in FAULTS if fault in names)


@click.command("simulate-cluster", short_help="Replicas under faults, in simulated time.")
@click.option("--brokers", type=click.IntRange(1, BROKERS_MAX), default=BROKERS)
@click.option(
    "--faults",
    default=ALL,
    callback=_faults,
    metavar="NAMES",
    help="all, none, or some of: " + ", ".join(FAULTS),
)
@click.option("--seed", type=click.IntRange(min=0), default=0, help="The first seed.")
@click.option(
    "--seeds", type=click.IntRange(min=1), default=1, help="How many, one after the other."
)
@click.option(
    "--seconds",
    type=click.FloatRange(min=0.5),
    help="Simulated seconds with faults.  [default: by the seed]",
)
def simulate_cluster(
    brokers: int, faults: tuple[str, ...], seed: int, seeds: int, seconds: float | None
) -> None:
    """Run brokers, producers and consumers in simulated time, and let things go wrong.

    A seed makes everything: options, load, faults and their times; the same seed is the same run.
    All along it is checked that nothing that was acknowledged is lost, that nobody is given what
    is not committed, or anything twice, that high watermarks do not go back, and in the end that
    all replicas are the same, byte for byte.

    \b
    downconvert simulate-cluster --faults all --seed 1 --seeds 100
    downconvert simulate-cluster --brokers 5 --faults kills,drops --seed 7
    """
    for one in range(seed, seed + seeds):
        options = options_for(one, brokers=brokers, faults=faults, seconds=seconds)
        for line in options.describe():
            click.echo(line)
        try:
            click.echo(run_cluster(options).describe())
        except InvariantError as error:
            command = _command(one, brokers, faults, seconds)
            raise CommandError(f"{error}\nreproduce: {command}", CHECK_FAILED) from None


def _command(seed: int, brokers: int, faults: tuple[str, ...], seconds: float | None) -> str:
    names = ALL if faults == FAULTS else ",".join(faults) or NONE
    words = ["downconvert", "simulate-cluster", "--brokers", str(brokers), "--faults", names]
    words += ["--seed", str(seed)]
    if seconds is not None:
        words += ["--seconds", f"{seconds:g}"]
    return shlex.join(words)
