"""How many megabytes of log does Spark process in a CPU second, for each kind of query?

In one session on one core, contenders take turns, once in each round. Before that, each runs twice,
while the JVM compiles. A topic has a gigabyte or more, because a query costs Spark a third of a
second, whatever it reads. Rates are for CPU time of the JVM and Python's workers, without other
load and without the object store, which is another program (tests/object_store.py). Contenders read
copies of segments of uncompressed records from the page cache. Every row is made and thrown away
(`noop`).

\b
* ceiling: a data source that hands the same Arrow buffers to Spark again and again. This is Spark's
  own cost for the same columns.
* all, value, 100 B, headers: the data source. Records of 1 KB with all columns or with one, and
  records of 100 B without headers or with one header each.
* s3: as `all`, from the store.
* export: Parquet in a directory. pyarrow: Arrow alone writes the same batches, in this process.
* find: a key that nothing has. keys: a query for the column `key` alone.

    python -m bench.spark_rates --rounds 3"""

import os
import shutil
import tempfile
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import median
from time import process_time
from typing import Any, Final

import click
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from downconvert.spark import register
from downconvert.spark.jobs import find
from downconvert.spark.jobs.export import export
from downconvert.spark.options.options import Options
from downconvert.spark.options.schemas import schema_of
from downconvert.spark.read.reader import SegmentReader
from downconvert.spark.source import FORMAT
from records.units import MiB
from tests import object_store
from tests.object_store import ObjectStore

from .contenders.spark_ceiling import ceiling, copies_of
from .measuring.segments import SHAPES, segment
from .measuring.spark_cores import cpu_seconds, pin
from .spark import WARM_ROUNDS, open_session, write_links

PARTITIONS: Final = 16
TOPICS: Final = {"large": "none-1000", "small": "none-100", "headed": "header-100"}
NOBODY: Final = b"a key that nothing has"


@dataclass(slots=True)
class Figures:
    """Megabytes of log for each CPU second, in each round, by contender."""

    rates: dict[str, list[float]] = field(default_factory=dict)

    def add(self, name: str, size: int, seconds: float) -> None:
        self.rates.setdefault(name, []).append(size / max(seconds, 0.01) / 1e6)

    def ratio(self, ours: str, theirs: str) -> float:
        pairs = zip(self.rates[ours], self.rates[theirs], strict=True)
        return median(mine / other for mine, other in pairs)


def write_logs(directory: Path, size: int) -> dict[str, int]:
    """Writes a topic of each shape. Its partitions are links to one copy of a segment. Returns the
    bytes of log, by topic."""
    found = {}
    for topic, shape in TOPICS.items():
        source = segment(SHAPES[shape], size=size)
        write_links(source, directory, {topic: PARTITIONS})
        found[topic] = PARTITIONS * source.stat().st_size
    return found


def contenders(
    session: SparkSession, directory: Path, store: str, scratch: Path
) -> dict[str, tuple[str, Callable[[], object]]]:
    """The contenders by name, and the topic that each reads."""

    def frame(topic: str, path: str = str(directory), **options: str) -> Any:
        reader = session.read.format(FORMAT).option("topics", topic).options(**options)
        return reader.load(path)

    def noop(made: Callable[[], DataFrame]) -> None:
        made().write.format("noop").mode("overwrite").save()

    def only(column: str, topic: str) -> DataFrame:
        reader = session.read.format(FORMAT).schema(f"{column} BINARY").option("topics", topic)
        return reader.load(str(directory))

    def same(topic: str, **options: str) -> Callable[[], DataFrame]:
        frame = ceiling(session, str(directory), topics=topic, **options)
        return lambda: frame

    def exported(topic: str) -> None:
        target = scratch / "lake"
        shutil.rmtree(target, ignore_errors=True)
        export.run(session, [str(directory)], str(target), topics=[topic])

    def found(topic: str) -> None:
        frame = find.find(session, [str(directory)], [NOBODY], topics=[topic])
        assert find.run(frame, 1) == ([], True)

    return {
        "ceiling": ("large", partial(noop, same("large"))),
        "all": ("large", partial(noop, lambda: frame("large"))),
        "s3": ("large", partial(noop, lambda: frame("large", store))),
        "value": ("large", partial(noop, lambda: only("value", "large"))),
        "ceiling, 100 B": ("small", partial(noop, same("small"))),
        "100 B": ("small", partial(noop, lambda: frame("small"))),
        "ceiling, headers": ("headed", partial(noop, same("headed", includeHeaders="true"))),
        "headers": ("headed", partial(noop, lambda: frame("headed", includeHeaders="true"))),
        "export": ("large", partial(exported, "large")),
        "export, 100 B": ("small", partial(exported, "small")),
        "find": ("large", partial(found, "large")),
        "keys": ("large", partial(noop, lambda: only("key", "large"))),
        "find, 100 B": ("small", partial(found, "small")),
        "keys, 100 B": ("small", partial(noop, lambda: only("key", "small"))),
    }


