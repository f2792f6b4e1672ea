"""`__consumer_offsets`: reading and writing the committed offsets of groups.

Not here: the partition of a group (internal_topic.py), the format of the records
(internal_topics/group_records.py), the resulting state (offsets.py)."""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from itertools import islice
from typing import Final, TypeAlias

from downconvert.broker.internal_topic import InternalTopic
from downconvert.broker.topics import OFFSETS_TOPIC
from downconvert.internal_topics.group_records import RecordKey, write_key
from downconvert.protocol.errors import ErrorCode
from downconvert.storage import Log
from downconvert.storage.producers.producer_state import read_marker
from downconvert.storage.producers.runs import runs
from records import BatchHeader, Record, read
from records.batches.control import ControlRecordType
from records.logged import log_of

# Takes a partition's index, a record in it, and the producer id of the record's transaction.
TakeRecord: TypeAlias = Callable[[int, Record, int | None], None]
# Takes a partition's index, a producer's id, and whether the transaction is committed.
TakeEnd: TypeAlias = Callable[[int, int, bool], None]

LOG: Final = log_of(__name__)
TOMBSTONES_MAX: Final = 1000  # in a batch, so that it stays far below the size limit


class OffsetsTopic(InternalTopic):
    """The topic in a broker's directory. Some or all partitions may be missing."""

    name = OFFSETS_TOPIC
    log = LOG
    count_setting = "offsets_topic_num_partitions"

    # --- reading

    def read(self, take: TakeRecord, end: TakeEnd) -> None:
        """Reads all records and ends of transactions, partition by partition, as `read_each`
        does."""
        self.read_each(lambda index, log: _read(index, log, take, end))

    # --- writing

    def write_tombstones(
        self, keys: Iterable[RecordKey], now: float, strays: Mapping[str, Collection[int]]
    ) -> ErrorCode:
        """Writes tombstones, in order for each group. Returns the first error, after the tombstones
        of all other partitions have been written. `strays`: by group, other partitions with its
        records."""
        by_partition: defaultdict[int, list[RecordKey]] = defaultdict(list)
        for key in keys:
            for index in (self.partition_of(key.group_id), *strays.get(key.group_id, ())):
                by_partition[index].append(key)
        first_code = ErrorCode.NONE
        for index, of_partition in by_partition.items():
            rest = iter(of_partition)
            while some := [(write_key(key), None) for key in islice(rest, TOMBSTONES_MAX)]:
                code, _ = self.append_to(index, some, now)
                first_code = first_code or code
                if code:
                    break
        return first_code


def _read(index: int, log: Log, take: TakeRecord, end: TakeEnd) -> None:
    for run in runs(log.batches(), _kind):
        header = run.first
        if header.is_control:
            marker = read_marker(run.source, header)
            if marker is not None:
                end(index, header.producer_id, marker.type is ControlRecordType.COMMIT)
            continue
        producer_id = header.producer_id if header.is_transactional else None
        for record in read(run.records):
            take(index, record, producer_id)


def _kind(header: BatchHeader) -> tuple[int, int]:
    """Successive batches of the same kind are read together: those of one transaction, or of none.
    Control batches are read one by one."""
    if header.is_control:
        return header.base_offset, header.producer_id
    return -1, header.producer_id if header.is_transactional else -1
