"""The topics of a broker: the partitions in its log directory, ids and settings.

A topic's id is in its partitions' metadata files. Topics of old brokers have no id there. They get
an id that depends only on the name, so that it stays the same."""

from collections import defaultdict
from collections.abc import ItemsView, Iterable, Iterator, Mapping, ValuesView
from contextlib import suppress
from dataclasses import dataclass, field
from threading import RLock
from typing import Final
from uuid import NAMESPACE_URL, UUID, uuid5

from downconvert.internal_topics.names import OFFSETS_TOPIC as OFFSETS_TOPIC
from downconvert.internal_topics.names import TRANSACTIONS_TOPIC as TRANSACTIONS_TOPIC
from downconvert.serving.append_config import AppendConfig
from downconvert.serving.conversions import is_enabled
from downconvert.storage import LogConfig, LogDir, StorageError, TopicPartition
from downconvert.storage.checkpoints.metadata import read_topic_id, write_topic_id
from records.formats import V2
from records.logged import log_of

from .config import BrokerConfig
from .partition import Partition
from .partition_state import PartitionState
from .topic_configs import TopicConfigs, append_config

LOG: Final = log_of(__name__)
INTERNAL_TOPICS: Final = (OFFSETS_TOPIC, TRANSACTIONS_TOPIC)


@dataclass(slots=True, eq=False)
class Topic:
    """A topic, with its partitions on this broker."""

    name: str
    id: bytes  # 16 bytes
    partitions: dict[int, Partition] = field(default_factory=dict)
    config: Mapping[str, str] = field(default_factory=dict)  # only non-default settings
    may_convert: bool = True  # for consumers of older formats
    append_config: AppendConfig = field(init=False)  # how records are appended

    @property
    def has_id(self) -> bool:
        """Whether its files have the id; otherwise the id comes from its name."""
        return self.id != id_without_file(self.name)

    @property
    def is_internal(self) -> bool:
        return self.name in INTERNAL_TOPICS


