"""Gives the records of generated trees headers, nulls, log append time and timestamps of any size.
Compares all columns of records and of batches, and some of them in any order, with the model.

Not here: checking that all records are read (trees.py, tree_reads.py)."""

import random
from dataclasses import replace
from typing import Any, Final

from downconvert.spark.plan.gather import DATETIME_MAX, TIMESTAMP_MAX
from records import BatchHeader
from records.formats import V2
from tests.downconvert.spark.reading import rows

from .tree_log import DAY, Batch
from .tree_model import NAME, WRONG_EPOCH, Tree
from .tree_shapes import replace_batches

ERAS: Final = (-(10**13), -1, 0, DAY, DATETIME_MAX, TIMESTAMP_MAX, 2**63 - 2**50)
COLUMNS: Final = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType")


def dress(tree: Tree) -> None:
    """Gives records the fields that earlier seeds lack. Keys of cleaned logs do not change, because
    a cleaner has compared them."""
    chance = random.Random(f"dress {tree.seed}")
    eras = [DAY] * 7
    if chance.random() < 0.4:
        eras = chance.choices(ERAS, k=7) if chance.random() < 0.5 else [chance.choice(ERAS)] * 7
    is_appended, has_headers = chance.random() < 0.2, chance.random() < 0.5
    are_cleaned = any(copy.cleaned for copy in (*tree.copies, *tree.lost))
    nulls = 0.0 if are_cleaned or chance.random() < 0.5 else 0.2
    bare = {at for one in tree.log for at, _, _ in one.records if chance.random() < nulls}
    empty = {at for one in tree.log for at, _, _ in one.records if chance.random() < nulls}

    def dressed(one: Batch) -> Batch:
        records = tuple(
            (at, None if at in bare else key, None if at in empty else value)
            for at, key, value in one.records
        )
        era = eras[one.base % 7]
        return replace(
            one, records=records, era=era, is_appended=is_appended, has_headers=has_headers
        )

    replace_batches(tree, dressed)


def all_columns(tree: Tree, place: str, found: list[int]) -> str | None:
    """Returns the first difference; None: there is none. `found`: the offsets that are read."""
    chance = random.Random(f"columns {tree.seed}")
    truth = {
        at: _row(one, number) for one in tree.log for number, (at, _, _) in enumerate(one.records)
    }
    read = rows(place, mode="PERMISSIVE", includeHeaders=True)
    got = [row for row in read if row.pop("_corrupt") is None]
    for row in got:
        if row != truth[row["offset"]]:
            return f"{row} is read, and not {truth[row['offset']]}"
    names = chance.sample([*COLUMNS, "headers"], chance.randrange(1, 8))
    some = rows(place, mode="DROPMALFORMED", columns=",".join(names), includeHeaders=True)
    if some != [{name: row[name] for name in names} for row in got]:
        return f"the columns {names} are not those of all columns"
    if [row["offset"] for row in got] != found:
        return f"with headers {got} are read, and not {found}"
    return _batches(tree, place)


def _row(one: Batch, number: int) -> dict[str, Any]:
    """The row of a record."""
    at, key, value = one.records[number]
    topic, partition = NAME.split("-")
    time = one.time(at)
    headers = [{"key": name, "value": header} for name, header in one.headers(at)]
    return {
        "key": key,
        "value": value,
        "topic": topic,
        "partition": int(partition),
        "offset": at,
        "timestamp": 1000 * time if abs(time) <= TIMESTAMP_MAX else None,
        "timestampType": int(one.kind),
        "headers": headers or None,
    }


def _batches(tree: Tree, place: str) -> str | None:
    """Checks that batches belong to the log, and their columns. In copies that a cleaner has
    cleaned, these differ."""
    truth, own = tree.truth, set(tree.log)
    heads = {
        _head(header._replace(leader_epoch=epoch), one)
        for copy in tree.copies
        for piece in copy.pieces
        for number, one in enumerate(piece.batches)
        if one.magic == V2
        if one in own or (one.records and all(truth.get(at) == has for at, _, has in one.records))
        for header in [BatchHeader.parse(one.data, 0, 0)]
        for epoch in [WRONG_EPOCH if piece.broken.get(number) == "epoch" else one.epoch]
    }
    for row in rows(place, level="batch", mode="PERMISSIVE"):
        if row["_corrupt"] is None and row["magic"] == V2 and _seen(row) not in heads:
            return f"no batch is like {row}"
    return None


def _head(header: BatchHeader, one: Batch) -> tuple[Any, ...]:
    latest = max((one.time(at) for at, _, _ in one.records), default=one.time(one.base))
    return (
        header.base_offset,
        header.last_offset,
        header.size,
        header.codec.name.lower(),
        int(header.timestamp_type),
        1000 * latest if abs(latest) <= TIMESTAMP_MAX and latest != -1 else None,
        header.records_count,
        None if header.leader_epoch < 0 else header.leader_epoch,
        None if header.producer_id < 0 else header.producer_id,
        header.is_transactional,
        header.is_control,
        header.crc,
    )


def _seen(row: dict[str, Any]) -> tuple[Any, ...]:
    return (
        row["baseOffset"],
        row["lastOffset"],
        row["sizeInBytes"],
        row["codec"],
        row["timestampType"],
        row["maxTimestamp"],
        row["recordsCount"],
        row["leaderEpoch"],
        row["producerId"],
        row["isTransactional"],
        row["isControl"],
        row["crc"],
    )
