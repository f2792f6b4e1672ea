"""`downconvert spark`: jobs over whole clusters' log directories, on this machine or a cluster.

Not here: the jobs (pipeline)."""

import json
import shlex
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click
from rich.console import Console

from simulator import parse_policy
from simulator.units import format_count, format_rate, format_seconds, format_size, parse_size

from .app import BAD_INPUT
from .failure import CommandError, shortened
from .grid import grid
from .terminal import Step, name_the_backend, notices, progress
from .values import POLICY, POLICY_HELP, SIZE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from pipeline.audit_summary import Topic
    from pipeline.convert import Summary

Command = TypeVar("Command", bound=Callable[..., Any])

EXTRA_NEEDED: Final = (
    'this needs the Spark extra: pip install "lazy-downconvert[spark]", and Java 17 or newer'
)
ONE_AT_A_TIME: Final = "local[1]"
CHECK_FAILED: Final = 1
WIDTH: Final = 120  # columns of a table, where no terminal says how many there are
OF_THE_EXTRA: Final = ("pyspark", "pyarrow", "pandas")


@click.group(short_help="Audit, convert and export whole log directories on Spark.")
def spark() -> None:
    """Jobs over log directories that are too large for one core, or for one machine.

    Without --master they run on all cores of this machine, and need nothing but Java. DIRs are
    brokers' log directories, partitions' directories, or directories above several of them:
    copied, backed up, or mounted.

    \b
    downconvert spark audit /var/kafka --report audit.html
    downconvert spark convert --to-magic 2 /backup/broker-1 /mnt/upgraded
    downconvert spark audit --master spark://host:7077 /mnt/kafka
    spark-submit job.py spark audit /mnt/kafka
    """


def _of_topics(command: Command) -> Command:
    """The options of a job over log directories."""
    return _on_spark(
        click.option(
            "--topics",
            metavar="NAMES",
            multiple=True,
            help="Only these: names or patterns (orders-*); several times, or with commas.",
        )(command)
    )


def _on_spark(command: Command) -> Command:
    """The options that every job has."""
    for option in (
        click.option(
            "--conf",
            "configuration",
            metavar="KEY=VALUE",
            multiple=True,
            callback=_configuration,
            help="A setting of Spark's; several times if you like.",
        ),
        click.option(
            "--master",
            metavar="URL",
            help="A cluster's master. By default all cores of this machine, or what "
            "spark-submit was told.",
        ),
        click.option("--json", "as_json", is_flag=True, help="Results as JSON, and nothing else."),
    ):
        command = option(command)
    return command


def _configuration(
    _context: click.Context, _option: click.Parameter, pairs: Sequence[str]
) -> dict[str, str]:
    for pair in pairs:
        if "=" not in pair:
            raise click.BadParameter(f"{pair!r} is not KEY=VALUE")
    return dict(pair.split("=", 1) for pair in pairs)


# --- audit


@spark.command(short_help="What there is, what old clients cost, what keeps from Kafka 4.")
@click.argument("paths", metavar="DIR...", nargs=-1, required=True)
@click.option(
    "--everything", is_flag=True, help="Read and convert all records, and not only a sample."
)
@click.option(
    "--report",
    metavar="FILE",
    type=click.Path(path_type=Path, dir_okay=False),
    help="As one HTML file that opens offline.",
)
@_of_topics
def audit(
    paths: tuple[str, ...],
    everything: bool,
    report: Path | None,
    as_json: bool,
    topics: tuple[str, ...],
    master: str | None,
    configuration: dict[str, str],
) -> int:
    """Say per topic which formats and codecs there are, what serving old consumers takes, what
    these miss, where there is damage, and which topics still hold formats that Kafka 4 has left.

    All headers are read. Records are read and converted as a sample of at least a MiB of each
    format and codec in a segment, or all of them with --everything.

    \b
    downconvert spark audit /var/kafka
    downconvert spark audit /backup/broker-* --report audit.html
    downconvert spark audit --topics 'orders-*' --json /var/kafka | jq '.topics[].shares'
    """
    if report is not None and not report.absolute().parent.is_dir():
        raise CommandError(f"{report}: there is no directory {report.parent} to write it to")
    with _session("audit", master, configuration) as (session, step):
        from pipeline.audit import run
        from pipeline.audit_summary import summarise

        names = _split(topics)
        rows = run(session, paths, topics=names, everything=everything, step=step)
        found = summarise(row.asDict(recursive=True) for row in rows)
    if as_json:
        click.echo(json.dumps({"topics": [topic.to_json() for topic in found]}))
    else:
        _print_audit(found)
    if report is not None:
        from pipeline.audit_report import Heading, write_report

        command = shlex.join(["downconvert", *sys.argv[1:]])
        write_report(report, found, Heading(paths, command, is_sample=not everything))
        if not as_json:
            click.echo(f"report: {report}")
    damages = [damage for topic in found for damage in topic.damages]
    for damage in shortened(damages):
        click.echo(f"downconvert: {damage}", err=True)
    return BAD_INPUT if damages else 0


