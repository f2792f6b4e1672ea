"""`__transaction_state`: reading and writing what transactional ids are doing.

Not here: the format of the records (state_records.py), which of its partitions an id is in
(internal_topic.py)."""

import logging
from typing import Final

from downconvert.broker.config import BrokerConfig
from downconvert.broker.errors import BadRequestError, ErrorCode
from downconvert.broker.internal_topic import InternalTopic
from downconvert.broker.purgatory import Purgatory
from downconvert.broker.time_of_day import TimeOfDay
from downconvert.broker.topics import TRANSACTIONS_TOPIC, Topics
from downconvert.storage import Log, StorageError
from records import Record, RecordsError, read_batch

from .state_records import read_key, read_value, write_key, write_value
from .transaction import Transaction

LOG: Final = logging.getLogger(__name__)


class StateTopic(InternalTopic):
    """The topic in a broker's directory."""

    def __init__(
        self,
        config: BrokerConfig,
        topics: Topics,
        purgatory: Purgatory,
        time_of_day: TimeOfDay,
    ) -> None:
        count_told = config.transaction_state_log_num_partitions
        super().__init__(TRANSACTIONS_TOPIC, count_told, config, topics, purgatory, time_of_day)

    def read(self) -> dict[str, Transaction]:
        """What each transactional id was doing last. What cannot be read is left out, with a line
        in the log."""
        found: dict[str, Transaction] = {}
        for index, partition in self.partitions():
            try:
                _read(partition.log, found)
            except (RecordsError, StorageError, OSError) as error:
                LOG.warning("%s-%d is read up to its damage: %s", TRANSACTIONS_TOPIC, index, error)
        return found

    def coordinator_epoch(self, transactional_id: str) -> int:
        """The leader epoch of the id's partition, which is in markers."""
        partition = dict(self.partitions()).get(self.partition_of(transactional_id))
        return 0 if partition is None else partition.leader_epoch

    def store(self, one: Transaction, now: float) -> ErrorCode:
        """Appends it; returns COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR or UNKNOWN_SERVER_ERROR
        where it cannot be. `now` in seconds."""
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


def _read(log: Log, found: dict[str, Transaction]) -> None:
    for source, header in log.batches():
        if header.is_control:
            continue
        for record in read_batch(source, header):
            try:
                _take(record, found)
            except BadRequestError as error:
                said = "%s: the record at %d is damaged: %s"
                LOG.warning(said, TRANSACTIONS_TOPIC, record.offset, error)


def _take(record: Record, found: dict[str, Transaction]) -> None:
    transactional_id = read_key(record.key or b"")
    if transactional_id is None:
        return
    if record.value is None:
        found.pop(transactional_id, None)
    else:
        found[transactional_id] = read_value(transactional_id, record.value)
