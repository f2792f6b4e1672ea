"""`downconvert retention`: removes old segments of a stopped broker, by age or by size.

Not here: the rules of retention (storage)."""

import json
import time
from collections.abc import Sequence
from pathlib import Path

import click

from downconvert.storage import LogConfig
from downconvert.storage.cleaning.retention import Removable, segments_to_remove, youngest
from records.units import format_count, format_size

from .stopped import stopped_logs, topic_option
from .terminal import progress
from .values import Long


@click.command()
@click.argument("directory", metavar="DIR", type=click.Path(path_type=Path))
@topic_option
@click.option(
    "--retention-ms",
    type=Long(-1),
    default=-1,
    help="Remove segments whose youngest record is older. -1: no limit.",
)
@click.option(
    "--retention-bytes",
    type=Long(-1),
    default=-1,
    help="Remove the oldest segments of a partition that has more bytes. -1: no limit.",
)
@click.option("--dry-run", is_flag=True, help="Only print what would be removed.")
@click.option("--json", "as_json", is_flag=True, help="A JSON object for each partition, a line.")
def retention(
    directory: Path,
    topics: Sequence[str],
    retention_ms: int,
    retention_bytes: int,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Remove segments of DIR that are too old or too many, as a broker does with
    cleanup.policy=delete.

    DIR is one partition's directory, or with --topic a broker's. The broker must be stopped.
    Whole segments are removed, from the beginning on. This cannot be undone, so use --dry-run
    first.

    \b
    downconvert retention --dry-run --retention-ms 604800000 /var/kafka/clicks-0
    downconvert retention --retention-bytes 1000000000 --topic 'logs-*' /var/kafka
    """
    if retention_ms < 0 and retention_bytes < 0:
        raise click.UsageError("give --retention-ms, --retention-bytes or both")
    config = LogConfig(retention_ms=retention_ms, retention_bytes=retention_bytes)
    now = int(time.time() * 1000)
    with stopped_logs(directory, topics, config, writable=not dry_run) as logs, progress() as step:
        for log in logs:
            step(f"retention {log.path.name}", 0, 1)
            segments = list(log.segments)
            sizes = [log.end_of(segment) for segment in segments]
            ages = (youngest(log, segment) for segment in segments)
            found = segments_to_remove(sizes, ages, config, now)
            if found.count and not dry_run:
                log.writer.remove_oldest(found.count)
            size = sum(sizes[: found.count])
            click.echo(_line(log.path.name, found, size, log.start_offset, as_json, dry_run))


def _line(name: str, found: Removable, size: int, start: int, as_json: bool, dry_run: bool) -> str:
    if as_json:
        summary = {"partition": name, "segments": found.count, "bytes": size, "startOffset": start}
        return json.dumps(summary)
    if not found.count:
        return f"{name}: nothing to remove"
    what = f"{format_count(found.count, 'segment')} of {format_size(size)}"
    if dry_run:
        return f"{name}: {what} to remove ({found.reason})"
    return f"{name}: {what} removed ({found.reason}), the log begins at offset {start}"
