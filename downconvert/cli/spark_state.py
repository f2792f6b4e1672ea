"""`downconvert spark offsets`, `groups` and `transactions`: the brokers' own topics, decoded.

Not here: computing the state from records (downconvert/spark/read/state_tables.py)."""

import base64
import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import click

from records.units import format_count

from .grid import grid, print_table
from .spark_job import Job, on_spark

if TYPE_CHECKING:
    from downconvert.spark.options.options import Level

LIMIT: Final = 10_000  # rows
Row = dict[str, Any]
Columns = dict[str, Callable[[Row], str]]


def _of_state(command: Callable[..., None]) -> Callable[..., None]:
    """Adds the common options of the three commands."""
    options: tuple[Callable[..., Any], ...] = (
        click.argument("paths", metavar="DIR...", nargs=-1, required=True),
        click.option("--skip-damaged", is_flag=True, help="Leave out damaged batches."),
        click.option(
            "--limit", type=click.IntRange(1), default=LIMIT, help="Print at most this many."
        ),
    )
    made: Any = on_spark(command)
    for option in reversed(options):
        made = option(made)
    return made  # type: ignore[no-any-return]


@click.command()
@_of_state
@click.option("--group", "groups", multiple=True, help="Print only this group (repeatable).")
def offsets(groups: tuple[str, ...], **options: Any) -> None:
    """Print the committed offsets of groups, from __consumer_offsets in the DIRs.

    Offsets in transactions count once the transaction is committed. Tombstones delete offsets. As a
    DataFrame: spark.read.format("kafka-segments").option("level", "offset").

    \b
    downconvert spark offsets /var/kafka
    downconvert spark offsets --group billing --json /backup/broker-*
    """
    columns: Columns = {
        "group": lambda row: row["group"],
        "partition": lambda row: f"{row['topic']}-{row['partition']}",
        "offset": lambda row: f"{row['offset']:,}",
        "committed": lambda row: _shown(row["commitTimestamp"]),
        "expires": lambda row: _shown(row["expireTimestamp"]),
        "metadata": lambda row: row["metadata"],
    }
    _print("offset", "offset", columns, ("group", "topic", "partition"), groups, **options)


@click.command()
@_of_state
@click.option("--group", "groups", multiple=True, help="Print only this group (repeatable).")
def groups(groups: tuple[str, ...], **options: Any) -> None:
    """Print the groups in __consumer_offsets of the DIRs: protocol, generation and members at their
    last rebalance. For groups of later protocols than the classic one (KIP-848, share and streams
    groups) only names and types are printed.

    \b
    downconvert spark groups /var/kafka
    downconvert spark groups --group billing --json /backup/broker-*
    """
    columns: Columns = {
        "group": lambda row: row["group"],
        "type": lambda row: row["type"],
        "protocol": lambda row: row["protocol"] or "",
        "generation": lambda row: _number(row["generation"]),
        "since": lambda row: _shown(row["stateTimestamp"]),
        "members": lambda row: ", ".join(m["memberId"] for m in row["members"] or ()),
    }
    _print("group", "group", columns, ("group",), groups, **options)


@click.command()
@_of_state
@click.option("--id", "ids", multiple=True, help="Print only this transactional id (repeatable).")
def transactions(ids: tuple[str, ...], **options: Any) -> None:
    """Print the last state of transactional ids, from __transaction_state in the DIRs.

    \b
    downconvert spark transactions /var/kafka
    downconvert spark transactions --id payments-1 --json /backup/broker-*
    """
    columns: Columns = {
        "transactional id": lambda row: row["transactionalId"],
        "producer": lambda row: f"{row['producerId']} epoch {row['producerEpoch']}",
        "state": lambda row: row["state"],
        "started": lambda row: _shown(row["startTimestamp"]),
        "updated": lambda row: _shown(row["updateTimestamp"]),
        "partitions": lambda row: ", ".join(
            f"{one['topic']}-{one['partition']}" for one in row["partitions"]
        ),
    }
    _print("transaction", "transactional id", columns, ("transactionalId",), ids, **options)


def _print(
    level: "Level",
    what: str,
    columns: Columns,
    order: tuple[str, ...],
    names: tuple[str, ...],
    *,
    paths: tuple[str, ...],
    skip_damaged: bool,
    limit: int,
    job: Job,
) -> None:
    with job.session(level, paths) as (session, step):
        from downconvert.spark.jobs.state import run

        found, is_all = run(
            session,
            paths,
            level,
            order=order,
            names=names,
            skip_damaged=skip_damaged,
            limit=limit,
            step=step,
        )
    if job.as_json:
        for row in found:
            click.echo(json.dumps(_plain(row)))
    else:
        if found:
            table = grid(*columns)
            for row in found:
                table.add_row(*(show(row) for show in columns.values()))
            print_table(table)
        click.echo(format_count(len(found), what))
    if not is_all:
        click.echo(f"downconvert: there are more than {limit:,}: raise --limit", err=True)


def _shown(time: datetime | None) -> str:
    return "" if time is None else f"{time.astimezone(UTC):%Y-%m-%d %H:%M:%S}"


def _number(value: int | None) -> str:
    return "" if value is None else str(value)


def _plain(value: Any) -> Any:
    """A value for JSON: times as ISO 8601 in UTC, bytes in Base64."""
    match value:
        case dict():
            return {name: _plain(one) for name, one in value.items()}
        case list():
            return [_plain(one) for one in value]
        case datetime():
            return value.astimezone(UTC).isoformat()
        case bytes() | bytearray():
            return base64.b64encode(value).decode()
        case _:
            return value
