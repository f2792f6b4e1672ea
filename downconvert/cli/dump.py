"""`downconvert dump`: prints segments, batch by batch and record by record.

Damage is reported, and skipped if possible: the next batch begins after the size that the damaged
batch states.

Not here: the form of a line (dump_lines.py)."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import click

from downconvert.storage.segments.segment_files import segment_files
from records import BatchHeader, CorruptRecordsError, FileRecords
from records.batches.reader import read_batch
from records.checksum import verify_checksum

from .advice import advice
from .app import BAD_INPUT
from .dump_lines import JsonLines, Lines, TextLines
from .dump_small import can_dump, index_problems, small_file_lines, small_files
from .failure import shortened
from .terminal import name_the_backend


@click.command()
@click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="Print one JSON object per line, with full keys and values.",
)
@click.option("--batches", is_flag=True, help="Batches only, without their records.")
@click.option("--full", is_flag=True, help="Keys and values in full, however long.")
@click.option(
    "--all", "everything", is_flag=True, help="Also print indexes and checkpoints in directories."
)
@click.option("--verify", is_flag=True, help="Compare the entries of indexes with their logs.")
def dump(
    paths: tuple[Path, ...],
    as_json: bool,
    batches: bool,
    full: bool,
    everything: bool,
    verify: bool,
) -> int:
    """Print batches and records like Kafka's own dump tool.

    PATHS are segment files, or directories with files that end in .log. Checksums are checked
    (isvalid). Keys and values are printed as text if they are text, else as hexadecimal digits.
    PATHS may also be indexes (.index, .timeindex, .txnindex), .snapshot files, checkpoints and
    metadata.

    \b
    downconvert dump 00000000000000000000.log
    downconvert dump --batches /var/kafka/topic-0
    downconvert dump --verify /var/kafka/topic-0/00000000000000000000.index
    downconvert dump --json topic-0 | jq 'select(.type == "record") | .value'
    """
    if not batches:
        name_the_backend()
    colours = sys.stdout.isatty() and "NO_COLOR" not in os.environ
    lines: Lines = JsonLines() if as_json else TextLines(colours=colours, full=full)
    damaged = False
    logs = [path for path in paths if path.is_dir() or not can_dump(path)]
    small = [path for path in paths if path not in logs]
    files = segment_files(logs)
    for path in (*small, *(small_files(paths) if everything else ())):
        for line in small_file_lines(path, as_json=as_json):
            print(line)
    for path in files:
        with FileRecords.open(path) as log:
            problems: list[str] = []
            for line in _lines(log, path, lines, problems, with_records=not batches):
                if line:
                    print(line)
        sys.stdout.flush()
        for problem in shortened(problems):
            click.echo(f"downconvert: {path}: {problem}", err=True)
        damaged |= bool(problems)
    if verify:
        problems = list(index_problems((*files, *small)))
        for problem in shortened(problems):
            click.echo(f"downconvert: {problem}", err=True)
        damaged |= bool(problems)
    return BAD_INPUT if damaged else 0


def _lines(
    log: FileRecords, path: Path, lines: Lines, problems: list[str], *, with_records: bool
) -> Iterator[str]:
    yield lines.file(path)
    end = 0
    try:
        for header in log.batches():
            end = header.position + header.size
            yield from _batch(log, header, lines, problems, with_records=with_records)
    except CorruptRecordsError as error:
        problems.append(f"{error}{advice(error) or '; nothing after it can be read'}")
        return
    if end < log.size:
        problems.append(
            f"torn: the last {log.size - end} bytes, from byte {end} on, are not a whole batch"
        )


def _batch(
    log: FileRecords, header: BatchHeader, lines: Lines, problems: list[str], *, with_records: bool
) -> Iterator[str]:
    """A batch's line, and the lines of its readable records."""
    try:
        verify_checksum(log, header)
    except CorruptRecordsError as error:
        problems.append(str(error))
        yield lines.batch(header, False)
    else:
        yield lines.batch(header, True)
    if not with_records:
        return
    try:
        for record in read_batch(log, header, verify=False):
            yield lines.record(header, record)
    except CorruptRecordsError as error:
        problems.append(str(error))
