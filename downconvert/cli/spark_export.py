"""`downconvert spark export`: exports records to Parquet, or to a table of Delta Lake or Iceberg.

Not here: the export (downconvert/spark/jobs/export/export.py)."""

import json
from collections.abc import Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

import click

from records.units import format_count

from .extras import words_for
from .failure import CommandError
from .grid import grid, print_table
from .spark_job import Job, of_topics, pairs

if TYPE_CHECKING:
    from pyspark.sql import Row

    from downconvert.spark.jobs.export.export_noted import Target

PACKAGES: Final = {"delta": "deltalake", "iceberg": "pyiceberg"}


@click.command()
@click.argument("paths", metavar="DIR...", nargs=-1, required=True)
@click.argument("target", metavar="OUT")
@click.option("--committed", is_flag=True, help="Leave out aborted transactions.")
@click.option("--skip-damaged", is_flag=True, help="Leave out damaged batches.")
@click.option(
    "--past-high-watermark",
    is_flag=True,
    help="Go up to the end of the logs: what is after the high watermark may still be truncated.",
)
@click.option(
    "--repair",
    is_flag=True,
    help="Replace records in OUT that a later leader has truncated, and correct wrong leader "
    "epochs in its notes.",
)
@click.option(
    "--between",
    metavar="OPTION=VALUE",
    multiple=True,
    callback=pairs,
    help="Only these offsets or times, by options of the data source, such as "
    'startingOffsets={"clicks":{"0":100}} or endingTimestamp=1700000000000 '
    "(repeatable).",
)
@click.option(
    "--format",
    "kind",
    type=click.Choice(["parquet", *PACKAGES]),
    default="parquet",
    help="What OUT is: a directory of Parquet files, a table of Delta Lake (its directory), or "
    "one of Iceberg (its name in a catalog).",
)
@click.option(
    "--catalog",
    metavar="NAME",
    help="The Iceberg catalog, by its name in pyiceberg's configuration.",
)
@click.option(
    "--catalog-property",
    "properties",
    metavar="KEY=VALUE",
    multiple=True,
    callback=pairs,
    help="A property of the catalog (repeatable).",
)
@of_topics
def export(
    paths: tuple[str, ...],
    target: str,
    committed: bool,
    skip_damaged: bool,
    past_high_watermark: bool,
    repair: bool,
    between: dict[str, str],
    kind: str,
    catalog: str | None,
    properties: dict[str, str],
    job: Job,
) -> None:
    """Add the records in the DIRs to OUT as Parquet, in folders topic=.../date=... (UTC) that
    Spark, Trino and Iceberg's add_files read.

    Records that are already in OUT stay unchanged, even after retention has deleted them from the
    logs. Missing records are added. A repeated run adds nothing twice, even after a run that died.
    OUT is a directory that all machines have mounted, or in a store. Only one run at a time may
    write to it. A table has the offsets in the metadata of its commits. The printed counts are
    those of this run.

    \b
    downconvert spark export /var/kafka /data/events
    downconvert spark export --topics clicks --committed /mnt/kafka s3a://lake/events
    downconvert spark export --format delta /var/kafka /data/events
    downconvert spark export --format iceberg --catalog prod /var/kafka lake.events
    """
    package = PACKAGES.get(kind)
    if package is not None and find_spec(package) is None:
        raise CommandError(words_for(package) or package)
    if kind != "iceberg" and (catalog or properties):
        raise click.UsageError("--catalog and --catalog-property need --format iceberg")
    with job.session("export", paths) as (session, step):
        from downconvert.spark.jobs.export.export import run

        into: str | Target = target
        if kind == "delta":
            from downconvert.spark.jobs.export.export_delta import DeltaTarget

            into = DeltaTarget(target)
        elif kind == "iceberg":
            from downconvert.spark.jobs.export.export_iceberg import IcebergTarget

            into = IcebergTarget(target, catalog, properties)
        result = run(
            session,
            paths,
            into,
            topics=job.topics,
            committed=committed,
            skip_damaged=skip_damaged,
            past_high_watermark=past_high_watermark,
            repair=repair,
            between=between,
            step=step,
        )
        folders = result.added.orderBy("topic", "date").collect()
    _show(folders, target, as_json=job.as_json)


def _show(folders: "Sequence[Row]", target: str, *, as_json: bool) -> None:
    """Prints what was added."""
    if as_json:
        rows = [
            {
                "topic": row.topic,
                "date": str(row.date) if row.date else None,
                "records": row.records,
            }
            for row in folders
        ]
        click.echo(json.dumps({"folders": rows}))
        return
    if not folders:
        click.echo(f"nothing to add: all of it is in {target}")
        return
    table = grid("topic", "date", "records")
    for row in folders:
        table.add_row(row.topic, str(row.date or "without"), f"{row.records:,}")
    print_table(table)
    total = sum(row.records for row in folders)
    click.echo(
        f"\n{format_count(total, 'record')} added to {format_count(len(folders), 'folder')} of "
        f"{target}"
    )
