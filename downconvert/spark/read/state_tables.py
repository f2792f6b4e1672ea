"""The brokers' internal topics as tables: the state after all of their records.

As in a coordinator that loads them, the last value of each key is valid, and a tombstone removes
the key. The planner assigns each partition to one task. Aborted and open transactions are left out.
A task holds the last record of each key, and decodes only these. So it does not notice damage in a
value that was replaced.

Not here: the format of the records (internal_topics), their columns (schemas.py)."""

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any, Final, NamedTuple
from uuid import UUID

import pyarrow as pa

from downconvert.internal_topics import group_records, transaction_records
from downconvert.internal_topics.cursor import UnreadableRecordError
from downconvert.internal_topics.group_records import GROUP_NAME, NO_EPOCH, RecordKey, StoredMember
from downconvert.internal_topics.transaction import NO_ID
from downconvert.spark.errors import CorruptStateError
from downconvert.spark.logs.splits import Split
from downconvert.spark.options.options import Level, Mode, Options
from downconvert.spark.plan.bounds import EVERYTHING
from downconvert.spark.plan.gather import DATETIME_MAX, MICROSECONDS, ROWS_MAX
from downconvert.storage.checkpoints.metadata import topic_id_text

from .rows import read_records

COLUMNS: Final = pa.schema([("key", pa.binary()), ("value", pa.binary()), ("offset", pa.int64())])
GROUP: Final = "Group"  # suffix of a record's name, after the group's type

Row = dict[str, Any]


class Last(NamedTuple):
    """The last record of a key."""

    partition: int
    offset: int
    path: str
    value: bytes


class StateTable:
    """Reads splits, all those of a partition one after the other, and then makes the rows."""

    def __init__(self, options: Options, schema: Any) -> None:
        """`schema`: the wanted columns, in Arrow."""
        self._options = options
        self._schema = schema
        self._read_key, self._rows_of = LEVELS[options.level]
        self._last: dict[Any, Last] = {}
        self._columns = COLUMNS
        if options.mode is Mode.PERMISSIVE and options.corrupt_column in schema.names:
            self._columns = COLUMNS.append(schema.field(options.corrupt_column))

    def read(self, split: Split) -> Iterator[Any]:
        """Adds the records of a split. With mode PERMISSIVE it yields a record batch for damage.
        With FAILFAST it raises CorruptSegmentError or CorruptStateError."""
        path = split.segment.path
        for batch in read_records(split, self._options, EVERYTHING, self._columns):
            if self._reports and not batch.column(len(COLUMNS)).null_count:
                report = batch.column(len(COLUMNS))[0].as_py()
                yield self._report(split.partition, None, report)
                continue
            yield from self.take(batch, split.partition, path)

    def take(self, batch: Any, partition: int, path: str) -> Iterator[Any]:
        """Adds the records of a record batch with COLUMNS. Yields as `read` does."""
        columns = (batch.column(name).to_pylist() for name in COLUMNS.names)
        for data, value, offset in zip(*columns, strict=True):
            try:
                key = self._read_key(data or b"")
            except UnreadableRecordError as error:
                yield from self._damaged(partition, offset, path, error)
                continue
            if key is None:
                continue
            if value is None:
                self._last.pop(key, None)
            else:
                self._last[key] = Last(partition, offset, path, value)

    def rows(self) -> Iterator[Any]:
        """Record batches of the final state. Errors as those of `read`."""
        rows = self._rows_of(self._last)
        while some := list(islice(rows, ROWS_MAX)):
            good = [row for _, row in some if not isinstance(row, UnreadableRecordError)]
            if good:
                yield self._batch(good)
            for last, row in some:
                if isinstance(row, UnreadableRecordError):
                    yield from self._damaged(last.partition, last.offset, last.path, row)

    def _damaged(self, partition: int, offset: int, path: str, error: Exception) -> Iterator[Any]:
        reason = f"the record at offset {offset}: {error}"
        if self._options.mode is Mode.FAILFAST:
            raise CorruptStateError(path, reason)
        if self._reports:
            report = {"segment": path, "position": None, "reason": reason, "state": "damaged"}
            yield self._report(partition, offset, report)

    @property
    def _reports(self) -> bool:
        return len(self._columns) > len(COLUMNS)

    def _report(self, partition: int, offset: int | None, report: Row) -> Any:
        place = {"recordPartition": partition, "recordOffset": offset}
        return self._batch([place | {self._options.corrupt_column: report}])

    def _batch(self, rows: list[Row]) -> Any:
        return pa.RecordBatch.from_pylist(rows, schema=self._schema)