def _print_audit(topics: "Sequence[Topic]") -> None:
    from pipeline.audit_summary import losses

    table = grid("topic", "size", "records", "formats and codecs", "v1 CPU", "v0 CPU", "Kafka 4")
    for topic in topics:
        table.add_row(
            topic.name,
            format_size(topic.log_bytes),
            f"{'~' * topic.is_estimate}{topic.records:,.0f}",
            _shares(topic),
            format_seconds(topic.v1.cpu_seconds),
            format_seconds(topic.v0.cpu_seconds),
            "ready" if topic.is_ready else f"{format_size(topic.old_bytes)} old",
        )
    width = None if Console().is_terminal else WIDTH
    Console(highlight=False, width=width).print(table)
    size, sampled = (
        sum(getattr(t, name) for t in topics) for name in ("log_bytes", "sampled_bytes")
    )
    old = [topic for topic in topics if not topic.is_ready]
    click.echo(
        f"\n{format_size(size)} in {format_count(sum(t.segments for t in topics), 'segment')}; "
        f"CPU by converting {format_size(sampled)} of it"
    )
    if old:
        click.echo(
            f"Kafka 4: {format_count(len(old), 'topic')} of {len(topics)} still to be rewritten "
            "(downconvert spark convert --to-magic 2), or left to retention"
        )
    else:
        click.echo("Kafka 4: ready, every batch is v2")
    for line in losses(topics):
        click.echo(f"old clients miss: {line}")


def _shares(topic: "Topic") -> str:
    total = max(1, sum(topic.shares.values()))
    parts = [
        f"v{magic} {codec} {100 * size / total:.0f} %"
        for (magic, codec), size in sorted(topic.shares.items())
    ]
    return "\n".join(parts)


# --- convert


@spark.command(short_help="Rewrite log directories in another format.")
@click.argument("paths", metavar="DIR...", nargs=-1, required=True)
@click.argument("target", metavar="OUT")
@click.option(
    "--to-magic",
    metavar="0|1|2",
    type=click.IntRange(0, 2),
    required=True,
    help="Message format to write.",
)
@click.option("--policy", metavar="POLICY", default="default", callback=POLICY, help=POLICY_HELP)
@click.option(
    "--committed",
    is_flag=True,
    help="Leave out aborted transactions, which v0 and v1 cannot mark.",
)
@_of_topics
def convert(
    paths: tuple[str, ...],
    target: str,
    to_magic: int,
    policy: str,
    committed: bool,
    as_json: bool,
    topics: tuple[str, ...],
    master: str | None,
    configuration: dict[str, str],
) -> int:
    """Write what is in the DIRs to OUT, all segments in one format, indexes anew.

    Offsets, timestamps, keys, values and gaps stay. Each segment is written, read back, compared
    record for record, and only then given its name; OUT/conversion-manifest.jsonl says what was
    made of each. Run again, it goes on where it stopped. OUT must be the same directory on all
    machines of a cluster.

    \b
    downconvert spark convert --to-magic 2 /backup/broker-1 /mnt/upgraded
    downconvert spark convert --to-magic 1 --topics clicks --committed /var/kafka /mnt/old
    jq -r 'select(.status == "failed") | .error' /mnt/upgraded/conversion-manifest.jsonl
    """
    with _session("convert", master, configuration) as (session, step):
        from pipeline.convert import run
        from pipeline.rewrite import POLICY as DEFAULT
        from pipeline.rewrite import Settings

        settings = Settings(
            to_magic=to_magic,
            policy=DEFAULT if policy == "default" else parse_policy(policy),
            isolation="read_committed" if committed else "read_uncommitted",
        )
        done = run(session, paths, target, settings, topics=_split(topics), step=step)
    if as_json:
        from dataclasses import asdict

        click.echo(json.dumps(asdict(done)))
    else:
        _print_conversion(done, target)
    for error in shortened(done.errors):
        click.echo(f"downconvert: {error}", err=True)
    return BAD_INPUT if done.failed else 0


