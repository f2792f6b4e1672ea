"""`downconvert recover`: recovers the logs of a stopped broker, as the broker would do after a
crash.

Not here: recovery (storage)."""

import json
from collections.abc import Iterator
from pathlib import Path

import click

from downconvert.storage import Log, LogDir, StorageError
from downconvert.storage.layout import check_writable, read_layout
from downconvert.storage.names import Kind, file_name
from downconvert.storage.recovery import Recovery
from downconvert.storage.segments.segment_recovery import check_segment
from records.units import format_count, format_size

from .app import BAD_INPUT
from .failure import need_directory, no_partitions, shortened
from .stopped import written_partition
from .terminal import name_the_backend, progress


@click.command()
@click.argument("directory", metavar="DIR", type=click.Path(path_type=Path))
@click.option("--dry-run", is_flag=True, help="Only report damage: exit code 2 if there is any.")
@click.option("--everything", is_flag=True, help="Also check what is below the recovery point.")
@click.option("--json", "as_json", is_flag=True, help="A JSON object for each partition, a line.")
def recover(directory: Path, dry_run: bool, everything: bool, as_json: bool) -> int:
    """Recover DIR, as a broker does when it starts after a crash.

    DIR is a broker's log directory, or one partition's. The broker must be stopped. Logs are cut
    before the first batch that is damaged or incomplete; --dry-run shows the cuts without making
    them. Later segments are set aside, as files in the partition's directory whose names end in
    .aside. Bytes that are cut off are also set aside, if they have whole batches or are a whole
    file. Indexes and snapshots are rebuilt, and interrupted renamings and deletions are completed.

    \b
    downconvert recover --dry-run /var/kafka
    downconvert recover /var/kafka
    downconvert recover --everything /var/kafka/topic-0
    """
    need_directory(directory)
    name_the_backend()
    reports = _surveyed(directory) if dry_run else _recovered(directory, everything)
    cut, offline = 0, 0
    with progress() as step:
        for name, report in reports:
            step(f"recover {name}", 0, 1)
            if isinstance(report, str):
                offline += 1
                document = json.dumps({"partition": name, "offline": report})
                click.echo(document if as_json else f"{name}: left as it is: {report}")
                continue
            cut += report.bytes_cut
            if as_json:
                click.echo(json.dumps(_as_json(name, report)))
            else:
                for line in _lines(name, report, dry_run=dry_run):
                    click.echo(line)
    return BAD_INPUT if offline or (dry_run and cut) else 0


def _recovered(directory: Path, everything: bool) -> Iterator[tuple[str, Recovery | str]]:
    """Yields each partition's name with the result, or with the reason why nothing was done."""
    if _is_partition(directory):
        path = written_partition(directory)
        with Log.open(path, writable=True, verify_all=everything) as log:
            yield directory.name, log.writer.recovery
        return
    with LogDir.open(directory, writable=True, verify_all=everything) as log_dir:
        if not log_dir.logs:
            raise no_partitions(directory)
        for partition in log_dir.logs:
            log = log_dir.logs.open_or_offline(partition)
            yield str(partition), log.offline_reason or log.writer.recovery


def _surveyed(directory: Path) -> Iterator[tuple[str, Recovery | str]]:
    partitions = [directory.resolve()]
    if not _is_partition(directory):
        with LogDir.open(directory) as log_dir:
            if not log_dir.logs:
                raise no_partitions(directory)
            partitions = [directory / str(partition) for partition in log_dir.logs]
    for path in partitions:
        try:
            check_writable(path, read_layout(path))
            with Log.open(path) as log:
                yield path.name, Recovery([check_segment(segment) for segment in log.segments])
        except (OSError, StorageError) as error:
            yield path.name, str(error)


def _is_partition(directory: Path) -> bool:
    return any(directory.glob("*.log"))


def _lines(name: str, report: Recovery, *, dry_run: bool) -> Iterator[str]:
    batches = sum(segment.batches for segment in report.checked)
    read = f"{format_count(len(report.checked), 'segment')} with {batches:,} batch(es) read"
    if not report.checked:
        read = "closed as it should be, nothing read"
    cut = format_size(report.bytes_cut) if report.bytes_cut else "nothing"
    yield f"{name}: {read}, {cut} {'to cut' if dry_run else 'cut'} off"
    for number, segment in enumerate(report.checked, 1):
        if segment.bytes_cut:
            why = "the rest is not a whole batch" if segment.damage is None else segment.damage
            file = file_name(segment.base_offset, Kind.LOG)
            yield f"  {file}: good up to byte {segment.good_size}; {why}"
            following = len(report.checked) - number
            if dry_run and following:
                yield f"  {format_count(following, 'segment')} after that to set aside"
                break
    if report.removed:
        yield f"  removed: {', '.join(shortened(report.removed))}"
    if report.set_aside:
        yield f"  set aside: {', '.join(shortened(report.set_aside))}"


def _as_json(name: str, report: Recovery) -> dict[str, object]:
    return {
        "partition": name,
        "bytesCut": report.bytes_cut,
        "removed": report.removed,
        "setAside": report.set_aside,
        "segments": [
            {
                "baseOffset": segment.base_offset,
                "size": segment.size,
                "goodSize": segment.good_size,
                "batches": segment.batches,
                "nextOffset": segment.next_offset,
                "damage": None if segment.damage is None else str(segment.damage),
            }
            for segment in report.checked
        ],
    }
