"""How fast does Spark read segments, compared with other readers of the same records?

In one session, contenders take turns on one core. Figures that are compared come from the same
round. Rates are for CPU time in the JVM and in Python's workers, without other load of the machine.
Every row is made and thrown away (`noop`). Contenders read a gigabyte from the page cache: copies
of one segment of uncompressed records of 1 KB. (A query costs Spark a third of a second, whatever
it reads.)

\b
* ceiling: a source in Python that hands the same Arrow buffers to Spark again and again.
* records, with checksums, batches: the data source. Batches are read from more copies.
* Kafka source: Spark's own, from a broker of Kafka 3.9.1 that serves the same files. The broker's
  time is not counted. Left out without Java or Maven.
* kafka-dump-log: Kafka's tool, which prints all records to /dev/null, for a part of the files.
* files: Spark's `binaryFile`, with a row for each file.
* pure Python: kafka-python's reader inside `mapInPandas`, on a part of the files.

Then records are read on one core and on two, by wall clock, which needs a quiet machine. Results
are checked before all that: each contender must read the same number of records and the same bytes
as this project's reader.

    python -m bench.spark --rounds 3"""

import json
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any, Final
from zlib import crc32

import click
from pyspark.sql import DataFrame, SparkSession

from downconvert.spark import register
from downconvert.spark.source import FORMAT
from downconvert.storage import Log
from records import FileRecords, read
from records.backend import NAME, NATIVE
from records.units import MiB

from .contenders.kafka_jvm import UnavailableError
from .contenders.spark_ceiling import ceiling
from .contenders.spark_kafka import broker_over, dump_seconds, jars, kafka_source
from .measuring.segments import SHAPES, segment
from .measuring.spark_cores import below, cpu_seconds, pin

SHAPE: Final = "none-1000"
PARTITIONS: Final = 16
PARSER_PARTITIONS: Final = 1  # for pure Python, so that a round does not take minutes
DUMPED_PARTITIONS: Final = 4
BATCH_COPIES: Final = 4  # of each partition, for batches
WARM_ROUNDS: Final = 2  # until the JVM has compiled the code
TASK_BYTES: Final = "600m"  # two tasks

PARSED: Final = "key BINARY, value BINARY, offset LONG, timestamp LONG"


@dataclass(slots=True)
class Figures:
    """Megabytes of log a second in each round, by contender; for two cores, by wall clock."""

    rates: dict[str, list[float]] = field(default_factory=dict)
    log_bytes: int = 0
    records: int = 0
    checksum: int = 0

    def ratio(self, ours: str, theirs: str) -> float:
        pairs = zip(self.rates[ours], self.rates[theirs], strict=True)
        return median(mine / other for mine, other in pairs)


