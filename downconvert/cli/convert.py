"""`downconvert convert`: writes a segment in an older format to a file.

Not here: the conversion (downconvert)."""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from typing import BinaryIO

import click

from downconvert import convert as converted
from downconvert.conversion.policies import parse_policy
from records import FileRecords, RecordsError
from records.paths import check_replaceable, whole_file
from records.units import format_seconds, format_size

from .advice import advice
from .failure import CommandError
from .terminal import name_the_backend, progress
from .values import POLICY, POLICY_HELP, Long, OutputFile

_STANDARD_OUTPUT = Path("-")


@click.command()
@click.argument("source", metavar="IN", type=click.Path(path_type=Path))
@click.argument("target", metavar="OUT", type=OutputFile(allow_dash=True))
@click.option(
    "--to-magic",
    metavar="0|1",
    type=click.IntRange(0, 1),
    required=True,
    help="Message format to write.",
)
@click.option(
    "--first-offset",
    metavar="N",
    type=Long(0),
    default=0,
    help="Leave out records below this offset.",
)
@click.option("--policy", metavar="POLICY", default="default", callback=POLICY, help=POLICY_HELP)
@click.option("--force", is_flag=True, help="Overwrite OUT if it is a regular file.")
@click.option("--json", "as_json", is_flag=True, help="The summary as JSON, on standard output.")
def convert(
    source: Path,
    target: Path,
    to_magic: int,
    first_offset: int,
    policy: str,
    force: bool,
    as_json: bool,
) -> None:
    """Write the records of segment IN to OUT, for clients that read an older format.

    OUT can be - for standard output. If IN is damaged, the good records before the damage are
    written, and the exit code is 2.

    \b
    downconvert convert 00000000000000000000.log old.log --to-magic 1
    downconvert convert in.log - --to-magic 0 --policy recode=zstd:none | wc -c
    """
    name_the_backend()
    started = perf_counter()
    with FileRecords.open(source) as log, _written_to(target, source, force) as file:
        pieces = converted(log, to_magic, first_offset, parse_policy(policy))
        damage: RecordsError | None = None
        try:
            with progress() as step:
                for piece in pieces:
                    file.write(piece)
                    step("convert", pieces.stats.bytes_in, log.size)
        except RecordsError as error:
            if not pieces.stats.bytes_out:  # OUT is not created if there is nothing to write
                raise CommandError(f"{source}: {error}{advice(error)}") from None
            damage = error
        stats = pieces.stats
        torn = log.size - stats.bytes_in if damage is None else 0
        summary = {
            "bytes_in": stats.bytes_in,
            "bytes_out": stats.bytes_out,
            "records_converted": stats.records_converted,
            "batches_converted": stats.batches_converted,
            "torn_bytes": torn,
            "damage": str(damage) if damage else None,
        }
    if as_json and target != _STANDARD_OUTPUT:
        click.echo(json.dumps(summary))
    done = f"{stats.records_converted:,} records converted, {format_size(stats.bytes_out)}"
    if damage is not None:
        raise CommandError(
            f"{source}: {damage}{advice(damage)}; {done} from before it are in {target}"
        )
    if torn:
        raise CommandError(
            f"{source}: torn: the last {torn} bytes, from byte {stats.bytes_in} on, are not "
            f"a whole batch; {done} from before it are in {target}"
        )
    seconds = format_seconds(perf_counter() - started)
    click.echo(f"{target}: {done} from {format_size(log.size)}, in {seconds}", err=True)


@contextmanager
def _written_to(target: Path, source: Path, force: bool) -> Iterator[BinaryIO]:
    """A file that gets its name only when it is complete, or standard output for "-"."""
    if target == _STANDARD_OUTPUT:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    if target.exists() and target.samefile(source):
        raise CommandError(f"{target}: is the input: write to another file")
    try:
        check_replaceable(target)
        if target.exists() and not force:
            raise CommandError(f"{target}: exists already: use --force to write over it")
        with whole_file(target) as file:
            yield file
            if target.exists() and not force:
                raise CommandError(f"{target}: was created by another program meanwhile")
    except FileExistsError as error:
        raise CommandError(
            f"{error.filename}: {error.strerror}; name another file, or - for standard output"
        ) from None