# --- each level: its keys and rows

Decoded = tuple[Last, Row | UnreadableRecordError]


def _each(decode: Callable[[Any, bytes], Row]) -> Callable[[dict[Any, Last]], Iterator[Decoded]]:
    """A row for each key."""

    def rows(found: dict[Any, Last]) -> Iterator[Decoded]:
        for key, last in found.items():
            try:
                yield last, decode(key, last.value) | _place(last)
            except UnreadableRecordError as error:
                yield last, error

    return rows


def _offset_key(data: bytes) -> RecordKey | None:
    key = group_records.read_key(data)
    return None if key is None or key.partition is None else key


def _offset(key: RecordKey, value: bytes) -> Row:
    assert key.partition is not None
    found = group_records.read_committed(value)
    return {
        "group": key.group_id,
        "topic": key.partition[0],
        "partition": key.partition[1],
        "offset": found.offset,
        "leaderEpoch": _known(found.leader_epoch, NO_EPOCH),
        "metadata": found.metadata,
        "commitTimestamp": _time(found.commit_time),
        "expireTimestamp": _time(found.expire_time),
        "topicId": _id_text(found.topic_id),
    }


def _groups(found: dict[Any, Last]) -> Iterator[Decoded]:
    """A row for each group of any protocol. Only those of the classic protocol are decoded."""
    names: dict[str, list[str]] = {}
    for group_id, name in found:
        names.setdefault(group_id, []).append(name)
    for group_id, there in names.items():
        is_classic = GROUP_NAME in there
        last = found[group_id, GROUP_NAME if is_classic else there[0]]
        row: Row = {"group": group_id, "records": sorted(there)}
        row["type"] = "classic" if is_classic else there[0].partition(GROUP)[0].lower()
        try:
            yield last, row | (_classic(last.value) if is_classic else {}) | _place(last)
        except UnreadableRecordError as error:
            yield last, error


def _classic(value: bytes) -> Row:
    found = group_records.read_group(value)
    return {
        "protocolType": found.protocol_type,
        "protocol": found.protocol,
        "generation": found.generation,
        "leader": found.leader,
        "stateTimestamp": _time(found.time),
        "members": [_member(member) for member in found.members],
    }


def _member(member: StoredMember) -> Row:
    return {
        "memberId": member.id,
        "groupInstanceId": member.instance_id,
        "clientId": member.client_id,
        "clientHost": member.client_host,
        "sessionTimeoutMs": member.session_timeout_ms,
        "rebalanceTimeoutMs": member.rebalance_timeout_ms,
        "subscription": member.subscription,
        "assignment": member.assignment,
    }


def _transaction(transactional_id: str, value: bytes) -> Row:
    found = transaction_records.read_value(transactional_id, value)
    return {
        "transactionalId": transactional_id,
        "producerId": found.producer_id,
        "producerEpoch": found.epoch,
        "previousProducerId": _known(found.previous_producer_id, NO_ID),
        "nextProducerId": _known(found.next_producer_id, NO_ID),
        "timeoutMs": found.timeout_ms,
        "state": found.state.title,
        "partitions": [
            {"topic": topic, "partition": partition}
            for topic, partition in sorted(found.partitions)
        ],
        "startTimestamp": _time(found.start_time),
        "updateTimestamp": _time(found.update_time),
    }


LEVELS: Final[
    dict[
        Level,
        tuple[Callable[[bytes], Any], Callable[[dict[Any, Last]], Iterator[Decoded]]],
    ]
] = {
    "offset": (_offset_key, _each(_offset)),
    "group": (group_records.read_group_key, _groups),
    "transaction": (transaction_records.read_key, _each(_transaction)),
}


def _place(last: Last) -> Row:
    return {"recordPartition": last.partition, "recordOffset": last.offset}


def _known(value: int, unknown: int) -> int | None:
    return None if value == unknown else value


def _time(milliseconds: int) -> int | None:
    """A time in microseconds; None: there is none, or Python's datetime does not reach that far."""
    if milliseconds < 0 or milliseconds > DATETIME_MAX:
        return None
    return milliseconds * MICROSECONDS


def _id_text(topic_id: bytes) -> str | None:
    return None if topic_id == group_records.NO_ID else topic_id_text(UUID(bytes=topic_id))
