"""The topics of a broker: what is in its log directory, and what is said about them.

A topic's id is the one that its partitions' metadata files have; a topic of an old broker has none
there and gets one that depends on its name only, so that it stays the same."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from threading import RLock
from uuid import NAMESPACE_URL, uuid5

from broker.config import BrokerConfig
from broker.partition import Partition
from storage import LogDir, TopicPartition
from storage.metadata import read_topic_id


@dataclass(slots=True, eq=False)
class Topic:
    """A topic with those of its partitions that this broker has."""

    name: str
    id: bytes  # 16 bytes
    partitions: dict[int, Partition] = field(default_factory=dict)
    config: Mapping[str, str] = field(default_factory=dict)  # what differs from the defaults

    @property
    def is_internal(self) -> bool:
        return self.name in ("__consumer_offsets", "__transaction_state")


class Topics(Mapping[str, Topic]):
    """By name. A directory that somebody else writes to is listed again by `refresh`."""

    def __init__(self, log_dir: LogDir, config: BrokerConfig) -> None:
        self.log_dir = log_dir
        self.lock = RLock()
        self._config = config
        self._topics: dict[str, Topic] = {}
        self.refresh()

    def __getitem__(self, name: str) -> Topic:
        return self._topics[name]

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._topics))

    def __len__(self) -> int:
        return len(self._topics)

    def by_id(self, id: bytes) -> Topic | None:  # noqa: A002 - the protocol's name
        return next((topic for topic in self._topics.values() if topic.id == id), None)

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

    def _open(self, name: TopicPartition) -> Partition:
        return Partition(name, self.log_dir.logs[name], self._config.node_id)

    def _topic(self, name: str, partitions: dict[int, Partition]) -> Topic:
        ids = (read_topic_id(partition.log.path) for partition in partitions.values())
        id_ = next((found for found in ids if found), None) or uuid5(NAMESPACE_URL, name)
        return Topic(name, id_.bytes, partitions, self._config.topics.get(name, {}))