def written_by_arrow(directory: Path, topic: str, target: Path) -> float:
    """CPU seconds of this process for writing the batches of a topic as Parquet."""
    given = {"path": str(directory), "topics": topic, "includeheaders": "true"}
    options = Options.parse(given, streaming=False)
    reader = SegmentReader(options, schema_of(options))
    batches = [list(reader.read(task)) for task in reader.partitions()]
    started = process_time()
    for task in batches:
        with pq.ParquetWriter(target, task[0].schema) as writer:
            for batch in task:
                writer.write_batch(batch)
    return process_time() - started


def measure(
    session: SparkSession,
    place: Path,
    store: ObjectStore,
    *,
    size: int,
    rounds: int,
    only: Collection[str],
    tell: Callable[[str], None],
) -> Figures:
    directory = place / "buckets" / "bucket" / "logs"
    sizes = write_logs(directory, size)
    figures = Figures()
    cores = os.sched_getaffinity(0)
    named = contenders(session, directory, "s3://bucket/logs", place)
    named = {name: work for name, work in named.items() if not only or name in only}
    check(session, directory)
    clock = partial(cpu_seconds, without=(store.process,))
    try:
        for _, work in [*named.values()] * WARM_ROUNDS:
            work()
        pin({max(cores)})
        for number in range(rounds):
            for name, (topic, work) in named.items():
                started = clock()
                work()
                figures.add(name, sizes[topic], clock() - started)
            for name, topic in (("pyarrow", "large"), ("pyarrow, 100 B", "small")):
                if only and name not in only:
                    continue
                seconds = written_by_arrow(directory, topic, place / "arrow.parquet")
                figures.add(name, sizes[topic], seconds)
            tell(f"round {number + 1} of {rounds}")
    finally:
        pin(cores)
    return figures


def check(session: SparkSession, directory: Path) -> None:
    """AssertionError: the store returns other records than the directory."""
    counts = [
        session.read.format(FORMAT)
        .option("topics", "large")
        .load(path)
        .selectExpr("count(*)", "sum(crc32(value))")
        .collect()[0]
        for path in (str(directory), "s3://bucket/logs")
    ]
    assert counts[0] == counts[1], counts
    assert counts[0][0] == copies_of(str(directory), topics="large")[1]


def report(figures: Figures) -> Iterator[str]:
    for name, rates in figures.rates.items():
        yield f"  {name:16} {median(rates):7,.0f} MB/s  [{min(rates):,.0f} .. {max(rates):,.0f}]"
    for ours, theirs in (
        ("all", "ceiling"),
        ("100 B", "ceiling, 100 B"),
        ("headers", "ceiling, headers"),
        ("s3", "all"),
        ("export", "pyarrow"),
        ("export, 100 B", "pyarrow, 100 B"),
        ("find", "keys"),
        ("find, 100 B", "keys, 100 B"),
    ):
        if {ours, theirs} <= figures.rates.keys():
            yield f"{f'{ours}, of {theirs}':32} {figures.ratio(ours, theirs):6.2f}"


@click.command(help=(__doc__ or "").partition("\n\n    ")[0])
@click.option("--rounds", default=3, show_default=True)
@click.option("--size", default=64, show_default=True, help="MiB of a partition.")
@click.option("--only", multiple=True, help="A contender; all, unless some are named.")
def main(rounds: int, size: int, only: tuple[str, ...]) -> None:
    with tempfile.TemporaryDirectory() as temporary:
        place = Path(temporary)
        (place / "buckets" / "bucket").mkdir(parents=True)
        running = object_store.running(place / "buckets", place / "requests.log")
        with running as store:
            os.environ.update(store.environment)  # Spark's workers have it from here
            session = open_session(cores=1, memory="2g")
            register(session)
            figures = measure(
                session,
                place,
                store,
                size=size * MiB,
                rounds=rounds,
                only=only,
                tell=lambda words: click.echo(words, err=True),
            )
            session.stop()
    for line in report(figures):
        click.echo(line)


if __name__ == "__main__":
    main()
