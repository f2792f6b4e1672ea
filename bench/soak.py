"""Does a writable `serve` stay stable for an hour: its memory, its files, its log, its time to
start?

The server is a process of its own, with a real clock and disk. Old producers write at a fixed rate
to topics that are cut by size and age, and to one that is compacted. Old consumers of four versions
of Fetch read at the tail, and check every byte. A group's member joins, commits and leaves. Other
groups commit once and disappear. Clients come and go, some before they get their response.

Every few seconds the process and its directory are measured. At longer intervals another server
starts on a copy of the directory, as after SIGKILL, and its time to start is measured.

    python -m bench.soak --minutes 60 --plot docs/soak.svg

A figure that is larger in the last third of the run than in the second is printed, and the exit
code is 1. At the end the server is stopped and started, and all records left are read.

With `--fast`, clocks are simulated, and a day takes a minute and a half (fast_soak.py).

Not here: the definition of growth, and the picture (soaked.py)."""

import json
import shutil
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import asdict
from os import kill
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import click

from records import Record

from .servers.draining import Address
from .servers.old_clients import BEGINNING, Consumer, Producer
from .servers.processes import Serving, served
from .soaking import fast_soak
from .soaking.soak_load import TICK, Load
from .soaking.soaked import Sample, Soaked, Start, growth, plot, table

SAMPLE_SECONDS: Final = 10.0
START_SECONDS: Final = 120.0  # between two measurements of a start
OPTIONS: Final = (
    "--writable",
    "--cleanup-interval=10",
    "--rebalance-delay=0",
    "--offsets-retention=1",
    "--topic-config=__consumer_offsets:segment.bytes=65536",
    "--metrics-port=0",
)
COUNTED: Final = ("removed_segments", "cleaner_read_bytes", "requests")


def soak(directory: Path, seconds: float) -> Soaked:
    """Runs the load for this time. RuntimeError, WrongBytesError, EOFError: the server failed."""
    log_dir = directory / "log"
    log_dir.mkdir()
    samples, starts = list[Sample](), list[Start]()
    with served(log_dir, *OPTIONS) as serving, ExitStack() as stack:
        load = Load(serving.address, stack)
        begun = time.monotonic()
        next_sample = next_start = 0.0
        while (elapsed := time.monotonic() - begun) < seconds:
            load.step()
            if elapsed >= next_sample:
                samples.append(sample(serving, log_dir, elapsed, load.records))
                next_sample = elapsed + SAMPLE_SECONDS
            if elapsed >= next_start:
                starts.append(Start(elapsed, start_on_copy(serving, log_dir, directory / "copy")))
                next_start = elapsed + START_SECONDS
            time.sleep(max(0.0, TICK - (time.monotonic() - begun - elapsed)))
        counted = {name: serving.counted(f"downconvert_broker_{name}_total") for name in COUNTED}
    with served(log_dir, *OPTIONS) as serving:
        for producer in load.producers:
            read_again(serving.address, producer)
    return Soaked(samples, starts, counted)


def sample(serving: Serving, log_dir: Path, seconds: float, records: int) -> Sample:
    process = Path(f"/proc/{serving.pid}")
    sizes = list(sizes_of(log_dir))
    return Sample(
        seconds=seconds,
        resident=serving.resident,
        anonymous=serving.memory,
        files=sum(1 for _ in (process / "fd").iterdir()),
        threads=sum(1 for _ in (process / "task").iterdir()),
        log_size=sum(sizes),
        log_files=len(sizes),
        records=records,
        cpu_seconds=serving.cpu_seconds,
    )


def sizes_of(directory: Path) -> Iterator[int]:
    """The sizes of its files on disk. Indexes are larger than their written part."""
    for path in directory.rglob("*"):
        try:
            status = path.stat()
        except FileNotFoundError:
            continue  # removed meanwhile
        if path.is_file():
            yield status.st_blocks * 512


