"""The batches of a generated log, and its transactions.

Not here: copies of the log and their damage (tree_model.py), its changes (tree_history.py)."""

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final, NamedTuple

from downconvert.storage.indexes.transaction_index import (
    ENTRY,
    VERSION,
    AbortedTransaction,
    read_transactions,
)
from downconvert.storage.names import OFFSET_MAX, Kind, file_name
from records import Codec
from records.batches.builder import build, build_marker
from records.batches.control import ControlRecordType
from records.formats import V0, V2, TimestampType
from records.record import Record

DAY: Final = 86_400_000
KEYS: Final = 6
PRODUCERS: Final = (1, 2)
NO_PRODUCER: Final = -1


@dataclass(frozen=True)
class Batch:
    """A batch of records by offset, up to `last`. Without records it is a control batch, which ends
    the transaction of its producer. Records with a producer belong to a transaction."""

    base: int
    last: int
    epoch: int
    records: tuple[tuple[int, bytes | None, bytes | None], ...]  # offset, key, value
    producer: int = NO_PRODUCER
    aborts: bool = False
    magic: int = V2
    codec: Codec = Codec.NONE
    spread: int = 0  # the largest deviation of timestamps from an even clock; 0: all are the same
    era: int = DAY  # the timestamp of offset 0
    is_appended: bool = False  # has log append time
    has_headers: bool = False

    @property
    def kind(self) -> TimestampType:
        if self.magic == V0:
            return TimestampType.NONE
        return TimestampType.LOG_APPEND if self.is_appended else TimestampType.CREATE

    def time(self, offset: int) -> int:
        """The timestamp of a record, in milliseconds."""
        if self.magic == V0:
            return -1
        if self.is_appended:
            return self.era + (10 * self.last if self.spread else 0)
        return self.era + (10 * offset + offset * 7919 % self.spread if self.spread else 0)

    def headers(self, offset: int) -> tuple[tuple[str, bytes | None], ...]:
        """The headers of a record."""
        if not self.has_headers or self.magic != V2 or offset % 3 == 0:
            return ()
        return (("h", None), ("é", f"of {offset}".encode()), ("h", b""))[: offset % 3 + 1]

    @cached_property
    def data(self) -> bytes:
        if not self.records and self.base == self.last:
            return build_marker(
                ControlRecordType.ABORT if self.aborts else ControlRecordType.COMMIT,
                offset=self.base,
                timestamp=self.time(self.base),
                producer_id=self.producer,
                leader_epoch=self.epoch,
            )
        found = [
            Record(at, self.time(at), self.kind, key, value, self.headers(at))
            for at, key, value in self.records
        ]
        if self.magic != V2:
            return build(found, magic=self.magic, codec=self.codec, timestamp_type=self.kind)
        is_transactional = self.producer != NO_PRODUCER
        return build(
            found,
            magic=V2,
            codec=self.codec,
            timestamp_type=self.kind,
            base_offset=self.base,
            last_offset=self.last,
            leader_epoch=self.epoch,
            producer_id=self.producer,
            producer_epoch=0 if is_transactional else -1,
            base_sequence=self.base % 2**31 if is_transactional else -1,
            transactional=is_transactional,
        )


def appended(
    chance: random.Random,
    before: Sequence[Batch],
    start: int,
    epoch: int,
    count: int,
    *,
    transactional: float = 0.0,
    topic: int = 0,
) -> list[Batch]:
    """Batches that a leader appends at `start`. `transactional`: the share of batches that belong
    to transactions. `topic`: the number of times that the topic was created anew. Values contain
    it."""
    found: list[Batch] = []
    for _ in range(count):
        size = chance.randrange(1, 5)
        opened = sorted(transactions((*before, *found)).open)
        if chance.random() < (0.25 if opened else 0.1):
            producer = chance.choice(opened) if opened else PRODUCERS[0]
            aborts = bool(opened) and chance.random() < 0.5
            found.append(Batch(start, start, epoch, (), producer, aborts))
            start += 1
            continue
        is_transactional = transactional and chance.random() < transactional
        records = tuple(
            (at, f"k{chance.randrange(KEYS)}".encode(), f"{topic}/{epoch}/{at}".encode())
            for at in range(start, start + size)
        )
        producer = chance.choice(PRODUCERS) if is_transactional else NO_PRODUCER
        found.append(Batch(start, start + size - 1, epoch, records, producer))
        start += size
    return found


class Transactions(NamedTuple):
    """The transactions of a log. `aborted`: the aborted ones. `records`: the offsets of records of
    aborted ones. `open`: the first offsets of open ones, by producer. `spans`: for each
    transaction, the first and last offset, and the offsets of its records."""

    aborted: tuple[AbortedTransaction, ...]
    records: frozenset[int]
    open: dict[int, int]
    spans: tuple[tuple[int, int, frozenset[int]], ...]

    def stable(self, end: int) -> int:
        """The last stable offset of a log that ends at `end`."""
        return min([end, *self.open.values()])


def transactions(batches: Iterable[Batch]) -> Transactions:
    """Follows the transactions of a log."""
    open_: dict[int, int] = {}
    held: dict[int, set[int]] = {}
    aborted: list[AbortedTransaction] = []
    records: set[int] = set()
    spans: list[tuple[int, int, frozenset[int]]] = []
    for one in batches:
        if one.records:
            if one.producer != NO_PRODUCER:
                open_.setdefault(one.producer, one.base)
                held.setdefault(one.producer, set()).update(at for at, _, _ in one.records)
            continue
        start, own = open_.pop(one.producer, None), held.pop(one.producer, set())
        if start is not None:
            spans.append((start, one.last, frozenset(own)))
        if one.aborts and start is not None:
            stable = min([one.last + 1, *open_.values()])
            aborted.append(AbortedTransaction(one.producer, start, one.last, stable))
            records |= own
    spans += [(start, OFFSET_MAX, frozenset(held[who])) for who, start in open_.items()]
    return Transactions(tuple(aborted), frozenset(records), open_, tuple(spans))


def write_transaction_index(
    directory: Path, base: int, batches: Sequence[Batch], aborted: Iterable[AbortedTransaction]
) -> None:
    """Writes the transaction index of a segment, if the segment has abort markers."""
    markers = {one.base for one in batches if one.aborts}
    entries = [one for one in aborted if one.last_offset in markers]
    if entries:
        path = directory / file_name(base, Kind.TRANSACTION_INDEX)
        path.write_bytes(b"".join(ENTRY.pack(VERSION, *one) for one in entries))
        assert read_transactions(path, base) == entries