def _print_conversion(done: "Summary", target: str) -> None:
    kept = f", {done.kept:,} were done before" if done.kept else ""
    failed = f", {done.failed:,} failed" if done.failed else ""
    click.echo(
        f"{format_count(done.converted, 'segment')} converted{kept}{failed}: "
        f"{format_size(done.source_size)} to {format_size(done.target_size)}, "
        f"{format_seconds(done.cpu_seconds)} of CPU; the result is in {target}"
    )


# --- export


@spark.command(short_help="Write records as Parquet, by topic and date.")
@click.argument("paths", metavar="DIR...", nargs=-1, required=True)
@click.argument("target", metavar="OUT")
@click.option("--committed", is_flag=True, help="Leave out aborted transactions.")
@click.option("--skip-damaged", is_flag=True, help="Leave out damaged batches, and go on.")
@_of_topics
def export(
    paths: tuple[str, ...],
    target: str,
    committed: bool,
    skip_damaged: bool,
    as_json: bool,
    topics: tuple[str, ...],
    master: str | None,
    configuration: dict[str, str],
) -> None:
    """Write the records in the DIRs to OUT as Parquet, in folders topic=.../date=... (UTC) that
    Spark, Trino and Iceberg's add_files read.

    Folders that there are records for are replaced, all others stay: the same run twice gives the
    same. OUT may be any file system that Spark knows.

    \b
    downconvert spark export /var/kafka /data/events
    downconvert spark export --topics clicks --committed /mnt/kafka s3a://lake/events
    """
    with _session("export", master, configuration) as (session, step):
        from pipeline.export import export as run

        frame = run(
            session,
            paths,
            target,
            topics=_split(topics),
            committed=committed,
            skip_damaged=skip_damaged,
            step=step,
        )
        folders = frame.groupBy("topic", "date").count().orderBy("topic", "date").collect()
    if as_json:
        rows = [
            {
                "topic": row.topic,
                "date": str(row.date) if row.date else None,
                "records": row["count"],
            }
            for row in folders
        ]
        click.echo(json.dumps({"folders": rows}))
        return
    table = grid("topic", "date", "records")
    for row in folders:
        table.add_row(row.topic, str(row.date or "without"), f"{row['count']:,}")
    Console(highlight=False).print(table)
    total = sum(row["count"] for row in folders)
    click.echo(
        f"\n{format_count(total, 'record')} in {format_count(len(folders), 'folder')} of {target}"
    )


# --- sweep


def _list_of(parse: Callable[[str], object]) -> Callable[..., object]:
    def callback(_context: click.Context, _option: click.Parameter, text: str) -> object:
        try:
            return tuple(parse(part.strip()) for part in text.split(","))
        except ValueError as error:
            raise click.BadParameter(str(error)) from None

    return callback


