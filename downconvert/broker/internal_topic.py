"""An internal topic, such as `__consumer_offsets`: finds the partition of a key, and reads and
writes records.

Not here: the meaning of the records (internal_topics)."""

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import ClassVar, Final

from downconvert.protocol.errors import NONE, ApiError, ErrorCode
from downconvert.serving.appending import prepare_own
from downconvert.storage import Log, StorageError
from records import RecordsError
from records.logged import EscapedLog, log_of
from records.units import MiB

from .config import BrokerConfig
from .partition import CheckBatch, Partition
from .purgatory import Purgatory
from .time_of_day import TimeOfDay
from .topics import Topic, Topics

LOG: Final = log_of(__name__)
CONFIG: Final = {"cleanup.policy": "compact", "segment.bytes": str(100 * MiB)}
HASH_BITS: Final = 31  # of Java's String.hashCode, without its sign
KAFKA_COUNT: Final = 50  # partitions of each such topic, by default
HASHES_MAX: Final = 1_000  # keys (groups, transactional ids) with a remembered hash
REMEMBERED_MAX: Final = 256  # characters of such a key
NEW_COUNT: Final = 1  # partitions of a topic created here: one broker needs no more


class InternalTopic:
    """The topic in a broker's directory. Some or all partitions may be missing.

    name: of the topic. log: of the subclass's module. count_setting: the BrokerConfig field with
    the topic's number of partitions in the cluster. If that is None, the partitions here are
    counted."""

    name: ClassVar[str]
    log: ClassVar[EscapedLog]
    count_setting: ClassVar[str]

    def __init__(
        self,
        config: BrokerConfig,
        topics: Topics,
        purgatory: Purgatory,
        time_of_day: TimeOfDay,
    ) -> None:
        self._count_told: int | None = getattr(config, self.count_setting)
        self._config = config
        self._topics = topics
        self._purgatory = purgatory
        self._time_of_day = time_of_day
        self._failing: set[int] = set()  # partitions that could not be written, already logged

    # --- which partitions

    @property
    def count(self) -> int:
        """The topic's number of partitions, here and on other brokers.

        It is the configured number, or else the number of partitions here. If some between them are
        missing, this is the disk of one of several brokers, and the highest index here need not be
        the last. Then the number is at least Kafka's default."""
        topic = self._topics.by_name.get(self.name)
        here = () if topic is None else topic.partitions.keys()
        least = max(here) + 1 if here else 0
        if self._count_told is not None:
            return max(self._count_told, least)
        if not here:
            return NEW_COUNT
        return least if len(here) == least else max(KAFKA_COUNT, least)

    @property
    def missing(self) -> list[int]:
        """The topic's partitions that are not here. Empty if there is no topic."""
        topic = self._topics.by_name.get(self.name)
        if topic is None:
            return []
        return [index for index in range(self.count) if index not in topic.partitions]

    def partition_of(self, key: str) -> int:
        """The partition of the records of a group or a transactional id."""
        return partition_of(key, self.count)

    def is_led_elsewhere(self, key: str) -> bool:
        """Whether the key's partition is here and led by another broker, or by none."""
        # Keys may be long and many, so the hash is computed only if it matters.
        if not self._topics.with_others:
            return False
        found = self._topics.partition(self.name, self.partition_of(key))
        return found is not None and found.leader != found.node_id

    def partitions(self) -> list[tuple[int, Partition]]:
        """The partitions that are here, by index."""
        topic = self._topics.by_name.get(self.name)
        return [] if topic is None else sorted(topic.partitions.items())

    # --- reading

    def read_each(self, read: Callable[[int, Log], None]) -> None:
        """Calls `read` with each partition's index and log. Damaged parts are left out, with a line
        in the log."""
        for index, partition in self.partitions():
            try:
                read(index, partition.log)
            except (RecordsError, StorageError, OSError) as error:
                self.log.warning("%s-%d is read up to its damage: %s", self.name, index, error)

    # --- writing

    def ensure(self, key: str, now: float) -> tuple[ErrorCode, int]:
        """Creates the partition of a key if it is missing. Returns an error, or NONE and the
        partition's index. `now` in seconds."""
        index = self.partition_of(key)
        try:
            self._partition(index, self._time_of_day.ms(now))
        except (ApiError, OSError, StorageError) as error:
            return self._failed(index, error), -1
        return NONE, index

    def append_to(
        self,
        index: int,
        records: Sequence[tuple[bytes, bytes | None]],
        now: float,
        *,
        producer: tuple[int, int] | None = None,
        check: CheckBatch | None = None,
    ) -> tuple[ErrorCode, int]:
        """Appends keys and values as one batch. `producer`: the id and the epoch of its
        transaction, which `check` checks. Returns an error, or NONE and the offset of the first
        record. `now` in seconds."""
        time = self._time_of_day.ms(now)
        try:
            topic = self._topics.by_name.get(self.name)
            partition = None if topic is None else topic.partitions.get(index)
            if topic is None or partition is None:
                topic, partition = self._partition(index, time)
            prepared = prepare_own(records, topic.append_config, time, producer)
            appended = partition.append(prepared, now, time, check)
        except (ApiError, OSError, StorageError) as error:
            return self._failed(index, error), -1
        self._purgatory.notify(partition.key)
        if index in self._failing:
            self._failing.discard(index)
            LOG.warning("%s-%d can be written again", self.name, index)
        return NONE, appended.base_offset

    # --- details

    def _failed(self, index: int, error: ApiError | OSError | StorageError) -> ErrorCode:
        if not isinstance(error, ApiError):
            if index not in self._failing:  # only once, as thousands of clients may fail
                LOG.warning("%s-%d cannot be written: %s", self.name, index, error)
                self._failing.add(index)
            return ErrorCode.NOT_COORDINATOR
        if error.code in (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.KAFKA_STORAGE_ERROR):
            return ErrorCode.NOT_COORDINATOR
        return error.code

    def _partition(self, index: int, time: int) -> tuple[Topic, Partition]:
        """A partition. If it is missing, all missing partitions are created, so that their number
        does not change later."""
        with self._topics.lock:
            topic = self._topics.by_name.get(self.name)
            if topic is None:
                topic = self._topics.create(self.name, self.count, CONFIG, time)
            if index not in topic.partitions:
                missing = self.missing
                # The highest first, so that after a crash a gap shows that some are missing.
                self._topics.add_partitions(self.name, reversed(missing))
                LOG.warning(
                    "%s: %d partitions were missing, and begin empty", self.name, len(missing)
                )
            return topic, topic.partitions[index]


def partition_of(key: str, count: int) -> int:
    """The partition of a key's records."""
    hashed = _hash if len(key) <= REMEMBERED_MAX else _hash.__wrapped__
    return hashed(key) % count


@lru_cache(maxsize=HASHES_MAX)
def _hash(key: str) -> int:
    """Java's hash of its UTF-16 code units, without its sign."""
    encoded, hashed = key.encode("utf-16-be"), 0
    for high, low in zip(encoded[::2], encoded[1::2], strict=True):
        hashed = (31 * hashed + (high << 8 | low)) & 0xFFFFFFFF
    return hashed % (1 << HASH_BITS)
