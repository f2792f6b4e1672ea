"""`__consumer_offsets`: which of its partitions a group's records are in, reading and writing them.

Not here: the format of the records (offset_records.py), what they add up to (offsets.py)."""

import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import Final, TypeAlias

from downconvert.broker.appending import prepare
from downconvert.broker.config import BrokerConfig
from downconvert.broker.errors import ApiError, ErrorCode
from downconvert.broker.partition import Partition
from downconvert.broker.purgatory import Purgatory
from downconvert.broker.time_of_day import TimeOfDay
from downconvert.broker.topic_configs import AppendConfig
from downconvert.broker.topics import OFFSETS_TOPIC, Topic, Topics
from downconvert.storage import Log, StorageError
from downconvert.storage.producer_state import read_marker
from downconvert.storage.runs import runs
from records import BatchHeader, Columns, Record, RecordsError, build, read
from records.control import ControlRecordType
from records.formats import V2

from .offset_records import Key, write_key

# A partition's index, a record of it, and in whose transaction it was written.
TakeRecord: TypeAlias = Callable[[int, Record, int | None], None]
# A partition's index, a producer's id, and whether its transaction is committed.
TakeEnd: TypeAlias = Callable[[int, int, bool], None]

LOG: Final = logging.getLogger(__name__)
CONFIG: Final = {"cleanup.policy": "compact", "segment.bytes": str(100 * 1024 * 1024)}
HASH_BITS: Final = 31  # of Java's String.hashCode, without its sign
KAFKA_COUNT: Final = 50  # offsets.topic.num.partitions, where nothing is configured
NEW_COUNT: Final = 1  # of a topic that is made here: one broker has no use for more
TOMBSTONES_MAX: Final = 1000  # in a batch, which stays far below what a message may be


class OffsetsTopic:
    """The topic in a broker's directory, of which some or all partitions may be missing."""

    def __init__(
        self,
        config: BrokerConfig,
        topics: Topics,
        purgatory: Purgatory,
        time_of_day: TimeOfDay,
    ) -> None:
        self._time_of_day = time_of_day
        self._config = config
        self._topics = topics
        self._purgatory = purgatory

    # --- which partitions

    @property
    def count(self) -> int:
        """How many partitions the topic has, here and elsewhere.

        As configured; otherwise those that are here, if none is missing between them. With gaps,
        it is the disk of one broker of several, and the highest that is here need not be the
        last: the default of Kafka counts, if it is more."""
        topic = self._topics.get(OFFSETS_TOPIC)
        here = () if topic is None else topic.partitions.keys()
        least = max(here, default=-1) + 1
        told = self._config.offsets_topic_num_partitions
        if told is not None:
            return max(told, least)
        if not here:
            return NEW_COUNT
        return least if len(here) == least else max(KAFKA_COUNT, least)

    @property
    def missing(self) -> list[int]:
        """Partitions that the topic must have, and that are not here; none where it is not."""
        topic = self._topics.get(OFFSETS_TOPIC)
        if topic is None:
            return []
        return [index for index in range(self.count) if index not in topic.partitions]

    def partition_of(self, group_id: str) -> int:
        return partition_of(group_id, self.count)

    def is_led_elsewhere(self, group_id: str) -> bool:
        """Whether the group's partition is here, and led by another broker, or by none."""
        topic = self._topics.get(OFFSETS_TOPIC)
        led_elsewhere = {
            index
            for index, partition in (() if topic is None else list(topic.partitions.items()))
            if partition.leader != partition.node_id
        }
        # Ids may be long and many, so that they are hashed only where it makes a difference.
        return bool(led_elsewhere) and self.partition_of(group_id) in led_elsewhere

    # --- reading

    def read(self, take: TakeRecord, end: TakeEnd) -> None:
        """All records and ends of transactions, partition by partition. What cannot be read is left
        out, with a line in the log."""
        topic = self._topics.get(OFFSETS_TOPIC)
        for index in sorted(topic.partitions) if topic is not None else ():
            try:
                _read(index, topic.partitions[index].log, take, end)  # type: ignore[union-attr]
            except (RecordsError, StorageError, OSError) as error:
                LOG.warning("%s-%d is read up to its damage: %s", OFFSETS_TOPIC, index, error)

    # --- writing

    def append(
        self, group_id: str, records: Sequence[tuple[Key, bytes | None]], now: float
    ) -> tuple[ErrorCode, int]:
        """Appends one batch. Returns an error, or NONE and the offset of the first record. `now` in
        seconds."""
        return self._append(self.partition_of(group_id), records, now)

    def bury(self, keys: Iterable[Key], now: float) -> ErrorCode:
        """Writes tombstones, in their order for each group. Returns the first error; the other
        partitions' tombstones are written all the same."""
        by_partition: defaultdict[int, list[Key]] = defaultdict(list)
        for key in keys:
            by_partition[self.partition_of(key.group_id)].append(key)
        first_code = ErrorCode.NONE
        for index, buried in by_partition.items():
            rest = iter(buried)
            while some := [(key, None) for key in islice(rest, TOMBSTONES_MAX)]:
                code, _ = self._append(index, some, now)
                first_code = first_code or code
                if code:
                    break
        return first_code

    def _append(
        self, index: int, records: Sequence[tuple[Key, bytes | None]], now: float
    ) -> tuple[ErrorCode, int]:
        time = self._time_of_day.ms(now)
        try:
            topic, partition = self._partition(index, time)
            count = len(records)
            keys = [write_key(key) for key, _ in records]
            values = [value for _, value in records]
            columns = Columns(range(count), [time] * count, keys, values)
            config = AppendConfig.of(topic.config, self._config)
            prepared = prepare(memoryview(build(columns, magic=V2)), config, time)
            assert prepared is not None
            appended = partition.append(prepared, time)
        except ApiError as error:
            if error.code in (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.KAFKA_STORAGE_ERROR):
                return ErrorCode.NOT_COORDINATOR, -1
            return error.code, -1
        except (OSError, StorageError) as error:
            LOG.warning("%s-%d cannot be written: %s", OFFSETS_TOPIC, index, error)
            return ErrorCode.NOT_COORDINATOR, -1
        self._purgatory.notify(partition.key)
        return ErrorCode.NONE, appended.base_offset

    def _partition(self, index: int, time: int) -> tuple[Topic, Partition]:
        """The partition of a group, created if it is missing, together with all that are missing,
        so that their number is fixed from then on."""
        with self._topics.lock:
            topic = self._topics.get(OFFSETS_TOPIC)
            if topic is None:
                topic = self._topics.create(OFFSETS_TOPIC, self.count, CONFIG, time)
            if index not in topic.partitions:
                missing = self.missing
                # The highest first: whatever is left by a crash has gaps, or none is missing.
                self._topics.add_partitions(OFFSETS_TOPIC, reversed(missing))
                LOG.warning(
                    "%s: %d partitions were missing, and begin empty", OFFSETS_TOPIC, len(missing)
                )
            return topic, topic.partitions[index]


def partition_of(group_id: str, count: int) -> int:
    """The partition that a group's records are in: Java's hash of its id's UTF-16 code units."""
    encoded, hashed = group_id.encode("utf-16-be"), 0
    for high, low in zip(encoded[::2], encoded[1::2], strict=True):
        hashed = (31 * hashed + (high << 8 | low)) & 0xFFFFFFFF
    return hashed % (1 << HASH_BITS) % count


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
    """What batches have in common that are read as one: a transaction, or none. Control batches are
    read one by one."""
    if header.is_control:
        return header.base_offset, header.producer_id
    return -1, header.producer_id if header.is_transactional else -1
