"""`downconvert generate`: generates segments for experiments."""

import json
from pathlib import Path
from time import perf_counter

import click

from downconvert.cli.terminal import name_the_backend, progress
from records.units import format_count, format_seconds, format_size
from simulator import Workload
from simulator import generate as write_segments

from .values import WORKLOAD


@click.command()
@click.argument("directory", type=click.Path(path_type=Path))
@click.argument("spec", callback=WORKLOAD, default="")
@click.option("--json", "as_json", is_flag=True, help="The summary as JSON.")
def generate(directory: Path, spec: Workload, as_json: bool) -> None:
    """Write the segments of a workload into DIRECTORY, with their indexes.

    SPEC is name=value,...: the same line makes the same bytes on every machine.

    \b
    codec=lz4            none, gzip, snappy, lz4, zstd, or mixed
    record=100..1000     size of values
    size=64MiB           keys and values in all, before compression
    batch=16KiB          of a batch, before compression
    segment=32MiB        when the next segment begins
    keys=1 headers=0 nulls=0 random=0.1 gaps=0
                         shares: with a key, with headers, without a
                         value, of random bytes, before a compaction gap
    seed=1

    \b
    downconvert generate /tmp/events codec=lz4,record=100..1000,size=64MiB
    downconvert generate /tmp/tiny record=100,batch=1,size=1MiB
    """
    name_the_backend()
    started = perf_counter()
    with progress() as step:
        paths = write_segments(spec, directory, lambda done: step("write", done, spec.size))
    size = sum(path.stat().st_size for path in paths)
    if as_json:
        files = [str(path) for path in paths]
        click.echo(json.dumps({"workload": str(spec), "bytes": size, "segments": files}))
        return
    click.echo(
        f"{spec}: {format_count(len(paths), 'segment')}, {format_size(size)} "
        f"in {format_seconds(perf_counter() - started)}"
    )
    for path in paths:
        click.echo(path)
