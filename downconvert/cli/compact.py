"""`downconvert compact`: runs a broker's cleaner once over logs of a stopped broker.

Not here: the rules of compaction (storage)."""

import json
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import click

from downconvert.storage import LogConfig
from downconvert.storage.cleaning.cleanable import cleanable
from downconvert.storage.cleaning.compact_log import compact as compact_log
from downconvert.storage.cleaning.offset_map import BUFFER_SIZE, SLOT_SIZE
from downconvert.storage.config import COMPACT, DAY
from records.units import format_count, format_size

from .stopped import stopped_logs, topic_option
from .terminal import name_the_backend, progress
from .values import SIZE, Long


@click.command()
@click.argument("directory", metavar="DIR", type=click.Path(path_type=Path))
@topic_option
@click.option(
    "--delete-retention-ms",
    type=Long(0),
    default=DAY,
    help="How long tombstones and the ends of transactions stay after they are first cleaned.",
)
@click.option("--roll", is_flag=True, help="Roll the newest segment first, to clean it too.")
@click.option(
    "--buffer",
    metavar="SIZE",
    default=format_size(BUFFER_SIZE),
    callback=SIZE,
    help=f"Memory for keys, {SLOT_SIZE} bytes each; with more keys it takes several passes.",
)
@click.option("--dry-run", is_flag=True, help="Only print what would be cleaned.")
@click.option("--json", "as_json", is_flag=True, help="A JSON object for each partition, a line.")
def compact(
    directory: Path,
    topics: Sequence[str],
    delete_retention_ms: int,
    roll: bool,
    buffer: int,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Keep the last record of each key in DIR, as a broker does with cleanup.policy=compact.

    DIR is one partition's directory, or with --topic a broker's. The broker must be stopped.
    Records without keys and records of aborted transactions are removed. Offsets do not change.
    Records in the newest segment or after the last stable offset stay.

    \b
    downconvert compact /var/kafka/prices-0
    downconvert compact --topic prices --topic 'state-*' /var/kafka
    downconvert compact --topic __consumer_offsets /var/kafka
    """
    if buffer < 2 * SLOT_SIZE:
        raise click.BadParameter(f"at least {2 * SLOT_SIZE} bytes", param_hint="--buffer")
    name_the_backend()
    config = LogConfig(cleanup_policy=frozenset({COMPACT}), delete_retention_ms=delete_retention_ms)
    now = int(time.time() * 1000)
    with stopped_logs(directory, topics, config, writable=not dry_run) as logs, progress() as step:
        for log in logs:
            name = log.path.name
            step(f"compact {name}", 0, 1)
            if dry_run:
                segments = list(log.segments)[:-1]
                size = sum(log.end_of(segment) for segment in segments)
                summary: dict[str, object] = {"segments": len(segments), "bytes": size}
                words = f"{format_count(len(segments), 'segment')} of {format_size(size)} to clean"
            else:
                if roll:
                    log.writer.roll()
                count = compact_log(log, config, now=now, buffer_size=buffer)
                summary = {**asdict(count), "cleanedUpTo": cleanable(log, config, now).end}
                words = (
                    f"{count.records_in:,} to {count.records_out:,} records, "
                    f"{format_size(count.bytes_in)} to {format_size(count.bytes_out)}, up to "
                    f"offset {summary['cleanedUpTo']}"
                )
            line = json.dumps({"partition": name, **summary}) if as_json else f"{name}: {words}"
            click.echo(line)
