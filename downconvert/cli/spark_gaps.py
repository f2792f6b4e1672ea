"""`downconvert spark gaps`: lists the offsets of logs that no copy has, and why.

Not here: finding them (downconvert/spark/jobs/gap_report.py)."""

import json
from typing import Any

import click

from records.units import format_count

from .app import BAD_INPUT
from .grid import grid, print_table
from .spark_job import Job, of_topics


@click.command()
@click.argument("paths", metavar="DIR...", nargs=-1, required=True)
@click.option(
    "--verify-crc/--no-verify-crc",
    default=True,
    help="Compare the checksums of all batches, and not only read headers.",
)
@click.option(
    "--compacted",
    metavar="NAMES",
    multiple=True,
    help="Topics that are compacted, as names or patterns (repeatable).",
)
@of_topics
def gaps(paths: tuple[str, ...], verify_crc: bool, compacted: tuple[str, ...], job: Job) -> int:
    """Print each range of offsets that readers of the DIRs do not get: topic, partition, from, to
    (exclusive), state, and reason.

    torn: a copy of a file ends there. damaged: bytes have changed. missing: no file has them.
    superseded: a copy has them, but a later leader has truncated them, which is no loss. Records
    that compaction or retention has removed are no gap. The exit status is 2 if anything is lost.

    \b
    downconvert spark gaps /backup/broker-*
    downconvert spark gaps --json --topics orders /backup | jq 'select(.state == "torn")'
    """
    with job.session("gaps", paths) as (session, step):
        from downconvert.spark.jobs import gap_report

        frame = gap_report.gaps(
            session, paths, topics=job.topics, compacted=compacted, verify_crc=verify_crc
        )
        found = gap_report.run(frame, step)
    if job.as_json:
        for row in found:
            click.echo(json.dumps(row))
    else:
        _print_gaps(found)
    return BAD_INPUT if any(row["state"] != "superseded" for row in found) else 0


def _print_gaps(found: list[dict[str, Any]]) -> None:
    if not found:
        click.echo("no gaps: every offset is there, or compaction has removed it")
        return
    table = grid("partition", "from", "to", "state", "why")
    for row in found:
        start, end = (_offset(row[name]) for name in ("from", "to"))
        table.add_row(f"{row['topic']}-{row['partition']}", start, end, row["state"], row["why"])
    print_table(table)
    click.echo(f"\n{format_count(len(found), 'gap')}")


def _offset(offset: int | None) -> str:
    return "unknown" if offset is None else f"{offset:,}"