class Topics(Mapping[str, Topic]):
    """Topics by name. `refresh` lists a directory of another process again. by_name: the same
    topics, for requests; only this class changes it."""

    def __init__(self, log_dir: LogDir, config: BrokerConfig) -> None:
        self.log_dir = log_dir
        self.lock = RLock()
        self.configs = TopicConfigs(log_dir.path, config, log_dir.logs.files)
        self._config = config
        self.by_name: dict[str, Topic] = {}
        self._by_id: dict[bytes, Topic] = {}
        # Topics with their own format or codec, in which producers' records may be rewritten.
        self.rewriting: set[str] = set()
        # Partitions that other brokers lead, or replicate. Each adds and removes itself when the
        # controller decides.
        self.with_others: set[PartitionState] = set()
        self._by_metric_name: defaultdict[str, set[str]] = defaultdict(set)
        self.refresh()

    def __getitem__(self, name: str) -> Topic:
        return self.by_name[name]

    def __contains__(self, name: object) -> bool:
        return name in self.by_name

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self.by_name))

    def __len__(self) -> int:
        return len(self.by_name)

    def values(self) -> ValuesView[Topic]:
        """A copy of the current ones."""
        return self._now().values()

    def items(self) -> ItemsView[str, Topic]:
        """As `values`."""
        return self._now().items()

    def _now(self) -> dict[str, Topic]:
        return dict(sorted(self.by_name.items()))

    def by_id(self, id: bytes) -> Topic | None:  # noqa: A002 - the protocol's name
        return self._by_id.get(id)

    def find(self, topic: str | bytes) -> Topic | None:
        """The topic of this name, or id."""
        return self._by_id.get(topic) if isinstance(topic, bytes) else self.by_name.get(topic)

    def like(self, name: str) -> list[str]:
        """The topics that have this name in Kafka's metrics, where `.` becomes `_`."""
        return sorted(self._by_metric_name.get(_metric_name(name), ()))

    def partition(self, topic: str | bytes, index: int) -> Partition | None:
        """A partition of a topic of this name, or id."""
        found = self.find(topic)
        return found.partitions.get(index) if found is not None else None

    def partitions(self) -> Iterator[Partition]:
        for topic in list(self.by_name.values()):
            yield from list(topic.partitions.values())

    def refresh(self) -> None:
        """Looks for new and removed partitions."""
        with self.lock:
            found: defaultdict[str, dict[int, Partition]] = defaultdict(dict)
            for name in self.log_dir.logs:
                known = self.partition(name.topic, name.partition)
                if known is None or self._may_be_repaired(known):
                    try:
                        known = self._open(name)
                    except KeyError:  # removed since it was listed
                        continue
                found[name.topic][name.partition] = known
            for gone in self.by_name.keys() - found.keys():
                self._lost(gone)
            for topic, partitions in found.items():
                self._found(topic, partitions)
            self._by_id = {topic.id: topic for topic in self.by_name.values()}

    # --- changing them, in a directory of this broker

    def create(self, name: str, count: int, own: Mapping[str, str], now: int) -> Topic:
        """Creates a topic with `count` partitions. `own`: its configuration. `now` in milliseconds
        is part of the id, so a topic of the same name gets another id later.

        OSError, StorageError: the disk failed, and there is no topic."""
        with self.lock:
            self.configs.replace(name, own)
            try:
                self._make(name, range(count), uuid5(NAMESPACE_URL, f"{name}/{now}"))
            except (OSError, StorageError):
                with suppress(OSError, StorageError):
                    self.configs.forget(name)
                raise
            _log_change(name, "made", partitions=count)
            return self.by_name[name]

    def add_partitions(self, name: str, indices: Iterable[int]) -> None:
        """Adds partitions, created in this order. Errors as those of `create`."""
        with self.lock:
            topic = self.by_name[name]
            missing = [index for index in indices if index not in topic.partitions]
            self._make(name, missing, UUID(bytes=topic.id))
            _log_change(name, "given more partitions", partitions=len(topic.partitions))

    def delete(self, name: str) -> None:
        """Removes a topic and all its records. Errors as those of `create`. After an error, the
        topic exists with the remaining partitions. A full disk is no error."""
        with self.lock:
            topic = self.by_name[name]
            left = dict(topic.partitions)
            try:
                for index, partition in topic.partitions.items():
                    del left[index]
                    with partition.lock:
                        partition.leader = None
                        partition.leader_epoch += 1  # waiting fetches are answered now
                        self.log_dir.logs.delete(partition.name)
                        self.with_others.discard(partition)
            except BaseException:
                # The same objects, because other threads may hold their locks.
                topic.partitions = left
                self.refresh()
                raise
            self._lost(name)
            self._by_id.pop(topic.id, None)
            self.configs.forget(name)
            _log_change(name, "deleted")

    def configure(self, name: str, own: Mapping[str, str]) -> None:
        """Replaces a topic's own settings. Errors as those of `create`."""
        with self.lock:
            self.configs.replace(name, own)
            topic = self.by_name[name]
            self._set_config(topic)
            config = LogConfig.of(topic.config, self.log_dir.logs.config)
            for partition in topic.partitions.values():
                if partition.log.is_writable:
                    with partition.lock:
                        partition.log.writer.configure(config)
            _log_change(name, "configured", config=dict(own))

    def _make(self, name: str, indices: Iterable[int], topic_id: UUID) -> None:
        """Creates all of these partitions, or none. None of them exists yet."""
        logs = self.log_dir.logs
        made: list[TopicPartition] = []
        try:
            for index in indices:
                partition = TopicPartition(name, index)
                made.append(partition)
                write_topic_id(logs.files, logs.create(partition).path, topic_id)
        except (OSError, StorageError):
            for partition in made:
                with suppress(OSError, StorageError, KeyError):
                    logs.delete(partition)
            self.refresh()
            raise
        # The directory is not listed, so a change costs the same with any number of topics.
        before = self.by_name[name].partitions if name in self.by_name else {}
        self._found(name, before | {one.partition: self._open(one) for one in made})

    # --- details

    def _found(self, name: str, partitions: dict[int, Partition]) -> None:
        """Notes the partitions of a topic."""
        topic = self.by_name.get(name)
        if topic is None:
            topic = self.by_name[name] = self._topic(name, partitions)
            self._by_metric_name[_metric_name(name)].add(name)
        else:
            topic.partitions = partitions
            if not self._config.is_writable:  # another process may have recreated it
                with suppress(OSError, StorageError):
                    topic.id = _read_id(name, partitions)
        self._by_id[topic.id] = topic

    def _lost(self, name: str) -> None:
        """Forgets a topic that is gone."""
        del self.by_name[name]
        self.rewriting.discard(name)
        same = self._by_metric_name[_metric_name(name)]
        same.discard(name)
        if not same:
            del self._by_metric_name[_metric_name(name)]

    def _may_be_repaired(self, partition: Partition) -> bool:
        """Whether to open an offline partition again, because another process writes there and may
        have repaired it."""
        return not self._config.is_writable and partition.log.offline_reason is not None

    def _open(self, name: TopicPartition) -> Partition:
        """A partition. It is offline if its log cannot be opened. KeyError: it does not exist."""
        logs = self.log_dir.logs
        log = logs.open_or_offline(name)
        if log.is_writable:
            log.writer.configure(LogConfig.of(self.configs.of(name.topic), logs.config))
        return Partition(name, log, self._config.node_id, self.with_others)

    def _topic(self, name: str, partitions: dict[int, Partition]) -> Topic:
        topic = Topic(name, _read_id(name, partitions), partitions)
        self._set_config(topic)
        return topic

    def _set_config(self, topic: Topic) -> None:
        topic.config = self.configs.of(topic.name)
        topic.may_convert = is_enabled(topic.config)
        config = topic.append_config = append_config(topic.config, self._config)
        if config.codec is None and config.magic == V2:
            self.rewriting.discard(topic.name)
        else:
            self.rewriting.add(topic.name)


def _log_change(topic: str, what: str, **fields: object) -> None:
    """Logs a change that a client requested."""
    message = "".join(f", {name} {value}" for name, value in fields.items())
    LOG.info("topic %s is %s%s", topic, what, message, extra={"fields": {"topic": topic} | fields})


def _read_id(name: str, partitions: Mapping[int, Partition]) -> bytes:
    ids = (read_topic_id(p.log.path) for p in partitions.values() if not p.log.offline_reason)
    found = next((one for one in ids if one), None)
    return id_without_file(name) if found is None else found.bytes


def _metric_name(topic: str) -> str:
    return topic.replace(".", "_")


def id_without_file(name: str) -> bytes:
    """The id of a topic whose files have none."""
    return uuid5(NAMESPACE_URL, name).bytes
