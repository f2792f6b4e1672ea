"""`downconvert simulate --clients …`: the whole path, from a broker's directory to clients over
TCP.

Not here: running and measuring (simulator.load), the path without a broker (simulate.py)."""

import json
import shlex
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from downconvert.cli.failure import CommandError
from downconvert.cli.grid import output
from downconvert.cli.terminal import name_the_backend, progress
from downconvert.cli.values import OutputFile, parsed
from records.backend import NAME
from records.units import parse_size, plain_size
from simulator import Workload, environment
from simulator.load.options import (
    PARTITIONS_MAX,
    PRESETS,
    Group,
    LoadOptions,
    parse_clients,
    preset,
)

if TYPE_CHECKING:
    from simulator.load.results import LoadResult

CHECK_FAILED: Final = 1
OPTIONAL_SIZE: Final = parsed(lambda text: parse_size(text) if text is not None else None)
CLIENTS: Final = parsed(lambda text: parse_clients(text) if text else None)
ONLY_HERE: Final = ("clients", "preset", "size", "partitions", "per_fetch", "seconds", "pause")
SHARED: Final = ("max_bytes", "rate", "policy", "modes", "rounds")

PATH_OPTIONS: Final = (
    click.option(
        "--clients",
        metavar="KIND:N,...",
        default="",
        show_default=False,
        callback=CLIENTS,
        help="Over TCP: the number of clients of each release, such as 0.8:200,0.10:200,3.x:50.",
    ),
    click.option(
        "--preset",
        type=click.Choice(list(PRESETS)),
        help="Over TCP: a named experiment; other options change it.",
    ),
    click.option(
        "--size", metavar="SIZE", callback=OPTIONAL_SIZE, help="Over TCP: size of the topic."
    ),
    click.option(
        "--partitions",
        metavar="N",
        type=click.IntRange(1, PARTITIONS_MAX),
        help="Over TCP: partitions of the topic.  [default: 200]",
    ),
    click.option(
        "--partitions-per-fetch",
        "per_fetch",
        metavar="N",
        type=click.IntRange(min=1),
        help="Over TCP: partitions that each client reads.  [default: 1]",
    ),
    click.option(
        "--seconds",
        metavar="S",
        type=click.FloatRange(min=0),
        help="Over TCP: seconds in each mode, all rounds together.  [default: 5]",
    ),
    click.option(
        "--pause",
        metavar="S",
        type=click.FloatRange(min=0),
        help="Over TCP: pause of today's clients between two fetches.  [default: 0.05]",
    ),
    click.option(
        "--prometheus",
        metavar="FILE",
        type=OutputFile(),
        help="Over TCP: write the results in Prometheus' text format.",
    ),
)


def path_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds the options of a simulation over TCP to a command."""
    for option in reversed(PATH_OPTIONS):
        command = option(command)
    return command


def has_path_options(settings: dict[str, Any]) -> bool:
    """Whether the options are those of a simulation over TCP. UsageError: they are inconsistent."""
    if settings["clients"] or settings["preset"]:
        return True
    for name in (*ONLY_HERE, "prometheus"):
        if settings[name] is not None:
            option = "partitions-per-fetch" if name == "per_fetch" else name
            raise click.UsageError(f"--{option} needs --clients or --preset")
    return False


def load_options(
    context: click.Context, settings: dict[str, Any], workloads: Sequence[Workload]
) -> LoadOptions:
    """The options of the preset, or the defaults, changed by the command line's. UsageError."""
    given = {
        name: settings[name]
        for name in SHARED
        if context.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE
    }
    given |= {
        name: settings[name]
        for name in ("partitions", "per_fetch", "seconds", "pause")
        if settings[name] is not None
    }
    if len(workloads) > 1:
        raise click.UsageError("--generate is given once: all clients read one topic")
    try:
        if settings["slow"] is not None:
            given["slow"] = settings["slow"]
        clients: tuple[Group, ...] | None = settings["clients"]
        if clients:
            given["clients"] = clients
        if settings["preset"]:
            base = preset(settings["preset"], settings["size"])
        else:
            base = LoadOptions(clients=clients or ())
        workload = workloads[0] if workloads else base.workload
        if settings["size"]:
            workload = replace(workload, size=settings["size"])
        return replace(base, workload=workload, **given)
    except ValueError as error:
        raise click.UsageError(str(error)) from None


def simulate_path(
    options: LoadOptions,
    name: str,
    *,
    as_json: bool,
    report: Path | None,
    prometheus: Path | None,
) -> None:
    """Runs a simulation, prints its result. CommandError: it cannot be run, or a check failed."""
    # A broker takes a while to load, and so do plots. They are imported only if needed, and before
    # the measurement.
    from simulator.load.metrics import write_prometheus
    from simulator.load.simulation import simulate_load
    from simulator.load.table import table, verdict

    if report is not None:
        from simulator.load.report import write_report
    command = shlex.join(["downconvert", "simulate", *options.arguments()])
    console = output(quiet=as_json)
    name_the_backend()
    console.print(f"{NAME} kernel, {options.describe()}", style="dim")
    console.print(command, style="dim")
    with progress() as step:
        result = simulate_load(name, options, step)
    console.print()
    console.print(table(result), "", verdict(result), sep="\n")
    if as_json:
        click.echo(json.dumps(_document(result, command), indent=1))
    if report is not None:
        write_report(report, [result], command)
        console.print(f"\nreport: {report}")
    if prometheus is not None:
        write_prometheus(prometheus, [result])
        console.print(f"for Prometheus: {prometheus}")
    if result.failures():
        raise CommandError(f"a check failed; reproduce: {command}", CHECK_FAILED)


def _document(result: "LoadResult", command: str) -> dict[str, object]:
    options = result.options
    return {
        "command": command,
        "backend": NAME,
        "environment": environment(),
        "options": {
            "clients": {group.kind: group.count for group in options.clients},
            "slow": str(options.slow),
            "rate": plain_size(options.rate),
            "partitions_per_fetch": options.per_fetch,
            "max_bytes": plain_size(options.max_bytes),
            "pause": options.pause,
            "seconds": options.seconds,
            "policy": options.policy,
            "rounds": options.rounds,
        },
        "results": [result.to_json()],
    }
