"""Markers tell each partition of a transaction whether it was committed.

Not here: when they are due (coordinator.py), their effect on logs
(storage/producers/producer_state.py)."""

from collections.abc import Callable
from functools import partial
from typing import Final

from downconvert.broker.groups.coordinator import Groups
from downconvert.broker.partition import Partition
from downconvert.broker.purgatory import Purgatory
from downconvert.broker.topics import OFFSETS_TOPIC, Topics
from downconvert.internal_topics.transaction import Transaction
from downconvert.protocol.errors import ApiError
from downconvert.storage import StorageError, TopicPartition
from records import ControlRecordType
from records.logged import log_of

LOG: Final = log_of(__name__)


class Markers:
    """Writes markers to the partitions of one broker. The caller must hold no lock."""

    def __init__(self, topics: Topics, groups: Groups, purgatory: Purgatory) -> None:
        self._topics = topics
        self._groups = groups
        self._purgatory = purgatory

    def write(
        self, one: Transaction, coordinator_epoch: int, now: float, time: int
    ) -> dict[TopicPartition, Exception]:
        """Writes the markers of a prepared transaction. Returns the partitions that cannot take one
        now, each with the reason. Times as those of `Partition.append`.

        A second marker changes nothing, so after a crash all markers may be written again. A
        deleted partition needs no marker."""
        failed: dict[TopicPartition, Exception] = {}
        for name in sorted(one.partitions):
            partition = self._topics.partition(name.topic, name.partition)
            if partition is None:
                continue
            marker = one.marker, (one.producer_id, one.epoch), coordinator_epoch
            write = partial(partition.append_marker, *marker, now, time)
            try:
                self._write(partition, one, write)
            except (ApiError, OSError, StorageError) as error:
                failed[name] = error
            else:
                self._purgatory.notify(partition.key)
        return failed

    def _write(self, partition: Partition, one: Transaction, write: Callable[[], None]) -> None:
        if partition.name.topic != OFFSETS_TOPIC:
            write()
            return
        committed = one.marker is ControlRecordType.COMMIT
        index = partition.name.partition
        self._groups.end_transaction(index, one.producer_id, write, committed=committed)
