"""`downconvert spark audit`: reports the contents of log directories, and obstacles to an upgrade
to Kafka 4.

Not here: the audit (downconvert/spark/jobs/audit/audit.py)."""

import json
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from records.units import format_count, format_seconds, format_size

from .app import BAD_INPUT
from .failure import shortened
from .grid import grid, print_table
from .spark_job import Job, of_topics
from .values import OutputFile

if TYPE_CHECKING:
    from downconvert.spark.jobs.audit.audit_summary import Topic


@click.command()
@click.argument("paths", metavar="DIR...", nargs=-1, required=True)
@click.option(
    "--everything", is_flag=True, help="Read and convert all records, and not only a sample."
)
@click.option(
    "--verify-crc/--no-verify-crc",
    default=True,
    help="Compare the checksums of all batches, or only of the sample, so that little more than "
    "headers is read.",
)
@click.option(
    "--report",
    metavar="FILE",
    type=OutputFile(),
    help="Write the result to one HTML file, which opens offline.",
)
@of_topics
def audit(
    paths: tuple[str, ...],
    everything: bool,
    verify_crc: bool,
    report: Path | None,
    job: Job,
) -> int:
    """Report for each topic the formats and codecs, the cost of serving old consumers, what these
    would miss, and damage. Name the topics with formats that Kafka 4 no longer supports.

    All headers are read, and all checksums compared. A sample of the records is read and converted:
    at least a MiB of each format and codec in a segment. With --everything, all records are.

    \b
    downconvert spark audit /var/kafka
    downconvert spark audit /backup/broker-* --report audit.html
    downconvert spark audit --topics 'orders-*' --json /var/kafka | jq '.topics[].shares'
    """
    with job.session("audit", paths) as (session, step):
        from downconvert.spark.jobs.audit import audit as auditing
        from downconvert.spark.jobs.audit.audit_summary import summarise

        frame = auditing.audit(
            session, paths, topics=job.topics, everything=everything, verify_crc=verify_crc
        )
        rows = auditing.run(frame, step)
        missing = auditing.absent(session, paths, topics=job.topics, step=step)
        found = summarise((row.asDict(recursive=True) for row in rows), missing)
    if job.as_json:
        click.echo(json.dumps({"topics": [topic.to_json() for topic in found]}))
    else:
        _print_audit(found)
    if report is not None:
        from downconvert.spark.jobs.audit.audit_report import Heading, write_report

        command = shlex.join(["downconvert", *sys.argv[1:]])
        write_report(report, found, Heading(paths, command, is_sample=not everything))
        if not job.as_json:
            click.echo(f"report: {report}")
    damages = [damage for topic in found for damage in topic.damages]
    for damage in shortened(damages):
        click.echo(f"downconvert: {damage}", err=True)
    lost = sum(topic.absent_offsets for topic in found)
    if lost:
        words = f"{format_count(lost, 'offset')} in no copy; downconvert spark gaps says which"
        click.echo(f"downconvert: {words}", err=True)
    return BAD_INPUT if damages or lost else 0


def _print_audit(topics: "Sequence[Topic]") -> None:
    from downconvert.spark.jobs.audit.audit_summary import losses

    table = grid(
        "topic", "size", "records", "missing", "formats and codecs", "v1 CPU", "v0 CPU", "Kafka 4"
    )
    for topic in topics:
        table.add_row(
            topic.name,
            format_size(topic.log_bytes),
            f"{'~' * topic.is_estimate}{topic.records:,.0f}",
            f"{topic.absent_offsets:,}" if topic.absent_offsets else "none",
            _shares(topic),
            format_seconds(topic.v1.cpu_seconds),
            format_seconds(topic.v0.cpu_seconds),
            "ready" if topic.is_ready else f"{format_size(topic.old_bytes)} old",
        )
    print_table(table)
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
