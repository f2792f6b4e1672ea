"""How much memory does a send hold, whatever it converts?

Each case runs in a process of its own, which is warmed up on a few records of the same codec. After
that it may map only a few megabytes more. It reports the growth of its resident memory, and the
bytes that the send's own buffers held.

    python -m bench.memory

Not here: the promised limits (tests/downconvert checks them)."""

import json
import resource
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import click

from downconvert import ConversionPolicy, LazyDownConvertRecords
from records import Codec, FileRecords, RecordsError
from records.units import KiB, MiB

from .contenders.ours import Discard
from .measuring.bombs import bomb
from .measuring.segments import SHAPES, segment
from .servers.processes import ROOT, status

MAPPED_MAX: Final = 64 * MiB  # of address space, beyond that of the idle process
SMOKE_SCALE: Final = 64
NEEDS_MORE: Final = "needs more than"
STATUS: Final = Path("/proc/self/status")


@dataclass(frozen=True, slots=True)
class Held:
    """The memory of one conversion. `outcome` is empty, or the reason why it ended early."""

    name: str
    source_size: int
    sent_size: int
    records: int
    buffers: int
    growth: int
    outcome: str


def cases(directory: Path, scale: int) -> Iterator[tuple[str, Path]]:
    """The names and files of the cases. Files have a `scale`th of the full size."""
    for name in ("none-100", "mixed", "gzip-json", "lz4-100", "snappy-100", "zstd-100"):
        shape = SHAPES[name]
        yield name, segment(shape, size=shape.size // scale, directory=directory)
    huge = 900_000_000 // scale
    for codec in (Codec.GZIP, Codec.LZ4, Codec.SNAPPY, Codec.ZSTD):
        name = codec.name.lower()
        path = directory / f"{name}-900-records.log"
        yield (
            f"{name}, 900 records of {huge // 900:,} B",
            bomb(path, codec, records=900, value_size=huge // 900),
        )
    for codec in (Codec.NONE, Codec.GZIP, Codec.LZ4, Codec.SNAPPY, Codec.ZSTD):
        name = codec.name.lower()
        path = directory / f"{name}-1-record.log"
        yield f"{name}, one record of {huge:,} B", bomb(path, codec, records=1, value_size=huge)


def held(name: str, warm_up: Path, path: Path) -> Held:
    """Converts in this process, whose address space stays limited afterwards."""
    convert(warm_up)
    idle = status("VmRSS")
    limit = status("VmSize") + MAPPED_MAX
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    Path("/proc/self/clear_refs").write_text("5")  # the high-water mark begins here
    sent = records = buffers = 0
    outcome = ""
    try:
        sent, records, buffers = convert(path)
    except MemoryError:
        outcome = f"{NEEDS_MORE} {MAPPED_MAX // MiB} MiB"
    except RecordsError as error:
        outcome = str(error)
    growth = max(status("VmHWM") - idle, 0)
    return Held(name, path.stat().st_size, sent, records, buffers, growth, outcome)


def convert(path: Path) -> tuple[int, int, int]:
    """Converts a whole file under the default policy. Returns the bytes sent, the records, and the
    peak of the send's buffers."""
    channel = Discard()
    with FileRecords.open(path) as log:
        send = LazyDownConvertRecords(log, 1, policy=ConversionPolicy()).to_send()
        while not send.completed:
            send.write_to(channel)
        done = send.stats
        return done.bytes_out, done.records_converted, done.peak_buffer_bytes


def in_child(name: str, warm_up: Path, path: Path) -> Held:
    response = subprocess.run(
        (sys.executable, "-m", "bench.memory", "--child", name, str(warm_up), str(path)),
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return Held(**json.loads(response.stdout))


@click.command(help=(__doc__ or "").partition("\n\n    ")[0])
@click.option("--smoke", is_flag=True, help="A small size: that it runs.")
@click.option("--child", nargs=3, hidden=True)
def main(smoke: bool, child: tuple[str, str, str] | None) -> None:
    if child is not None:
        case, *paths = child
        click.echo(json.dumps(asdict(held(case, *map(Path, paths)))))
        return
    if not STATUS.exists():
        raise click.UsageError("memory is measured through /proc, which this system does not have")
    click.echo(f"{'':36} {'source':>13} {'sent':>13} {'records':>9} {'buffers':>10} {'growth':>10}")
    needs_too_much = False
    with TemporaryDirectory() as directory:
        for name, path in cases(Path(directory), SMOKE_SCALE if smoke else 1):
            codec = name.partition(",")[0].partition("-")[0]
            shape = SHAPES[f"{codec}-100" if f"{codec}-100" in SHAPES else "none-100"]
            warm_up = segment(shape, size=64 * KiB, directory=Path(directory))
            result = in_child(name, warm_up, path)
            click.echo(
                f"{name:36} {result.source_size:13,} {result.sent_size:13,} {result.records:9,}"
                f" {result.buffers:10,} {result.growth:10,} {result.outcome}".rstrip()
            )
            needs_too_much |= result.outcome.startswith(NEEDS_MORE)
    if smoke and needs_too_much:  # small files must not need that much
        raise SystemExit(1)


if __name__ == "__main__":
    main()
