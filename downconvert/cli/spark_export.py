"""`downconvert spark export`: records as Parquet.

Not here: the export (downconvert/spark/export.py)."""

import json

import click
from rich.console import Console

from records.units import format_count

from .grid import grid
from .spark_job import Job, of_topics


@click.command(short_help="Write records as Parquet, by topic and date.")
@click.argument("paths", metavar="DIR...", nargs=-1, required=True)
@click.argument("target", metavar="OUT")
@click.option("--committed", is_flag=True, help="Leave out aborted transactions.")
@click.option("--skip-damaged", is_flag=True, help="Leave out damaged batches, and go on.")
@of_topics
def export(
    paths: tuple[str, ...],
    target: str,
    committed: bool,
    skip_damaged: bool,
    job: Job,
) -> None:
    """Add the records in the DIRs to OUT as Parquet, in folders topic=.../date=... (UTC) that
    Spark, Trino and Iceberg's add_files read.

    Offsets that are in OUT stay as they are, also when retention has deleted them from the logs;
    what is not there yet is added. The same run twice is the same once, also after one that died.
    OUT may be on any file system that Spark knows; one run at a time may write to it.

    \b
    downconvert spark export /var/kafka /data/events
    downconvert spark export --topics clicks --committed /mnt/kafka s3a://lake/events
    """
    with job.session("export") as (session, step):
        from downconvert.spark.export import export as run

        frame = run(
            session,
            paths,
            target,
            topics=job.topics,
            committed=committed,
            skip_damaged=skip_damaged,
            step=step,
        )
        folders = frame.groupBy("topic", "date").count().orderBy("topic", "date").collect()
    if job.as_json:
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
