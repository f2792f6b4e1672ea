"""`downconvert inspect`: shows the contents of a broker's directory, and what old clients would
miss.

Not here: inspecting a log (storage), converting it (downconvert)."""

import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from time import perf_counter

import click

from downconvert import ConversionPolicy, convert
from downconvert.storage import Log, LogDir
from downconvert.storage.inspection import Inspection, inspect_log
from downconvert.storage.names import parse_partition
from records import Codec, RecordsError
from records.units import format_count, format_seconds, format_size

from .app import BAD_INPUT
from .failure import need_directory, no_partitions, shortened
from .grid import grid, print_table
from .terminal import name_the_backend, progress


@dataclass(slots=True)
class Cost:
    """The cost of converting everything to one target format."""

    to_magic: int
    bytes_out: int = 0
    records: int = 0
    seconds: float = 0.0


@dataclass(slots=True)
class Topic:
    """The contents of a topic."""

    found: Inspection = field(default_factory=Inspection)
    cost: Cost | None = None


@click.command()
@click.argument("directory", metavar="LOGDIR", type=click.Path(path_type=Path))
@click.option("--deep", is_flag=True, help="Read the records too: which of them have headers.")
@click.option(
    "--cost-to",
    metavar="0|1",
    type=click.IntRange(0, 1),
    help="Convert everything to this format, and print the cost.",
)
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
def inspect(directory: Path, deep: bool, cost_to: int | None, as_json: bool) -> int:
    """Show the formats and codecs of each topic, the amount of each, and what an old client would
    not get.

    LOGDIR is a broker's log directory, or one partition's. The broker may be running.

    \b
    downconvert inspect /var/kafka
    downconvert inspect --deep --cost-to 1 /var/kafka
    downconvert inspect --json /var/kafka | jq '.topics.clicks'
    """
    need_directory(directory)
    if deep or cost_to is not None:
        name_the_backend()
    topics: dict[str, Topic] = {}
    with progress() as step:
        for name, opened in _logs(directory):
            step(f"inspect {name}", 0, 1)
            topic = topics.setdefault(name, Topic())
            try:
                log = opened()
                topic.found.add(inspect_log(log, deep=deep))
                if cost_to is not None:
                    topic.cost = topic.cost or Cost(cost_to)
                    _add_cost(topic.cost, log)
            except (RecordsError, OSError) as error:  # other logs can still be inspected
                topic.found.add(Inspection(partitions=1, damages=[f"{name}: {error}"]))
    if as_json:
        click.echo(json.dumps({"topics": {n: _as_json(t) for n, t in topics.items()}}))
    else:
        _print(topics)
    damages = [damage for topic in topics.values() for damage in topic.found.damages]
    for damage in shortened(damages):
        click.echo(f"downconvert: {damage}", err=True)
    return BAD_INPUT if damages else 0


def _logs(directory: Path) -> Iterator[tuple[str, Callable[[], Log]]]:
    """Yields a topic and a function that opens the log, for each partition."""
    if any(directory.glob("*.log")):
        path = directory.resolve()
        partition = parse_partition(path.name)
        yield partition.topic if partition else directory.name, partial(Log.open, path)
        return
    with LogDir.open(directory) as log_dir:
        if not log_dir.logs:
            raise no_partitions(directory)
        for partition in log_dir.logs:
            yield partition.topic, partial(log_dir.logs.__getitem__, partition)


def _add_cost(cost: Cost, log: Log) -> None:
    for segment in log.segments:
        records = segment.slice(0, log.end_of(segment))
        pieces = convert(records, cost.to_magic, 0, ConversionPolicy())
        started = perf_counter()
        with suppress(RecordsError):  # inspect_log has reported it
            for _ in pieces:
                pass
        cost.seconds += perf_counter() - started
        cost.bytes_out += pieces.stats.bytes_out
        cost.records += pieces.stats.records_converted


def _print(topics: dict[str, Topic]) -> None:
    table = grid("topic", "segments", "size", "records", "formats and codecs")
    for name, topic in topics.items():
        found = topic.found
        table.add_row(
            name,
            f"{found.segments:,}",
            format_size(found.log_bytes),
            f"{found.records:,}" if found.counts_all else "? (--deep)",
            _shares(found),
        )
    print_table(table)
    for name, topic in topics.items():
        for line in _remarks(topic):
            click.echo(f"{name}: {line}")


def _shares(found: Inspection) -> str:
    parts = []
    for (magic, codec), share in sorted(found.shares.items()):
        percent = 100 * share.bytes / max(1, sum(s.bytes for s in found.shares.values()))
        parts.append(f"v{magic} {codec.name.lower()} {percent:.0f} %")
    return "\n".join(parts)


def _remarks(topic: Topic) -> Iterator[str]:
    """The features that an old client would miss, and the cost of serving it."""
    found = topic.found
    zstd = sum(s.bytes for (_, codec), s in found.shares.items() if codec is Codec.ZSTD)
    if zstd:
        yield f"{format_size(zstd)} of zstd, which no client before 2.1 reads (Kafka refuses it)"
    if found.records_with_headers:
        yield (
            f"{format_count(found.records_with_headers, 'record')} with headers, "
            "which no format before v2 has"
        )
    if found.aborted_records:
        yield (
            f"{format_count(found.aborted_records, 'record')} of aborted transactions, "
            "which clients before 0.11 would be given"
        )
    if found.tail_bytes:
        yield f"{format_size(found.tail_bytes)} after the last good batch"
    if topic.cost is not None:
        cost = topic.cost
        yield (
            f"to v{cost.to_magic}: {format_count(cost.records, 'record')} converted, "
            f"{format_size(cost.bytes_out)} out, {format_seconds(cost.seconds)} of one core"
        )


def _as_json(topic: Topic) -> dict[str, object]:
    found, cost = topic.found, topic.cost
    return {
        "partitions": found.partitions,
        "segments": found.segments,
        "logBytes": found.log_bytes,
        "otherBytes": found.other_bytes,
        "tailBytes": found.tail_bytes,
        "batches": found.batches,
        "records": found.records,
        "oldestTimestamp": found.oldest,
        "newestTimestamp": found.newest,
        "controlBatches": found.control_batches,
        "transactionalBatches": found.transactional_batches,
        "abortedBatches": found.aborted_batches,
        "abortedRecords": found.aborted_records,
        "recordsWithHeaders": found.records_with_headers,
        "shares": [
            {
                "magic": magic,
                "codec": codec.name.lower(),
                "batches": share.batches,
                "bytes": share.bytes,
                "records": share.records,
            }
            for (magic, codec), share in sorted(found.shares.items())
        ],
        "cost": None
        if cost is None
        else {
            "toMagic": cost.to_magic,
            "recordsConverted": cost.records,
            "bytesOut": cost.bytes_out,
            "seconds": cost.seconds,
        },
        "damages": found.damages,
    }
