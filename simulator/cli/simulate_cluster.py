"""`downconvert simulate-cluster`, and `downconvert simulate --brokers …`: replicated brokers under
faults, in simulated time."""

import json
import logging
import shlex
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import inf
from pathlib import Path
from typing import Any, Final

import click
from click.core import ParameterSource

from downconvert.cli.failure import CommandError
from downconvert.cli.invocation import command_line
from downconvert.cli.terminal import name_the_backend
from downconvert.cli.values import OutputFile
from simulator.cluster.options import BROKERS_MAX, FAULTS, options_for
from simulator.cluster.truth import InvariantError

BROKERS: Final = 3
ALL: Final = "all"
NONE: Final = "none"
SECONDS_MIN: Final = 0.5
CHECK_FAILED: Final = 1


def _faults(_context: click.Context, _option: click.Parameter, text: str) -> tuple[str, ...]:
    if text in (ALL, NONE):
        return FAULTS if text == ALL else ()
    names = [name.strip() for name in text.split(",")]
    for name in names:
        if name not in FAULTS:
            raise click.BadParameter(f"{name!r} is not one of {', '.join((*FAULTS, ALL, NONE))}")
    return tuple(fault for fault in FAULTS if fault in names)


CLUSTER_OPTIONS: Final = (
    click.option(
        "--brokers",
        metavar="N",
        type=click.IntRange(1, BROKERS_MAX),
        default=BROKERS,
        help="In simulated time: replicated brokers.",
    ),
    click.option(
        "--faults",
        default=ALL,
        callback=_faults,
        metavar="NAMES",
        help="In simulated time: all, none, or some of " + ", ".join(FAULTS) + ".",
    ),
    click.option(
        "--seed",
        metavar="N",
        type=click.IntRange(min=0),
        default=0,
        help="In simulated time: the first seed.",
    ),
    click.option(
        "--seeds",
        metavar="N",
        type=click.IntRange(min=1),
        default=1,
        help="In simulated time: how many, one after the other.",
    ),
)
ONLY_HERE: Final = ("brokers", "faults", "seed", "seeds")
SETTINGS: Final = (*ONLY_HERE, "seconds", "as_json", "report")


def cluster_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds the options of a simulated cluster to a command."""
    for option in reversed(CLUSTER_OPTIONS):
        command = option(command)
    return command


def has_cluster_options(context: click.Context) -> bool:
    """Whether some of these options are given to a command that has others, too. UsageError:
    options of both kinds are given."""
    given = {
        name: parameter
        for parameter in context.command.params
        if (name := parameter.name)
        and context.get_parameter_source(name) is ParameterSource.COMMANDLINE
    }
    cluster = [name for name in ONLY_HERE if name in given]
    others = [one for name, one in given.items() if name not in SETTINGS]
    if cluster and others:
        raise click.UsageError(
            f"--{cluster[0]} is for brokers in simulated time, which have no {_shown(others[0])}"
        )
    return bool(cluster)


def _shown(parameter: click.Parameter) -> str:
    return parameter.opts[-1] if isinstance(parameter, click.Option) else "PATHS"


def cluster_settings(context: click.Context) -> dict[str, Any]:
    """The arguments of `simulate_cluster`, from a command with all its options."""
    return {name: context.params[name] for name in SETTINGS}


@click.command("simulate-cluster")
@cluster_options
@click.option(
    "--seconds",
    metavar="S",
    type=float,
    help="Simulated seconds with faults.  [default: by the seed]",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object, and nothing else.")
@click.option(
    "--report",
    metavar="FILE",
    type=OutputFile(),
    help="Write the result to one HTML file, which opens offline.",
)
def simulate_cluster(
    brokers: int,
    faults: tuple[str, ...],
    seed: int,
    seeds: int,
    seconds: float | None,
    as_json: bool,
    report: Path | None,
) -> None:
    """Run brokers, producers and consumers in simulated time, with faults.

    The seed determines everything: options, load, faults and their times. The same seed makes the
    same run. The run checks that no acknowledged record is lost, and that no consumer reads an
    uncommitted record or a record twice. High watermarks must not go back. At the end, all replicas
    must be equal, byte for byte.

    \b
    downconvert simulate-cluster --faults all --seed 1 --seeds 100
    downconvert simulate-cluster --brokers 5 --faults kills,drops --seed 7
    """
    if seconds is not None and not SECONDS_MIN <= seconds < inf:
        raise click.UsageError(f"--seconds is at least {SECONDS_MIN:g} and finite, not {seconds:g}")
    # Brokers take a while to load, so they are imported only here.
    from simulator.cluster.cluster import simulate_cluster as run_cluster
    from simulator.cluster.summary import Run, verdict, write_report
    from simulator.cluster.summary import faults as all_faults

    name_the_backend()
    say = (lambda _line: None) if as_json else click.echo
    runs: list[Run] = []
    for one in range(seed, seed + seeds):
        options = options_for(one, brokers=brokers, faults=faults, seconds=seconds)
        for line in options.describe():
            say(line)
        try:
            with _without_log_lines():
                outcome = run_cluster(options)
        except InvariantError as error:
            runs.append(Run(options, None, str(error)))
            break
        say(outcome.describe())
        runs.append(Run(options, outcome))
    say(f"{verdict(runs)}; {all_faults(runs)}")
    if as_json:
        document = {"verdict": verdict(runs), "runs": [run.to_json() for run in runs]}
        click.echo(json.dumps(document))
    if report is not None:
        write_report(report, runs, command_line())
        say(f"report: {report}")
    failure = runs[-1].failure
    if failure is not None:
        command = _command(runs[-1].options.seed, brokers, faults, seconds)
        raise CommandError(f"{failure}\nreproduce: {command}", CHECK_FAILED)


@contextmanager
def _without_log_lines() -> Iterator[None]:
    """Hides the brokers' warnings. They are about the faults that this run makes on purpose, and
    would read like trouble here."""
    logger, handler = logging.getLogger("downconvert"), logging.NullHandler()
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)


def _command(seed: int, brokers: int, faults: tuple[str, ...], seconds: float | None) -> str:
    names = ALL if faults == FAULTS else ",".join(faults) or NONE
    words = ["downconvert", "simulate-cluster", "--brokers", str(brokers), "--faults", names]
    words += ["--seed", str(seed)]
    if seconds is not None:
        words += ["--seconds", f"{seconds:g}"]
    return shlex.join(words)
