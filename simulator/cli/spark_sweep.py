"""`downconvert spark sweep`: runs the simulator over a grid of options."""

import json
import shlex
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import click

from downconvert.cli.failure import CommandError
from downconvert.cli.grid import grid, print_table
from downconvert.cli.spark_job import Job, on_spark
from downconvert.cli.values import SIZE, OutputFile
from records.units import format_count, format_rate, format_size, parse_size

ONE_AT_A_TIME: Final = "local[1]"
CHECK_FAILED: Final = 1


def _list_of(parse: Callable[[str], object]) -> Callable[..., object]:
    def callback(_context: click.Context, _option: click.Parameter, text: str) -> object:
        try:
            return tuple(parse(part.strip()) for part in text.split(","))
        except ValueError as error:
            raise click.BadParameter(str(error)) from None

    return callback


@click.command()
@click.argument("target", metavar="OUT")
@click.option(
    "--codecs",
    metavar="NAMES",
    default="none,gzip",
    callback=_list_of(str),
    help="Codecs of the batches.",
)
@click.option(
    "--records",
    metavar="SIZES",
    default="100,1000",
    callback=_list_of(parse_size),
    help="Sizes of the values.",
)
@click.option(
    "--chunks",
    metavar="SIZES",
    default="4KiB,16KiB,128KiB",
    callback=_list_of(parse_size),
    help="Chunk sizes: how much is converted at once.",
)
@click.option(
    "--consumers",
    metavar="NUMBERS",
    default="1,10",
    callback=_list_of(int),
    help="Numbers of consumers that read at once.",
)
@click.option(
    "--modes",
    metavar="MODES",
    default="lazy,eager",
    callback=_list_of(str),
    help="How records are converted, as in simulate.",
)
@click.option(
    "--size", metavar="SIZE", default="8MiB", callback=SIZE, help="Size of each workload."
)
@click.option(
    "--report",
    metavar="FILE",
    type=OutputFile(),
    help="Write the results with plots to one HTML file, which opens offline.",
)
@on_spark
def sweep(
    target: str,
    codecs: tuple[str, ...],
    records: tuple[int, ...],
    chunks: tuple[int, ...],
    consumers: tuple[int, ...],
    modes: tuple[Any, ...],
    size: int,
    report: Path | None,
    job: Job,
) -> None:
    """Measure how memory and throughput of conversion depend on chunk size, codec, size of records
    and number of consumers. All combinations are measured, and written as Parquet to OUT.

    Measurements run one after the other here. On a cluster, give each task an executor of its own
    (--conf spark.task.cpus=N), or they distort each other.

    \b
    downconvert spark sweep /tmp/sweep --report sweep.html
    downconvert spark sweep /tmp/sweep --codecs zstd --chunks 1KiB,64KiB --consumers 1,100
    """
    here = replace(job, master=ONE_AT_A_TIME) if job.is_anywhere else job
    with here.session("sweep", paths=()) as (session, step):
        from simulator.sweep.sweep import Grid
        from simulator.sweep.sweep import sweep as run

        if report is not None:  # before the measurement, because plots need an extra
            from simulator.sweep.report import write_report
        try:
            grid_of = Grid(
                codecs=codecs,
                record_sizes=records,
                chunk_sizes=chunks,
                consumers=consumers,
                modes=modes,
                size=size,
            )
        except ValueError as error:
            raise click.UsageError(str(error)) from None
        rows = [row.asDict() for row in run(session, grid_of, target, step=step).collect()]
    if job.as_json:
        click.echo(json.dumps({"measurements": rows}))
    else:
        _print_sweep(rows)
        click.echo(f"\n{format_count(len(rows), 'measurement')} in {target}")
    if report is not None:
        write_report(report, rows, shlex.join(["downconvert", *sys.argv[1:]]))
        if not job.as_json:
            click.echo(f"report: {report}")
    failures = sorted({failure for row in rows for failure in row["failures"]})
    if failures:
        raise CommandError("\ndownconvert: ".join(failures), CHECK_FAILED)


def _print_sweep(rows: Sequence[dict[str, Any]]) -> None:
    table = grid("codec", "record", "chunk", "consumers", "mode", "peak", "records/s")
    order = ("codec", "record_size", "chunk_size", "consumers", "mode")
    for row in sorted(rows, key=lambda row: tuple(row[key] for key in order)):
        table.add_row(
            row["codec"],
            format_size(row["record_size"]),
            format_size(row["chunk_size"]),
            str(row["consumers"]),
            row["mode"],
            format_size(row["peak_bytes"]),
            format_rate(row["records_per_second"]),
        )
    print_table(table)
