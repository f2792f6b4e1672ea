"""`downconvert upgrade`: upgrades segments of v0 and v1 to v2, in a new directory or in place.

Not here: the upgrade (storage)."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from time import perf_counter

import click

from downconvert.storage import LogDir
from downconvert.storage.cleaning.upgrade_log import (
    IN_WORK_SUFFIX,
    Upgrade,
    survey_upgrade,
    upgrade_in_place,
)
from downconvert.storage.cleaning.upgrade_log import upgrade as upgrade_into
from records import RecordsError
from records.units import format_count, format_seconds, format_size

from .failure import CommandError, in_words, need_directory, no_partitions
from .grid import grid, print_table
from .terminal import name_the_backend, progress


@click.command()
@click.argument("source", metavar="DIR", type=click.Path(path_type=Path))
@click.argument("target", metavar="[OUT]", required=False, type=click.Path(path_type=Path))
@click.option("--in-place", is_flag=True, help="Give the result the name of DIR, which is renamed.")
@click.option("--dry-run", is_flag=True, help="Convert everything, and write nothing.")
@click.option("--json", "as_json", is_flag=True, help="The summary as JSON.")
def upgrade(
    source: Path, target: Path | None, in_place: bool, dry_run: bool, as_json: bool
) -> None:
    """Write the logs of DIR to OUT, with every batch of v0 and v1 as v2.

    DIR is a broker's log directory, or one partition's. Offsets, timestamps, keys, values, nulls
    and gaps do not change. Indexes are written again, and everything else is copied. At the end
    both directories are read and compared record for record. Brokers since 4.0 no longer convert
    old formats. Stop the broker before you upgrade its directory in place.

    \b
    downconvert upgrade --dry-run /var/kafka
    downconvert upgrade /var/kafka /mnt/kafka-v2
    downconvert upgrade --in-place /var/kafka/topic-0
    """
    if sum((target is not None, in_place, dry_run)) != 1:
        raise click.UsageError("give one of OUT, --in-place and --dry-run")
    if target is not None and not target.absolute().parent.is_dir():
        raise CommandError(f"{target}: there is no directory {target.parent} to write it to")
    need_directory(source)
    if not any(source.glob("*.log")):
        with LogDir.open(source) as log_dir:
            if not log_dir.logs:
                raise no_partitions(source)
    name_the_backend()
    started = perf_counter()
    with progress() as step:
        names: list[str] = []

        def note(name: str) -> None:
            names.append(name)
            step(f"upgrade {name}", 0, 1)

        if dry_run:
            done, where = survey_upgrade(source, note), "nothing was written"
        elif target is not None:
            with _whole(target):
                done = upgrade_into(source, target, note=note)
            where = f"the result is in {target}"
        else:
            with _whole(Path(f"{source.resolve()}{IN_WORK_SUFFIX}")):
                done, kept = upgrade_in_place(source, note=note)
            where = f"what was there is in {kept}"
    if as_json:
        click.echo(json.dumps(_as_json(done)))
        return
    _print(done)
    total = done.total
    click.echo(
        f"{total.batches_converted:,} batches of v0 and v1 with "
        f"{format_count(total.records_converted, 'record')}, "
        f"{format_size(total.bytes_in)} to {format_size(total.bytes_out)}, "
        f"in {format_seconds(perf_counter() - started)}; {where}"
    )


@contextmanager
def _whole(target: Path) -> Iterator[None]:
    """If an upgrade fails, names the directory that it leaves incomplete, because that prevents the
    next upgrade."""
    was_there = target.exists()
    try:
        yield
    except (OSError, RecordsError) as error:
        if was_there or not target.exists():
            raise
        words = f"{in_words(error)}; {target} is incomplete: remove it before you try again"
        raise CommandError(words) from None


def _as_json(done: Upgrade) -> dict[str, object]:
    partitions = {name: asdict(count) for name, count in done.partitions.items()}
    return {"partitions": partitions, "total": asdict(done.total)}


def _print(done: Upgrade) -> None:
    table = grid("partition", "batches", "of v0, v1", "records in them", "bytes", "afterwards")
    for name, count in done.partitions.items():
        if count.batches_converted:
            table.add_row(
                name,
                f"{count.batches_in:,}",
                f"{count.batches_converted:,}",
                f"{count.records_converted:,}",
                format_size(count.bytes_in),
                format_size(count.bytes_out),
            )
    if table.row_count:
        print_table(table)
