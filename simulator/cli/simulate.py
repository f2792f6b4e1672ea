"""`downconvert simulate`: measures the cost of lazy, eager and no conversion."""

import json
import shlex
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import asdict, fields
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import click

from downconvert.cli.failure import CommandError, in_words, shortened
from downconvert.cli.grid import output
from downconvert.cli.terminal import Step, name_the_backend, progress
from downconvert.cli.values import POLICY, POLICY_HELP, OutputFile, parsed, size_from
from downconvert.storage.segments.segment_files import segment_files
from records.backend import NAME
from records.units import KiB, plain_size
from simulator import (
    MODES,
    Mode,
    Options,
    Result,
    SimulationError,
    Workload,
    environment,
    generate,
)
from simulator import simulate as run_simulation
from simulator.fetch.options import CONSUMERS_MAX
from simulator.fetch.table import headline, table, verdict
from simulator.load.options import Slow, format_clients
from simulator.rounds import ROUNDS_MAX

from .simulate_cluster import (
    cluster_options,
    cluster_settings,
    has_cluster_options,
    simulate_cluster,
)
from .simulate_path import has_path_options, load_options, path_options, simulate_path
from .values import WORKLOAD

Segments = Callable[[Step], AbstractContextManager[list[Path]]]

CHECK_FAILED = 1
DEFAULT = Options()


def _modes(_context: click.Context, _option: click.Parameter, text: str) -> tuple[Mode, ...]:
    names = [name.strip() for name in text.split(",")]
    for name in names:
        if name not in MODES:
            raise click.BadParameter(f"{name!r} is not one of {', '.join(MODES)}")
    return tuple(mode for mode in MODES if mode in names)


@click.command()
@click.argument("paths", nargs=-1, type=click.Path(path_type=Path))
@click.option(
    "--generate",
    "workloads",
    metavar="SPEC",
    multiple=True,
    callback=WORKLOAD,
    help="Generate segments by a SPEC, as of downconvert generate (repeatable).",
)
@click.option(
    "--keep", metavar="DIR", type=click.Path(path_type=Path), help="Keep generated segments here."
)
@click.option(
    "--to-magic",
    metavar="0|1",
    type=click.IntRange(0, 1),
    default=1,
    help="Message format that the consumers read.",
)
@click.option(
    "--max-bytes",
    metavar="SIZE",
    default=plain_size(DEFAULT.max_bytes),
    callback=size_from(1),
    help="Bytes of the log in one fetch, as max.partition.fetch.bytes.",
)
@click.option(
    "--consumers",
    metavar="N",
    type=click.IntRange(1, CONSUMERS_MAX),
    default=DEFAULT.consumers,
    help="Consumers that read at once, as fast as they can.",
)
@click.option(
    "--slow",
    metavar="N|SHARE",
    callback=parsed(Slow.parse),
    help="Slow consumers besides. Over TCP: their number, or their share: 10%.  "
    f"[default: {DEFAULT.slow}]",
)
@click.option(
    "--rate",
    metavar="SIZE",
    default=plain_size(DEFAULT.rate),
    callback=size_from(KiB),
    help="Bytes a second that a slow consumer reads.",
)
@click.option(
    "--policy", metavar="POLICY", default=DEFAULT.policy, callback=POLICY, help=POLICY_HELP
)
@click.option(
    "--rounds",
    metavar="N",
    type=click.IntRange(1, ROUNDS_MAX),
    default=DEFAULT.rounds,
    help="How many times each mode is measured, in turns. With 1 there is no warm-up.",
)
@click.option(
    "--modes",
    metavar="MODES",
    default=",".join(MODES),
    callback=_modes,
    help="Which modes are measured.",
)
@path_options
@cluster_options
@click.option(
    "--json", "as_json", is_flag=True, help="Print the results as JSON, and nothing else."
)
@click.option(
    "--report",
    metavar="FILE",
    type=OutputFile(),
    help="Write the results with plots to one HTML file, which opens offline.",
)
@click.pass_context
def simulate(
    context: click.Context,
    /,
    paths: tuple[Path, ...],
    workloads: tuple[Workload, ...],
    keep: Path | None,
    as_json: bool,
    report: Path | None,
    slow: Slow | None,
    prometheus: Path | None,
    **settings: Any,
) -> None:
    """Fetch segments like old consumers, and measure the cost of conversion.

    PATHS are segment files or log directories. There are three modes. lazy converts a response
    while it is sent. eager converts it before it is sent (as Kafka did before 2.0). zero-copy does
    not convert (sendfile, as for current consumers). Responses go through socket pairs. Sender and
    consumers are separate processes, and consumers check every byte. After a warm-up the modes take
    turns, in rounds. Figures are medians of the rounds. The last table compares lazy with eager.

    \b
    downconvert simulate
    downconvert simulate /var/kafka/topic-0 --report report.html
    downconvert simulate --generate codec=lz4,size=64MiB --generate record=100
    downconvert simulate IN.log --consumers 20 --slow 5 --rate 1MiB --policy kafka

    With --clients or --preset the whole path is measured: a broker with a topic, and clients over
    TCP.

    \b
    downconvert simulate --preset kip-283 --report report.html
    downconvert simulate --clients 0.8:200,0.10:200,3.x:50 --slow 10%

    With --brokers, --faults or --seed this is simulate-cluster: replicas, in simulated time.

    \b
    downconvert simulate --brokers 3 --faults all --seed 1 --seeds 100
    """
    if has_cluster_options(context):
        context.invoke(simulate_cluster, **cluster_settings(context))
        return
    given = {**settings, "slow": slow, "prometheus": prometheus}
    if has_path_options(given):
        if paths or keep is not None:
            raise click.UsageError(
                "the topic of --clients and --preset is generated: leave PATHS out"
            )
        path = load_options(context, given, workloads)
        name = settings["preset"] or format_clients(path.clients)
        simulate_path(path, name, as_json=as_json, report=report, prometheus=prometheus)
        return
    try:
        options = Options(slow=_slow(slow), **_only(Options, settings))
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    if keep is not None and not workloads:
        raise click.UsageError("--keep is for the segments of --generate")
    write_report = _report_writer() if report is not None else None
    if not paths and not workloads:
        workloads = (Workload.parse("size=32MiB"),)
    jobs = _jobs(paths, workloads, keep)
    console = output(quiet=as_json)
    name_the_backend()
    console.print(f"{NAME} kernel, {options.describe()}", style="dim")
    for workload in workloads:
        console.print(f"workload {workload}", style="dim")
    results: list[Result] = []
    problems: list[str] = []
    for name, segments in jobs:
        try:
            with progress() as step, segments(step) as files:
                result = run_simulation(name, files, options, step)
        except (SimulationError, OSError) as error:
            problems.append(in_words(error) or "")
            continue
        results.append(result)
        console.print()
        console.print(headline(result), table(result), "", verdict(result), sep="\n")
        problems += shortened([f"{line}; measured up to there" for line in result.damage])
    command = _command(paths, workloads, options)
    failures = [failure for result in results for failure in result.failures()]
    if as_json:
        click.echo(json.dumps(_document(results, options, command), indent=1))
    if report is not None and write_report is not None and results:
        write_report(report, results, options, command)
        console.print(f"\nreport: {report}")
    if problems:
        raise CommandError("\ndownconvert: ".join(problems))
    if failures:
        raise CommandError(f"a check failed; reproduce: {command}", CHECK_FAILED)