@spark.command(short_help="Simulate a grid of chunk sizes, codecs, records and consumers.")
@click.argument("target", metavar="OUT")
@click.option(
    "--codecs", metavar="NAMES", default="none,gzip", callback=_list_of(str), help="Of batches."
)
@click.option(
    "--records",
    metavar="SIZES",
    default="100,1000",
    callback=_list_of(parse_size),
    help="Of values.",
)
@click.option(
    "--chunks",
    metavar="SIZES",
    default="4KiB,16KiB,128KiB",
    callback=_list_of(parse_size),
    help="How much is converted in one go.",
)
@click.option("--consumers", metavar="NUMBERS", default="1,10", callback=_list_of(int))
@click.option("--modes", metavar="MODES", default="lazy,eager", callback=_list_of(str))
@click.option("--size", metavar="SIZE", default="8MiB", callback=SIZE, help="Of each workload.")
@click.option(
    "--report",
    metavar="FILE",
    type=click.Path(path_type=Path, dir_okay=False),
    help="With plots, as one HTML file that opens offline.",
)
@_on_spark
def sweep(
    target: str,
    codecs: tuple[str, ...],
    records: tuple[int, ...],
    chunks: tuple[int, ...],
    consumers: tuple[int, ...],
    modes: tuple[Any, ...],
    size: int,
    report: Path | None,
    as_json: bool,
    master: str | None,
    configuration: dict[str, str],
) -> None:
    """Measure how memory and throughput of conversion depend on chunk size, codec, size of records
    and number of consumers; everything with everything, to Parquet in OUT.

    Measurements run one after the other here. On a cluster, give each task an executor of its own
    (--conf spark.task.cpus=N), or they distort each other.

    \b
    downconvert spark sweep /tmp/sweep --report sweep.html
    downconvert spark sweep /tmp/sweep --codecs zstd --chunks 1KiB,64KiB --consumers 1,100
    """
    with _session("sweep", master or ONE_AT_A_TIME, configuration) as (session, step):
        from pipeline.sweep import Grid
        from pipeline.sweep import sweep as run

        try:
            grid_of = Grid(
                codecs=codecs,
                record_sizes=records,
                chunk_sizes=chunks,
                consumers=consumers,
                modes=modes,
                size=size,
            )
        except ValueError as error:
            raise click.UsageError(str(error)) from None
        rows = [row.asDict() for row in run(session, grid_of, target, step=step).collect()]
    if as_json:
        click.echo(json.dumps({"measurements": rows}))
    else:
        _print_sweep(rows)
        click.echo(f"\n{format_count(len(rows), 'measurement')} in {target}")
    if report is not None:
        from pipeline.sweep_report import write_report

        write_report(report, rows, shlex.join(["downconvert", *sys.argv[1:]]))
        if not as_json:
            click.echo(f"report: {report}")
    failures = sorted({failure for row in rows for failure in row["failures"]})
    if failures:
        raise CommandError("\ndownconvert: ".join(failures), CHECK_FAILED)


def _print_sweep(rows: Sequence[dict[str, Any]]) -> None:
    table = grid("codec", "record", "chunk", "consumers", "mode", "peak", "records/s")
    order = ("codec", "record_size", "chunk_size", "consumers", "mode")
    for row in sorted(rows, key=lambda row: tuple(row[key] for key in order)):
        table.add_row(
            row["codec"],
            format_size(row["record_size"]),
            format_size(row["chunk_size"]),
            str(row["consumers"]),
            row["mode"],
            format_size(row["peak_bytes"]),
            format_rate(row["records_per_second"]),
        )
    Console(highlight=False).print(table)


# --- what they share


def _split(topics: Sequence[str]) -> tuple[str, ...]:
    return tuple(name.strip() for text in topics for name in text.split(",") if name.strip())


@contextmanager
def _session(
    name: str, master: str | None, configuration: dict[str, str]
) -> "Iterator[tuple[SparkSession, Step]]":
    """A session, and progress while it works. What Spark has to say is one line."""
    if any(find_spec(module) is None for module in OF_THE_EXTRA):
        raise CommandError(EXTRA_NEEDED)
    warnings.filterwarnings("ignore", category=FutureWarning, module="pyspark")
    from pyspark.errors import PySparkException

    from pipeline.jobs import JobError
    from pipeline.session import open_session

    name_the_backend()
    try:
        with progress() as step:
            step("start Spark", 0, 1)
            with open_session(f"downconvert {name}", master, configuration) as session:
                yield session, step
    except JobError as error:
        raise CommandError(str(error)) from None
    except PySparkException as error:
        notices().print(str(error), style="dim")
        raise CommandError(
            "a job of Spark's failed, as above; DOWNCONVERT_SPARK_LOG=1 shows Spark's own messages"
        ) from None
