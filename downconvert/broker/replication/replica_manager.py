"""The replicas of a broker: which ones it leads, which leaders it follows, and its ISR proposals.

A driver with a network (for now the simulator) passes the controller's decisions in. It carries
followers' requests to their leaders, and ISR proposals to the controller.

Not here: one partition (partition.py, replica.py), one followed leader (follower.py)."""

from collections.abc import Mapping
from dataclasses import replace

from downconvert.broker.state import BrokerState
from downconvert.storage import CorruptFileError, TopicPartition

from .follower import Follower
from .replica import IsrChange, Leadership


class Replication:
    """The replicas of a broker, from one start to its end."""

    def __init__(self, broker: BrokerState) -> None:
        self.broker = broker
        self.broker_epoch = -1
        self.followers: dict[int, Follower] = {}  # by leader
        self._await_controller()

    @property
    def versions(self) -> dict[TopicPartition, int]:
        """The version of the controller's last decision for each partition."""
        return {partition.name: partition.version for partition in self.broker.topics.partitions()}

    def register(self, broker_epoch: int) -> None:
        """The controller has registered this broker. Each start has a broker epoch of its own."""
        self.broker_epoch = broker_epoch
        for follower in self.followers.values():
            follower.broker_epoch = broker_epoch

    def assign(self, leaderships: Mapping[TopicPartition, Leadership], now: float) -> None:
        """Applies the controller's decisions. Partitions that are not here are skipped.

        OSError: an epoch could not be written. The call may be repeated."""
        config = self.broker.config
        self._admit({id_ for one in leaderships.values() for id_ in one.replicas})
        for name, leadership in leaderships.items():
            topic = self.broker.topics.get(name.topic)
            partition = None if topic is None else topic.partitions.get(name.partition)
            if topic is None or partition is None:
                continue
            partition.assign(
                leadership,
                now,
                isr_min=topic.append_config.min_insync_replicas,
                lag_max=config.replica_lag_time_max_ms / 1000,
            )
            self.broker.purgatory.notify(("partition", *name))
        leaders = {partition.leader for partition in self.broker.topics.partitions()}
        for leader in leaders - {None, config.node_id} - self.followers.keys():
            assert leader is not None
            self.followers[leader] = Follower(self.broker, leader, broker_epoch=self.broker_epoch)
        for gone in self.followers.keys() - leaders:
            del self.followers[gone]

    def _admit(self, ids: set[int]) -> None:
        """Lets later connections fetch as followers with these ids, because the controller has
        named these brokers."""
        access = self.broker.guard.access
        if not ids <= access.follower_ids:
            access = replace(access, follower_ids=access.follower_ids | ids)
            self.broker.guard = replace(self.broker.guard, access=access)

    def isr_changes(self, now: float) -> dict[TopicPartition, IsrChange]:
        """New proposals for the controller. Called when followers have fetched, and every half of
        replica.lag.time.max.ms."""
        found = {}
        for partition in self.broker.topics.partitions():
            change = partition.isr_change(now)
            if change is not None:
                found[partition.name] = change
        return found

    def note_high_watermarks(self) -> None:
        """Writes the high watermarks to the checkpoint, for the next start. Kafka does so every
        five seconds.

        OSError, StorageError: the disk failed. The earlier checkpoint is unchanged."""
        topics = self.broker.topics
        found = {partition.name: partition.high_watermark for partition in topics.partitions()}
        topics.log_dir.note_high_watermarks(found)

    def _await_controller(self) -> None:
        try:
            noted = self.broker.topics.log_dir.high_watermarks
        except CorruptFileError:  # high watermarks are found again as followers fetch
            noted = {}
        for partition in self.broker.topics.partitions():
            partition.await_controller(noted.get(partition.name, 0))