def open_session(cores: int, memory: str = "4g", jars: str = "") -> SparkSession:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    session = (
        SparkSession.builder.master(f"local[{cores}]")
        .appName("bench")
        .config("spark.driver.memory", memory)
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.jars", jars)
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    return session


def write_logs(directory: Path, size: int, partitions: int) -> int:
    """Writes a segment with its indexes as several partitions, which are links to one copy. Returns
    the bytes of log that one reading takes. The topic `links` has more partitions."""
    source = segment(SHAPES[SHAPE], size=size)
    write_links(source, directory, {"orders": partitions, "links": BATCH_COPIES * partitions})
    return partitions * source.stat().st_size


def write_links(source: Path, directory: Path, topics: Mapping[str, int]) -> None:
    """Writes topics with these numbers of partitions. All partitions are links to one copy of a
    segment with indexes."""
    directory.mkdir(exist_ok=True)
    copied = None
    for topic, partitions in topics.items():
        for number in range(partitions):
            path = directory / f"{topic}-{number}"
            path.mkdir()
            if copied is None:
                copied = path
                shutil.copy(source, path / f"{0:020}.log")
                Log.open(path, writable=True).close()  # builds the indexes
            else:
                for file in copied.glob("0*"):
                    os.link(file, path / file.name)


def contenders(session: SparkSession, directory: Path, bootstrap: str) -> dict[str, DataFrame]:
    def ours(**options: str) -> DataFrame:
        reader = session.read.format(FORMAT).option("maxPartitionBytes", TASK_BYTES)
        return reader.options(**options).load(str(directory))

    def files(partitions: str) -> DataFrame:
        found = session.read.format("binaryFile").option("pathGlobFilter", "*.log")
        return found.load(str(directory / f"orders-{partitions}"))

    few = f"[0-{PARSER_PARTITIONS - 1}]"
    theirs = {"Kafka source": kafka_source(session, bootstrap)} if bootstrap else {}
    return theirs | {
        "files": files("*"),
        "ceiling": ceiling(session, str(directory), topics="orders", maxPartitionBytes=TASK_BYTES),
        "records": ours(topics="orders"),
        "records, no checksums": ours(topics="orders", verifyCrc="false"),
        "batches": ours(topics="links", level="batch", maxPartitionBytes="2400m"),
        "pure Python": files(few).select("content").mapInPandas(parsed, PARSED),
    }


def parsed(frames: Iterator[Any]) -> Iterator[Any]:
    """Rows of kafka-python's records, a frame for each ten thousand."""
    import pandas as pd
    from kafka.record.memory_records import MemoryRecords

    columns = ["key", "value", "offset", "timestamp"]
    rows: list[tuple[Any, ...]] = []
    for frame in frames:
        for content in frame["content"]:
            records = MemoryRecords(bytes(content))
            while (batch := records.next_batch()) is not None:
                rows += [(r.key, r.value, r.offset, r.timestamp) for r in batch]
                if len(rows) >= 10_000:
                    yield pd.DataFrame(rows, columns=columns)
                    rows = []
    yield pd.DataFrame(rows, columns=columns)


def check(frames: dict[str, DataFrame], directory: Path, partitions: int) -> tuple[int, int]:
    """The number of records, and the sum of their values' CRCs. AssertionError: a contender reads
    wrong data."""
    with FileRecords.open(directory / "orders-0" / f"{0:020}.log") as log:
        found = [crc32(record.value or b"") for record in read(log)]
    expected = len(found), sum(found)

    def summed(frame: DataFrame) -> tuple[int, int]:
        row = frame.selectExpr("count(*)", "sum(crc32(value))").collect()[0]
        return int(row[0]), int(row[1])

    for name in {"records", "records, no checksums", "Kafka source"} & frames.keys():
        assert summed(frames[name].where("partition = 0")) == expected, name
    copies = PARSER_PARTITIONS
    assert summed(frames["pure Python"]) == (copies * expected[0], copies * expected[1])
    counts = frames["batches"].selectExpr("sum(recordsCount)").collect()[0][0]
    assert counts == BATCH_COPIES * partitions * expected[0], "batches"
    return partitions * expected[0], expected[1] & 0xFFFFFFFF


def seconds(frame: DataFrame, clock: Callable[[], float]) -> float:
    started = clock()
    frame.write.format("noop").mode("overwrite").save()
    return clock() - started


def measure(
    session: SparkSession,
    place: Path,
    *,
    size: int,
    partitions: int,
    rounds: int,
    with_kafka: bool,
    tell: Callable[[str], None],
) -> Figures:
    """Measures all rounds. `with_kafka`: includes Kafka's contenders. The session must have Spark's
    Kafka source."""
    directory = place / "logs"
    figures = Figures(log_bytes=write_logs(directory, size, partitions))
    served = [directory / f"orders-{number}" for number in range(partitions)]
    started = set(below())
    with broker_over(served, place) if with_kafka else nullcontext("") as bootstrap:
        brokers = set(below()) - started
        frames = contenders(session, directory, bootstrap)
        figures.records, figures.checksum = check(frames, directory, partitions)
        run_all(figures, frames, partitions=partitions, rounds=rounds, without=brokers, tell=tell,
                dumped=served[:DUMPED_PARTITIONS] if with_kafka else [])  # fmt: skip
    return figures


def run_all(
    figures: Figures,
    frames: Mapping[str, DataFrame],
    *,
    partitions: int,
    rounds: int,
    without: Collection[int],
    dumped: Sequence[Path],
    tell: Callable[[str], None],
) -> None:
    share = {"pure Python": PARSER_PARTITIONS / partitions, "batches": BATCH_COPIES}
    cores = os.sched_getaffinity(0)

    def add(name: str, spent: float, share: float) -> None:
        rate = figures.log_bytes * share / max(spent, 0.01) / 1e6
        figures.rates.setdefault(name, []).append(rate)

    def run(name: str, frame: DataFrame, clock: Callable[[], float]) -> None:
        add(name, seconds(frame, clock), share.get(name, 1))

    try:
        for frame in [*frames.values()] * min(rounds, WARM_ROUNDS):
            seconds(frame, perf_counter)
        for number in range(rounds):
            pin({max(cores)})
            for name, frame in frames.items():
                run(name, frame, partial(cpu_seconds, without=without))
            if dumped:
                segments = [next(path.glob("*.log")) for path in dumped]
                add("kafka-dump-log", dump_seconds(segments), len(dumped) / partitions)
            for name, some in (("1 core", {max(cores)}), ("2 cores", cores), ("2 cores", cores),
                               ("1 core", {max(cores)})):  # fmt: skip
                pin(some)
                run(name, frames["records"], perf_counter)
            tell(f"round {number + 1} of {rounds}")
    finally:
        pin(cores)


def report(figures: Figures) -> Iterator[str]:
    yield (
        f"{figures.log_bytes / 1e6:,.0f} MB of log, {figures.records:,} records, "
        f"checksum {figures.checksum:08x}"
    )
    for name, rates in figures.rates.items():
        low, high = min(rates), max(rates)
        yield f"  {name:20} {median(rates):7,.0f} MB/s  [{low:,.0f} .. {high:,.0f}]"
    for words, ours, theirs in (
        ("records, of the ceiling", "records", "ceiling"),
        ("records, times Spark's Kafka source", "records", "Kafka source"),
        ("records, times kafka-dump-log", "records", "kafka-dump-log"),
        ("records, of what files alone are read", "records", "files"),
        ("records without checksums, of the same", "records, no checksums", "files"),
        ("records, times pure Python", "records", "pure Python"),
        ("batches, times records", "batches", "records"),
        ("two cores, times one", "2 cores", "1 core"),
    ):
        if theirs in figures.rates:
            yield f"{words:40} {figures.ratio(ours, theirs):6.2f}"


@click.command(help=(__doc__ or "").partition("\n\n    ")[0])
@click.option("--rounds", default=3, show_default=True)
@click.option("--size", default=64, show_default=True, help="MiB of a partition.")
@click.option("--smoke", is_flag=True, help="Small, one round: that it runs, and reads rightly.")
@click.option("--json", "json_path", type=click.Path(path_type=Path), help="All figures.")
def main(rounds: int, size: int, smoke: bool, json_path: Path | None) -> None:
    if NAME != NATIVE and not smoke:
        raise click.ClickException("the native kernel is not there; the reference is not measured")
    try:
        found = jars()
    except UnavailableError as error:
        click.echo(f"without Kafka: {error}", err=True)
        found = ""
    session = open_session(cores=2, memory="1g" if smoke else "4g", jars=found)
    register(session)
    with tempfile.TemporaryDirectory() as place:
        figures = measure(
            session,
            Path(place),
            size=MiB if smoke else size * MiB,
            partitions=2 if smoke else PARTITIONS,
            rounds=1 if smoke else rounds,
            with_kafka=bool(found),
            tell=lambda words: click.echo(words, err=True),
        )
    session.stop()
    for line in report(figures):
        click.echo(line)
    if json_path is not None:
        json_path.write_text(json.dumps(asdict(figures)))


if __name__ == "__main__":
    main()
