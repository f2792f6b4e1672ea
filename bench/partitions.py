"""What do ten thousand partitions cost a writable broker: descriptors, and the time to start and to
stop?

A directory is made with this many partitions of one batch each. `serve --writable` is started on it
and stopped, then started again, produced to (a batch into each partition), and stopped. Descriptors
are counted in /proc, while the server runs.

    python -m bench.partitions --partitions 10000"""

import resource
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from typing import Final

import click

from downconvert.protocol.schemas import ApiKey, Message
from downconvert.storage.names import CLEAN_SHUTDOWN, Kind, file_name
from downconvert.storage.session import CLEAN
from tests.downconvert.broker.talking import Talk
from tests.downconvert.storage.logs import batch

from .servers.processes import Serving, served

TOPIC: Final = "many"
TOGETHER: Final = 500  # partitions in one request
SECONDS: Final = 300.0  # for a response
BATCH: Final = batch(0, timestamp=1, size=100)


def make(directory: Path, count: int) -> None:
    """Partitions as a broker leaves them at its shutdown."""
    for index in range(count):
        path = directory / f"{TOPIC}-{index}"
        path.mkdir()
        (path / file_name(0, Kind.LOG)).write_bytes(BATCH)
        for kind in (Kind.OFFSET_INDEX, Kind.TIME_INDEX):
            (path / file_name(0, kind)).touch()
    (directory / CLEAN_SHUTDOWN).write_bytes(CLEAN)


def descriptors(serving: Serving) -> int:
    return sum(1 for _ in Path(f"/proc/{serving.pid}/fd").iterdir())


def produce(serving: Serving, count: int) -> None:
    """Writes a batch into each partition."""
    with Talk(serving.address, seconds=SECONDS) as talk:
        for first in range(0, count, TOGETHER):
            written = [
                Message(index=index, records=BATCH)
                for index in range(first, min(count, first + TOGETHER))
            ]
            body = Message(
                transactional_id=None,
                acks=1,
                timeout_ms=60_000,
                topic_data=[Message(name=TOPIC, partition_data=written)],
            )
            response = talk.ask(ApiKey.Produce, 8, body)
            for one in response.responses[0].partition_responses:
                assert not one.error_code, one


@contextmanager
def timed(directory: Path, what: str) -> Iterator[Serving]:
    """A server; prints the times of its start and stop."""
    began = perf_counter()
    with served(directory, "--writable") as serving:
        click.echo(f"{what}: started in {perf_counter() - began:.1f} s", nl=False)
        click.echo(f", with {descriptors(serving):,} descriptors")
        yield serving
        ended = perf_counter()
    click.echo(f"{what}: stopped in {perf_counter() - ended:.1f} s")


@click.command(help=(__doc__ or "").partition("\n\n    ")[0])
@click.option("--partitions", "count", type=click.IntRange(1), default=10_000, show_default=True)
@click.option("--files", type=click.IntRange(64), help="How many files the server may open.")
@click.option("--dir", "directory", type=click.Path(path_type=Path), help="On the disk to measure.")
def main(count: int, files: int | None, directory: Path | None) -> None:
    if files is not None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))
    with tempfile.TemporaryDirectory(dir=directory) as place:
        logs = Path(place)
        make(logs, count)
        with timed(logs, "nothing written"):
            pass
        with timed(logs, "each written") as serving:
            began = perf_counter()
            produce(serving, count)
            click.echo(
                f"each written: a batch into each in {perf_counter() - began:.1f} s, then "
                f"{descriptors(serving):,} descriptors"
            )
        with timed(logs, "at last"):
            pass


if __name__ == "__main__":
    main()
