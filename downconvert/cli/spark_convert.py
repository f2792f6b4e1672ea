"""`downconvert spark convert`: converts log directories to another format.

Not here: the conversion (downconvert/spark/jobs/convert/convert.py)."""

import json
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from downconvert.conversion.policies import parse_policy
from records.units import format_count, format_seconds, format_size

from .app import BAD_INPUT
from .failure import shortened
from .spark_job import Job, of_topics
from .values import POLICY, POLICY_HELP

if TYPE_CHECKING:
    from downconvert.spark.jobs.convert.convert import Summary


@click.command()
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
@of_topics
def convert(
    paths: tuple[str, ...],
    target: str,
    to_magic: int,
    policy: str,
    committed: bool,
    job: Job,
) -> int:
    """Write the segments of the DIRs to OUT, all in one format, with new indexes.

    Offsets, timestamps, keys, values and gaps stay. Each segment is written, read back, compared
    record for record, and only then gets its name. OUT/conversion-manifest.jsonl has the result of
    each. An interrupted run can be repeated, and continues where it stopped. OUT must be the same
    directory on all machines of a cluster.

    \b
    downconvert spark convert --to-magic 2 /backup/broker-1 /mnt/upgraded
    downconvert spark convert --to-magic 1 --topics clicks --committed /var/kafka /mnt/old
    jq -r 'select(.status == "failed") | .error' /mnt/upgraded/conversion-manifest.jsonl
    """
    with job.session("convert", paths) as (session, step):
        from downconvert.spark.jobs.convert.convert import run
        from downconvert.spark.jobs.convert.rewrite import POLICY as DEFAULT
        from downconvert.spark.jobs.convert.rewrite import Settings

        settings = Settings(
            to_magic=to_magic,
            policy=DEFAULT if policy == "default" else parse_policy(policy),
            isolation="read_committed" if committed else "read_uncommitted",
        )
        done = run(session, paths, target, settings, topics=job.topics, step=step)
    if job.as_json:
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
