"""The topics of a broker: what is in its log directory, and what is said about them.

A topic's id is the one that its partitions' metadata files have; a topic of an old broker has none
there and gets one that depends on its name only, so that it stays the same."""

from collections import defaultdict
from collections.abc import ItemsView, Iterator, Mapping, ValuesView
from contextlib import suppress
from dataclasses import dataclass, field
from threading import RLock
from typing import Final
from uuid import NAMESPACE_URL, UUID, uuid5

from downconvert.storage import LogDir, StorageError, TopicPartition
from downconvert.storage.files import DISK
from downconvert.storage.metadata import read_topic_id, write_topic_id

from .config import BrokerConfig
from .partition import Partition
from .topic_configs import TopicConfigs

OFFSETS_TOPIC: Final = "__consumer_offsets"


@dataclass(slots=True, eq=False)
class Topic:
    """A topic with those of its partitions that this broker has."""

    name: str
    id: bytes  # 16 bytes
    partitions: dict[int, Partition] = field(default_factory=dict)
    config: Mapping[str, str] = field(default_factory=dict)  # what differs from the defaults

    @property
    def is_internal(self) -> bool:
        return self.name in (OFFSETS_TOPIC, "__transaction_state")


class Topics(Mapping[str, Topic]):
    """By name. A directory that somebody else writes to is listed again by `refresh`."""

    def __init__(self, log_dir: LogDir, config: BrokerConfig) -> None:
        self.log_dir = log_dir
        self.lock = RLock()
        self.configs = TopicConfigs(log_dir.path, config)
        self._config = config
        self._topics: dict[str, Topic] = {}
        self.refresh()

    def __getitem__(self, name: str) -> Topic:
        return self._topics[name]

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._topics))

    def __len__(self) -> int:
        return len(self._topics)

    def values(self) -> ValuesView[Topic]:
        """As they are now, whatever becomes of them while somebody looks."""
        return self._now().values()

    def items(self) -> ItemsView[str, Topic]:
        """As `values`."""
        return self._now().items()

    def _now(self) -> dict[str, Topic]:
        return dict(sorted(self._topics.items()))

    def by_id(self, id: bytes) -> Topic | None:  # noqa: A002 - the protocol's name
        return next((topic for topic in list(self._topics.values()) if topic.id == id), None)

    def partition(self, topic: str, index: int) -> Partition | None:
        found = self._topics.get(topic)
        return found.partitions.get(index) if found is not None else None

    def partitions(self) -> Iterator[Partition]:
        for topic in list(self._topics.values()):
            yield from list(topic.partitions.values())

    def refresh(self) -> None:
        """Looks for partitions that have come, or gone."""
        with self.lock:
            found: defaultdict[str, dict[int, Partition]] = defaultdict(dict)
            for name in self.log_dir.logs:
                known = self.partition(name.topic, name.partition)
                found[name.topic][name.partition] = known or self._open(name)
            for gone in self._topics.keys() - found.keys():
                del self._topics[gone]
            for topic, partitions in found.items():
                if topic in self._topics:
                    self._topics[topic].partitions = partitions
                else:
                    self._topics[topic] = self._topic(topic, partitions)

    # --- changing them, where the directory is ours

    def create(self, name: str, count: int, own: Mapping[str, str], now: int) -> Topic:
        """A topic that was not there, with so many partitions. `own`: its configuration;
        `now` in milliseconds: a topic of the same name at another time is another topic.

        OSError, StorageError: the disk; then there is no topic."""
        with self.lock:
            self.configs.replace(name, own)
            self._make(name, range(count), uuid5(NAMESPACE_URL, f"{name}/{now}"))
            return self._topics[name]

    def add_partitions(self, name: str, count: int) -> None:
        """More partitions, up to `count` in all. Errors as those of `create`."""
        with self.lock:
            topic = self._topics[name]
            self._make(name, range(len(topic.partitions), count), UUID(bytes=topic.id))

    def delete(self, name: str) -> None:
        """Removes a topic and all its records. Errors as those of `create`; then some partitions
        may be left, and are a topic still."""
        with self.lock:
            try:
                for partition in self._topics[name].partitions.values():
                    with partition.lock:
                        partition.leader = None
                        self.log_dir.logs.delete(partition.name)
            finally:
                del self._topics[name]
                self.refresh()
            self.configs.replace(name, {})

    def configure(self, name: str, own: Mapping[str, str]) -> None:
        """Replaces what a topic has of its own. Errors as those of `create`."""
        with self.lock:
            self.configs.replace(name, own)
            self._topics[name].config = self.configs.of(name)

    def _make(self, name: str, indices: range, topic_id: UUID) -> None:
        """All of these partitions, or none."""
        logs = self.log_dir.logs
        made: list[TopicPartition] = []
        try:
            for index in indices:
                partition = TopicPartition(name, index)
                made.append(partition)
                write_topic_id(DISK, logs.create(partition).path, topic_id)
        except (OSError, StorageError):
            for partition in made:
                with suppress(OSError, StorageError, KeyError):
                    logs.delete(partition)
            raise
        finally:
            self.refresh()

    # --- how

    def _open(self, name: TopicPartition) -> Partition:
        return Partition(name, self.log_dir.logs[name], self._config.node_id)

    def _topic(self, name: str, partitions: dict[int, Partition]) -> Topic:
        ids = (read_topic_id(partition.log.path) for partition in partitions.values())
        id_ = next((found for found in ids if found), None) or uuid5(NAMESPACE_URL, name)
        return Topic(name, id_.bytes, partitions, self.configs.of(name))
