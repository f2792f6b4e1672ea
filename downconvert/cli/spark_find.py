"""`downconvert spark find`: finds the places of records with certain keys.

Not here: the search (downconvert/spark/jobs/find.py)."""

import base64
import json
from typing import Any, Final

import click

from records.units import format_count

from .grid import grid, print_table
from .spark_job import Job, of_topics

LIMIT: Final = 10_000  # records


def _keys_in_hex(
    _context: click.Context, _option: click.Parameter, texts: tuple[str, ...]
) -> tuple[bytes, ...]:
    try:
        return tuple(bytes.fromhex(text) for text in texts)
    except ValueError as error:
        raise click.BadParameter(f"no hexadecimal digits: {error}") from None


@click.command()
@click.argument("paths", metavar="DIR...", nargs=-1, required=True)
@click.option("--key", "keys", multiple=True, help="A key, as UTF-8 (repeatable).")
@click.option(
    "--key-hex", "hex_keys", multiple=True, callback=_keys_in_hex, help="A key, in hexadecimal."
)
@click.option("--skip-damaged", is_flag=True, help="Leave out damaged batches, and continue.")
@click.option("--limit", type=click.IntRange(1), default=LIMIT, help="Stop after so many records.")
@of_topics
def find(
    paths: tuple[str, ...],
    keys: tuple[str, ...],
    hex_keys: tuple[bytes, ...],
    skip_damaged: bool,
    limit: int,
    job: Job,
) -> None:
    """Print the places of a key's records in the DIRs: topic, partition, offset, segment file, and
    the position of the batch in the file (as in `downconvert dump`).

    This helps with deletion requests, and before and after a compaction.

    \b
    downconvert spark find --key customer-17 /var/kafka
    downconvert spark find --key-hex 000000000000002a --topics orders --json /backup/broker-*
    """
    wanted = [key.encode() for key in keys] + list(hex_keys)
    if not wanted:
        raise click.UsageError("name a key: --key TEXT or --key-hex DIGITS")
    with job.session("find", paths) as (session, step):
        from downconvert.spark.jobs import find as finding

        frame = finding.find(session, paths, wanted, topics=job.topics, skip_damaged=skip_damaged)
        found, is_all = finding.run(frame, limit, step)
    if job.as_json:
        for row in found:
            click.echo(json.dumps(_as_json(row)))
    elif found:
        _print_found(found)
    if not job.as_json:
        click.echo(f"{format_count(len(found), 'record')} found")
    if not is_all:
        click.echo(f"downconvert: there are more than {limit:,}: raise --limit", err=True)


def _as_json(row: dict[str, Any]) -> dict[str, Any]:
    """Keys in Base64, because they may be any bytes, and as text if they are UTF-8."""
    key = bytes(row["key"])
    try:
        text = key.decode()
    except UnicodeDecodeError:
        text = None
    timestamp = row["timestamp"]
    return row | {
        "key": text,
        "keyBase64": base64.b64encode(key).decode(),
        "timestamp": timestamp.isoformat() if timestamp is not None else None,
    }


def _print_found(found: list[dict[str, Any]]) -> None:
    table = grid("partition", "offset", "byte", "key", "file")
    for row in found:
        table.add_row(
            f"{row['topic']}-{row['partition']}",
            f"{row['offset']:,}",
            "unknown" if row["position"] is None else f"{row['position']:,}",
            bytes(row["key"]).decode(errors="backslashreplace"),
            row["segment"],
        )
    print_table(table)
