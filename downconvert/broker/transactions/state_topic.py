"""`__transaction_state`: reading and writing the states of transactional ids.

Not here: the format of the records (internal_topics/transaction_records.py), the partition of an
id (internal_topic.py)."""

from collections.abc import Iterator
from typing import Final

from downconvert.broker.internal_topic import InternalTopic
from downconvert.broker.topics import TRANSACTIONS_TOPIC
from downconvert.internal_topics.cursor import UnreadableRecordError
from downconvert.internal_topics.transaction import Transaction
from downconvert.internal_topics.transaction_records import (
    read_key,
    read_value,
    write_key,
    write_value,
)
from downconvert.protocol.errors import ErrorCode
from downconvert.storage import Log
from records import Record, read_batch
from records.logged import log_of

LOG: Final = log_of(__name__)


class StateTopic(InternalTopic):
    """The topic in a broker's directory."""

    name = TRANSACTIONS_TOPIC
    log = LOG
    count_setting = "transaction_state_log_num_partitions"

    def read(self) -> dict[str, Transaction]:
        """The last state of each transactional id, as `read_each`."""
        found: dict[str, Transaction] = {}
        own: set[str] = set()  # ids with a state in their own partition

        def take(index: int, log: Log) -> None:
            for record in _records(log):
                transactional_id = _key_of(record)
                if transactional_id is None:
                    continue
                if index == self.partition_of(transactional_id):
                    own.add(transactional_id)
                # An older state, from when the topic had fewer partitions.
                elif transactional_id in own:
                    continue
                _take(transactional_id, record, found)

        self.read_each(take)
        return found

    def coordinator_epoch(self, transactional_id: str) -> int:
        """The leader epoch of the id's partition, which markers contain."""
        partition = dict(self.partitions()).get(self.partition_of(transactional_id))
        return 0 if partition is None else partition.leader_epoch

    def store(self, one: Transaction, now: float) -> ErrorCode:
        """Appends a state. Returns COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR or
        UNKNOWN_SERVER_ERROR if that fails. `now` in seconds."""
        return self._append(one.transactional_id, write_value(one), now)

    def forget(self, transactional_id: str, now: float) -> ErrorCode:
        """Appends a tombstone. Errors as those of `store`."""
        return self._append(transactional_id, None, now)

    def _append(self, transactional_id: str, value: bytes | None, now: float) -> ErrorCode:
        index = self.partition_of(transactional_id)
        code, _ = self.append_to(index, [(write_key(transactional_id), value)], now)
        if code in (ErrorCode.NONE, ErrorCode.NOT_COORDINATOR):
            return code
        too_large = code in (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE)
        return ErrorCode.UNKNOWN_SERVER_ERROR if too_large else ErrorCode.COORDINATOR_NOT_AVAILABLE


def _records(log: Log) -> Iterator[Record]:
    for source, header in log.batches():
        if not header.is_control:
            yield from read_batch(source, header)


def _key_of(record: Record) -> str | None:
    try:
        return read_key(record.key or b"")
    except UnreadableRecordError as error:
        _log_damaged(record, error)
        return None


def _take(transactional_id: str, record: Record, found: dict[str, Transaction]) -> None:
    if record.value is None:
        found.pop(transactional_id, None)
        return
    try:
        found[transactional_id] = read_value(transactional_id, record.value)
    except UnreadableRecordError as error:
        _log_damaged(record, error)


def _log_damaged(record: Record, error: UnreadableRecordError) -> None:
    message = "%s: the record at %d is damaged: %s"
    LOG.warning(message, TRANSACTIONS_TOPIC, record.offset, error)
