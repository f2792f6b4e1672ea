"""Is our own client for ranges of S3 objects (stores/s3_ranges.py) worth its lines?

Three clients take turns to read an object from a store on loopback: ours, Arrow's, and botocore's.
They read it in blocks, as tasks read a log, and in small ranges, as the driver reads headers. The
table has the CPU time of each as a multiple of ours, and the share of turns in which ours took
less.

    python -m bench.spark_ranges"""

import tempfile
from collections.abc import Callable, Mapping
from hashlib import sha256
from pathlib import Path
from statistics import median
from time import process_time
from typing import Any, Final, TypeAlias

import click
import pytest

from downconvert.spark.stores.file_systems import opened, ranges_at
from downconvert.spark.stores.range_records import BLOCK_SIZE, LOOK_SIZE
from downconvert.spark.stores.stores import pinned
from records.units import MiB
from tests import object_store

URI: Final = "s3://bucket/object"
OURS: Final = "ours"

# Fills memory from a position of the object.
Fill: TypeAlias = Callable[[memoryview, int], None]


def clients() -> Mapping[str, Fill]:
    from botocore.session import get_session

    uri = pinned(URI)
    found = ranges_at(uri)
    assert found is not None, "our client does not read this store"
    ranges, key = found
    files, path = opened(uri)
    file = files.open_input_file(path)
    client: Any = get_session().create_client("s3")

    def ours(target: memoryview, position: int) -> None:
        assert ranges.read_into(key, target, position) == len(target)

    def arrows(target: memoryview, position: int) -> None:
        assert file.get_stream(position, len(target)).readinto(target) == len(target)

    def botocores(target: memoryview, position: int) -> None:
        wanted = f"bytes={position}-{position + len(target) - 1}"
        body = client.get_object(Bucket="bucket", Key="object", Range=wanted)["Body"]
        at = 0
        while at < len(target):
            at += body.readinto(target[at:])

    return {OURS: ours, "Arrow": arrows, "botocore": botocores}


def seconds(fill: Fill, data: bytes, size: int, count: int) -> float:
    """The CPU seconds for `count` reads of `size` bytes. The bytes are checked afterwards."""
    target, digest = memoryview(bytearray(size)), sha256()
    spent = 0.0
    for number in range(count):
        position = number * size % (len(data) - size + 1)
        started = process_time()
        fill(target, position)
        spent += process_time() - started
        digest.update(target)
        assert target == data[position : position + size]
    return spent


def measured(data: bytes, size: int, count: int, rounds: int) -> dict[str, tuple[float, float]]:
    """By client: the median of its CPU time as a multiple of ours in the same round, and the share
    of the rounds in which ours took less."""
    fills = clients()
    for fill in fills.values():
        seconds(fill, data, size, 1)
    turns = [
        {name: seconds(fill, data, size, count) for name, fill in fills.items()}
        for _ in range(rounds)
    ]
    ratios = {name: [turn[name] / turn[OURS] for turn in turns] for name in fills}
    return {
        name: (median(found), sum(one > 1 for one in found) / rounds)
        for name, found in ratios.items()
    }


@click.command(help=(__doc__ or "").partition("\n\n    ")[0])
@click.option("--size", default=64, show_default=True, help="MiB of the object.")
@click.option("--rounds", default=9, show_default=True)
def main(size: int, rounds: int) -> None:
    with tempfile.TemporaryDirectory() as place, pytest.MonkeyPatch.context() as patch:
        folder = Path(place) / "buckets" / "bucket"
        folder.mkdir(parents=True)
        data = bytes(range(256)) * (size * MiB // 256)
        (folder / "object").write_bytes(data)
        with object_store.running(folder.parent, Path(place) / "requests.log") as store:
            for name, value in store.environment.items():
                patch.setenv(name, value)
            click.echo("| reads | client | CPU, of ours | ours took less |\n|---|---|---|---|")
            for what, one in (("8 MiB", BLOCK_SIZE), ("64 KiB", LOOK_SIZE)):
                count = max(1, size * MiB // one) if one == BLOCK_SIZE else 64
                for name, (ratio, share) in measured(data, one, count, rounds).items():
                    if name != OURS:
                        click.echo(f"| {what} | {name} | {ratio:.2f} | {share:.0%} |")


if __name__ == "__main__":
    main()