def start_on_copy(serving: Serving, log_dir: Path, copy: Path) -> float:
    """CPU seconds that another server needs until it is ready, on a copy of the current directory.
    The server is stopped while the directory is copied, because a copy of changing files is not a
    state that a crash leaves."""
    kill(serving.pid, signal.SIGSTOP)
    try:
        shutil.copytree(log_dir, copy)
    finally:
        kill(serving.pid, signal.SIGCONT)
    try:
        with served(copy, *OPTIONS) as other:
            return other.cpu_seconds
    finally:
        shutil.rmtree(copy)


def read_again(address: Address, producer: Producer) -> None:
    """Reads all records left in a partition. The last record written must be among them, and the
    last one of each key."""
    contents = producer.contents
    newest = dict[bytes | None, Record]()
    with Consumer(address, contents, version=2, skips=bool(contents.keys)) as consumer:
        consumer.next_offsets[contents] = consumer.offset(contents, BEGINNING)
        while True:
            consumer.ask()
            if not (taken := consumer.take()):
                break
            newest.update({record.key: record for record in taken})
        end = consumer.next_offsets[contents]
    if end != producer.next_offset:
        raise RuntimeError(f"{contents}: ends at {end}, written up to {producer.next_offset}")
    for offset in range(max(end - contents.keys, 0), end):
        found = newest.get(contents.key(offset))
        value = contents.value(offset)
        if contents.keys and value is not None and (found is None or found.value != value):
            raise RuntimeError(f"{contents}: the last record of a key, at {offset}, is not there")


def run_fast(
    seconds: float, seed: int, place: Path | None, json_path: Path | None, plot_path: Path | None
) -> None:
    """Runs the soak on simulated clocks. Ends the process."""
    click.echo(f"seed {seed}")
    with TemporaryDirectory(prefix="soak-", dir=place) as directory:
        found = fast_soak.soak(Path(directory), seconds, seed)
    for line in fast_soak.report(found):
        click.echo(line)
    if json_path is not None:
        json_path.write_text(json.dumps(asdict(found)))
    if plot_path is not None:
        fast_soak.plot(found, plot_path)
    grown = fast_soak.growth(found)
    for increase in grown:
        click.echo(f"grows: {increase}")
    if grown:
        click.echo(f"reproduce: python -m bench.soak --fast --minutes {seconds / 60} --seed {seed}")
    sys.exit(1 if grown else 0)


@click.command(help=(__doc__ or "").partition("\n\n    ")[0])
@click.option("--minutes", default=60.0, show_default=True)
@click.option("--dir", "place", type=click.Path(path_type=Path), help="On the disk to write to.")
@click.option("--json", "json_path", type=click.Path(path_type=Path), help="All figures.")
@click.option("--plot", "plot_path", type=click.Path(path_type=Path), help="A picture.")
@click.option("--fast", is_flag=True, help="At a thousand times real speed.")
@click.option("--seed", default=1, show_default=True, help="Of what happens with --fast.")
def main(
    minutes: float,
    place: Path | None,
    json_path: Path | None,
    plot_path: Path | None,
    fast: bool,
    seed: int,
) -> None:
    if fast:
        run_fast(minutes * 60, seed, place, json_path, plot_path)
    with TemporaryDirectory(prefix="soak-", dir=place) as directory:
        soaked = soak(Path(directory), minutes * 60)
    for line in table(soaked.samples):
        click.echo(line)
    seconds = [one.cpu_seconds for one in soaked.starts]
    click.echo("starts, CPU seconds: " + " ".join(f"{each:.2f}" for each in seconds))
    for name, number in soaked.counted.items():
        click.echo(f"{name}: {number:,.0f}")
    if json_path is not None:
        json_path.write_text(json.dumps(asdict(soaked)))
    if plot_path is not None:
        plot(soaked, plot_path)
    grown = growth(soaked)
    for increase in grown:
        click.echo(f"grows: {increase}")
    sys.exit(1 if grown else 0)


if __name__ == "__main__":
    main()