def _slow(slow: Slow | None) -> int:
    """The number of slow consumers. ValueError: it is a share instead."""
    if slow is None:
        return DEFAULT.slow
    if slow.share:
        raise ValueError("a share of slow consumers needs --clients or --preset")
    return slow.count


def _only(of: type[Options], settings: dict[str, Any]) -> dict[str, Any]:
    names = {field.name for field in fields(of)}
    return {name: value for name, value in settings.items() if name in names}


def _report_writer() -> Callable[[Path, Sequence[Result], Options, str], None]:
    """Loads the report's writer. It is loaded only for a report, because plotting takes half a
    second to load. It is loaded before the measurement, because the plotting library may be
    missing."""
    from simulator.fetch.report import write_report

    return write_report


def _jobs(
    paths: Sequence[Path], workloads: Sequence[Workload], keep: Path | None
) -> list[tuple[str, Segments]]:
    """The simulations to run: a name, and a context in which the segments exist."""
    jobs: list[tuple[str, Segments]] = []
    if paths:
        files = segment_files(paths)
        for file in files:
            file.open("rb").close()  # reports an unreadable file at once
        jobs.append((" ".join(map(str, paths)), lambda _step: nullcontext(files)))
    for number, workload in enumerate(workloads, 1):
        directory = keep / f"{number}-{workload.codec}" if keep else None
        jobs.append((str(workload), partial(_generated, workload, directory)))
    return jobs


@contextmanager
def _generated(workload: Workload, keep: Path | None, step: Step) -> Iterator[list[Path]]:
    """A workload's segments, in a directory that is kept, or in a temporary one."""
    with ExitStack() as stack:
        directory = keep or Path(stack.enter_context(TemporaryDirectory(prefix="downconvert-")))
        yield generate(workload, directory, lambda done: step("generate", done, workload.size))


def _command(paths: Sequence[Path], workloads: Sequence[Workload], options: Options) -> str:
    """The command line that repeats the run."""
    arguments = ["downconvert", "simulate", *map(str, paths)]
    for workload in workloads:
        arguments += ["--generate", str(workload)]
    for field in fields(Options):
        value = getattr(options, field.name)
        if value == field.default:
            continue
        if field.name in ("max_bytes", "rate"):
            value = plain_size(value)
        text = ",".join(value) if isinstance(value, tuple) else str(value)
        arguments += [f"--{field.name.replace('_', '-')}", text]
    return shlex.join(arguments)


def _document(results: Sequence[Result], options: Options, command: str) -> dict[str, object]:
    return {
        "command": command,
        "backend": NAME,
        "environment": environment(),
        "options": asdict(options),
        "results": [result.to_json() for result in results],
    }
