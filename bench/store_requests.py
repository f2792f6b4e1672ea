"""Which requests do the jobs send to an object store, and what do they cost?

A segment is put into a store of S3's protocol on loopback (tests/object_store.py), which counts
requests. Each job then processes the segment in this process, without Spark, which adds no
requests. The output is a table of docs/spark-100tb.md: the requests for a segment of 1 GiB, and the
price of 100 TB. Requests for bytes of the log are scaled by size.

    python -m bench.store_requests"""

import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import click
import pytest

from downconvert.spark.jobs.audit.audit import plan
from downconvert.spark.jobs.audit.audit_segment import audit_segments
from downconvert.spark.jobs.convert import convert
from downconvert.spark.jobs.convert.rewrite import Settings
from downconvert.spark.jobs.export import export
from downconvert.spark.options.options import Options
from downconvert.spark.options.schemas import schema_of
from downconvert.spark.read.reader import SegmentReader, Task
from downconvert.storage import Log
from records.units import MiB
from tests import object_store
from tests.downconvert.spark.in_process import SESSION, without_spark

from .measuring.segments import SHAPES, segment
from .spark_plan import SEGMENT, TOTAL

SHAPE: Final = "none-1000"
URI: Final = "s3://bucket"
# Assumed: the list prices of 2025 for S3 Standard in us-east-1, in US dollars for 1,000 requests.
# Bytes are free within a region, and deletions are always free.
READ: Final = 0.0004
WRITE: Final = 0.005
WRITES: Final = ("Put", "Create", "Upload", "Complete", "Copy", "List")
FREE: Final = ("Delete", "Abort")
BY_SIZE: Final = ("GetObject", "UploadPart")


@dataclass(frozen=True, slots=True)
class RequestCounts:
    """Requests of a job over one segment, by kind, and the segment's size in bytes."""

    kinds: Counter[str]
    size: int

    def scaled(self) -> dict[str, float]:
        """The same for a segment of 1 GiB."""
        factor = SEGMENT / self.size
        return {
            kind: count * factor if kind in BY_SIZE and count > 3 else count
            for kind, count in self.kinds.items()
        }

    def counts(self) -> tuple[float, float]:
        """The requests for a segment of 1 GiB: those at the price of reads, and those at the price
        of writes."""
        found = [0.0, 0.0]
        for kind, count in self.scaled().items():
            if not kind.startswith(FREE):
                found[kind.startswith(WRITES)] += count
        return found[0], found[1]


def jobs() -> Iterator[tuple[str, Callable[[], object]]]:
    """The jobs, by name; each reads the same folder."""
    source = f"{URI}/logs"

    def read() -> None:
        options = Options.parse({"path": source}, streaming=False)
        reader = SegmentReader(options, schema_of(options))
        for task in reader.partitions():
            if isinstance(task, Task):
                for _ in reader.read(task):
                    pass

    yield "query", read
    yield (
        "audit",
        lambda: [list(audit_segments(task)) for task in plan([source], (), everything=False)],
    )
    settings = Settings(to_magic=1)
    yield (
        "convert, to the same store",
        lambda: convert.run(SESSION, [source], f"{URI}/made", settings),
    )
    yield "export, to the same store", lambda: export.run(SESSION, [source], f"{URI}/lake")


def measure(size: int, directory: Path) -> dict[str, RequestCounts]:
    log = directory / "buckets" / "bucket" / "logs" / "orders-0"
    log.mkdir(parents=True)
    path = log / f"{0:020}.log"
    path.write_bytes(segment(SHAPES[SHAPE], size=size).read_bytes())
    Log.open(log, writable=True).close()  # builds the indexes
    found = {}
    running = object_store.running(directory / "buckets", directory / "requests.log")
    with running as store, pytest.MonkeyPatch.context() as patch:
        for name, value in store.environment.items():
            patch.setenv(name, value)
        without_spark(patch)
        for name, job in jobs():
            before = len(store.requests())
            job()
            kinds = Counter(kind for kind, _ in store.requests()[before:])
            found[name] = RequestCounts(kinds, path.stat().st_size)
    return found


def table(found: dict[str, RequestCounts]) -> Iterator[str]:
    yield "| job | requests that read, a segment | that write or list | USD for 100 TB |"
    yield "|---|---|---|---|"
    for name, seen in found.items():
        read, written = seen.counts()
        dollars = TOTAL / SEGMENT * (read * READ + written * WRITE) / 1000
        yield f"| {name} | {read:,.0f} | {written:,.0f} | {dollars:,.2f} |"


@click.command(help=(__doc__ or "").partition("\n\n    ")[0])
@click.option("--size", default=64, show_default=True, help="MiB of the segment.")
def main(size: int) -> None:
    with tempfile.TemporaryDirectory() as place:
        found = measure(size * MiB, Path(place))
    for line in table(found):
        click.echo(line)
    for name, seen in found.items():
        click.echo(f"{name}: {dict(seen.kinds)}", err=True)


if __name__ == "__main__":
    main()
