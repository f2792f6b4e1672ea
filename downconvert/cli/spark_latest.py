"""`downconvert spark latest`: writes the last record of each key.

Not here: the query (downconvert/spark/jobs/latest.py)."""

import json

import click

from records.units import format_count

from .spark_job import Job, of_topics


@click.command()
@click.argument("paths", metavar="DIR...", nargs=-1, required=True)
@click.argument("target", metavar="OUT")
@click.option("--tombstones", is_flag=True, help="Also keys whose last record has no value.")
@click.option("--uncommitted", is_flag=True, help="Also records of aborted and open transactions.")
@of_topics
def latest(
    paths: tuple[str, ...],
    target: str,
    tombstones: bool,
    uncommitted: bool,
    job: Job,
) -> None:
    """Write to OUT the records that compaction would keep of the DIRs: the last record of each key
    in a partition. They become Parquet in folders topic=..., with the columns of Spark's Kafka
    source.

    OUT must not exist. It may be on any file system that Spark supports.

    \b
    downconvert spark latest --topics customers /var/kafka /data/customers
    downconvert spark latest --tombstones --topics 'state-*' /backup/broker-1 s3a://lake/state
    """
    with job.session("latest", paths) as (session, step):
        from downconvert.spark.jobs import latest as finding

        frame = finding.latest(
            session, paths, topics=job.topics, committed=not uncommitted, tombstones=tombstones
        )
        count = finding.write(frame, target, step)
    if job.as_json:
        click.echo(json.dumps({"keys": count}))
    else:
        click.echo(f"{format_count(count, 'key')} in {target}")
