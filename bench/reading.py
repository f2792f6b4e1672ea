"""How fast are records read in Python, compared with the clients' compiled readers?

Contenders read the same segment in turns, on one core, and access four fields of each record:
offset, timestamp, key, value. Checksums are compared. Rates are for CPU time, best round against
best round. *paired* is the median of the ratios of consecutive rounds.

* ours: `records.read`; *offsets*: the same, accessing only the offset.
* aiokafka (Cython), kafka-python: their `MemoryRecords`.
* Arrow: the data source's reader, without Spark; *no checksums*: without comparing them.

The records are compared first. Segments have the shapes of bench.conversion, and `headers`, which
is none-100 with a header of 24 bytes in each record.

    python -m bench.reading --rounds 20"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from shutil import copy
from tempfile import TemporaryDirectory
from time import process_time
from typing import Any, Final

import click
from aiokafka.record.memory_records import MemoryRecords as AiokafkaRecords
from kafka.record.memory_records import MemoryRecords as KafkaPythonRecords

from downconvert.spark.options.options import Options
from downconvert.spark.options.schemas import schema_of
from downconvert.spark.read.reader import SegmentReader, Task
from downconvert.storage.names import Kind, file_name
from records import Codec, MemoryRecords, read
from records.backend import NAME
from records.units import MiB, parse_size

from .measuring.rounds import Round, best, one_core, paired
from .measuring.segments import SHAPES, Contents, Shape, plain, segment

Read = Callable[[Path], int]  # returns the number of a segment's records

OURS: Final = "ours"
AIOKAFKA: Final = "aiokafka"
SLOW: Final = 8  # rounds between two with kafka-python, which is slow


def with_headers() -> Contents:
    def contents(random: Random) -> Iterator[Any]:
        for key, value, _ in plain(100)(random):
            yield key, value, (("trace-id", random.randbytes(16)),)

    return contents


NAMED: Final = SHAPES | {
    "headers": Shape("headers", Codec.NONE, 64 * MiB, with_headers()),
}
DEFAULT: Final = (
    "none-100",
    "gzip-100",
    "lz4-100",
    "snappy-100",
    "zstd-100",
    "none-1000",
    "gzip-json",
    "single-100",
    "headers",
)


def ours(path: Path) -> int:
    count = 0
    for record in read(MemoryRecords(path.read_bytes())):
        _ = record.offset, record.timestamp, record.key, record.value
        count += 1
    return count


def offsets(path: Path) -> int:
    count = 0
    for record in read(MemoryRecords(path.read_bytes())):
        _ = record.offset
        count += 1
    return count


def client(records: Any) -> Read:
    def reads(path: Path) -> int:
        count = 0
        source = records(path.read_bytes())
        while (batch := source.next_batch()) is not None:
            assert batch.validate_crc()
            for record in batch:
                _ = record.offset, record.timestamp, record.key, record.value
                count += 1
        return count

    return reads


def arrow(**given: str) -> Read:
    def reads(path: Path) -> int:
        options = Options.parse({"path": str(path.parent.parent), **given}, streaming=False)
        reader = SegmentReader(options, schema_of(options))
        tasks = [task for task in reader.partitions() if isinstance(task, Task)]
        return sum(batch.num_rows for task in tasks for batch in reader.read(task))

    return reads


CONTENDERS: Final[dict[str, Read]] = {
    OURS: ours,
    AIOKAFKA: client(AiokafkaRecords),
    "offsets": offsets,
    "kafka-python": client(KafkaPythonRecords),
    "Arrow": arrow(includeHeaders="true"),
    "no checksums": arrow(includeHeaders="true", verifyCrc="false"),
}


@dataclass(slots=True)
class Found:
    """The rounds of each contender on one shape."""

    shape: str
    rounds: dict[str, list[Round]] = field(default_factory=dict)

    def row(self) -> list[str]:
        mine, theirs = self.rounds[OURS], self.rounds[AIOKAFKA]
        rates = [f"{best(rounds) / 1e6:.2f}" for rounds in self.rounds.values()]
        bytes_a_second = max(each.size / each.seconds for each in self.rounds["Arrow"])
        return [
            self.shape,
            *rates,
            f"{best(mine) / best(theirs):.2f}",
            f"{paired(mine, theirs):.2f}",
            f"{bytes_a_second / 1e6:.0f}",
        ]


HEAD: Final = ["M records/s", *CONTENDERS, "x aiokafka", "x paired", "Arrow, MB/s"]


class WrongRecordsError(AssertionError):
    """Contenders read different records."""


def check(path: Path) -> None:
    """Checks that aiokafka reads the same records as we do."""
    data = path.read_bytes()
    theirs = AiokafkaRecords(data)
    found = read(MemoryRecords(data))
    while (batch := theirs.next_batch()) is not None:
        for record in batch:
            mine = next(found)
            same = (record.offset, record.timestamp, record.key, record.value)
            if (mine.offset, mine.timestamp, mine.key, mine.value) != same:
                raise WrongRecordsError(f"{path}: offset {mine.offset}, {record.offset}")
    if next(found, None) is not None:
        raise WrongRecordsError(f"{path}: aiokafka reads fewer records")


def contest(shape: Shape, path: Path, rounds: int) -> Found:
    check(path)
    found = Found(shape.name, {name: [] for name in CONTENDERS})
    size = path.stat().st_size
    counts = set()
    for number in range(rounds):
        for name, contender in CONTENDERS.items():
            if name == "kafka-python" and number % SLOW:
                continue
            started = process_time()
            count = contender(path)
            seconds = process_time() - started
            counts.add(count)
            found.rounds[name].append(Round(count, size, seconds, seconds))
    if len(counts) != 1:
        raise WrongRecordsError(f"{shape.name}: {sorted(counts)} records")
    return found


@click.command(help=(__doc__ or "").partition("\n\n    ")[0])
@click.option("--shape", "names", multiple=True, type=click.Choice(list(NAMED)), default=DEFAULT)
@click.option("--rounds", default=10, show_default=True)
@click.option("--size", type=parse_size, default="16MiB", show_default=True, help="Of a segment.")
@click.option("--markdown", is_flag=True, help="A table for a document.")
@click.option("--smoke", is_flag=True, help="Little, once: that it runs and reads rightly.")
def main(names: Sequence[str], rounds: int, size: int, markdown: bool, smoke: bool) -> None:
    if smoke:
        rounds, size = 1, size // 256
    click.echo(f"kernel: {NAME}", err=True)
    click.echo("| " + " | ".join(HEAD) + " |" if markdown else "  ".join(HEAD))
    if markdown:
        click.echo("| --- " * len(HEAD) + "|")
    with TemporaryDirectory() as place, one_core():
        for name in names:
            directory = Path(place) / name / "topic-0"
            directory.mkdir(parents=True)
            path = directory / file_name(0, Kind.LOG)
            copy(segment(NAMED[name], size=size), path)
            row = contest(NAMED[name], path, rounds).row()
            if markdown:
                click.echo(f"| {' | '.join(row)} |")
                continue
            click.echo(
                "  ".join(text.rjust(len(head)) for text, head in zip(row, HEAD, strict=True))
            )


if __name__ == "__main__":
    main()
