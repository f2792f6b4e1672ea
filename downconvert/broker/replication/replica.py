"""A leader's view of its followers: their log ends, the ISR, and the high watermark.

A follower that fetches from an offset has everything below it. The high watermark is the lowest log
end of the replicas in sync, and never decreases while the leader stays. A replica that lags for
longer than replica.lag.time.max.ms leaves the ISR, and one that has caught up joins it, after the
controller has agreed. Before the controller agrees, a joining replica counts already, and a leaving
one still counts. [Partition, Replica; KIP-497, KIP-903, KAFKA-15583]

Times are in seconds of the broker's clock.

Not here: the log (partition.py), the controller. A broker knows only its `Leadership`."""

from dataclasses import dataclass
from typing import Final

NO_OFFSET: Final = -1  # the replica has not fetched yet
NEVER: Final = float("-inf")
NO_BROKER_EPOCH: Final = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Leadership:
    """The controller's decision about a partition. `version` increases with every change.

    alive: the replicas with live brokers. Only these may join the ISR."""

    leader: int | None
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: frozenset[int]
    alive: frozenset[int]
    version: int


@dataclass(frozen=True, slots=True)
class IsrChange:
    """An ISR that a leader proposes to the controller.

    broker_epochs: of each replica that has fetched, the broker epoch in which it was in sync. The
    controller refuses a replica that has restarted since, because it may have lost records."""

    leader_epoch: int
    version: int
    isr: frozenset[int]
    broker_epochs: tuple[tuple[int, int], ...]


@dataclass(slots=True)
class Replica:
    """A follower, from the view of its leader."""

    caught_up: float  # the last time when it had everything up to the leader's log end
    end_offset: int = NO_OFFSET
    broker_epoch: int = NO_BROKER_EPOCH
    _fetched: float = NEVER
    _leader_end_then: int = NO_OFFSET

    def fetches(self, offset: int, leader_end: int, now: float, broker_epoch: int) -> None:
        if offset >= leader_end:
            self.caught_up = max(self.caught_up, now)
        elif offset >= self._leader_end_then:
            self.caught_up = max(self.caught_up, self._fetched)
        self.end_offset, self.broker_epoch = offset, broker_epoch
        self._fetched, self._leader_end_then = now, leader_end

    def is_caught_up(self, leader_end: int, now: float, lag_max: float) -> bool:
        return self.end_offset == leader_end or now - self.caught_up <= lag_max


class Replicas:
    """The replicas of one partition, in one leader epoch. Callers hold the partition's lock."""

    def __init__(
        self, node_id: int, leadership: Leadership, epoch_start: int, now: float, lag_max: float
    ) -> None:
        self.epoch_start = epoch_start  # offset: the log's end when the epoch began
        self.isr = leadership.isr
        self.version = leadership.version
        self._alive = leadership.alive
        self._leader_epoch = leadership.leader_epoch
        self._lag_max = lag_max
        self._followers = {
            id_: Replica(now if id_ in leadership.isr else NEVER)
            for id_ in leadership.replicas
            if id_ != node_id
        }
        self._asked: IsrChange | None = None

    def __contains__(self, replica_id: int) -> bool:
        return replica_id in self._followers

    @property
    def maximal_isr(self) -> frozenset[int]:
        """The ISR, and the replicas that are about to join it."""
        return self.isr if self._asked is None else self.isr | self._asked.isr

    def fetches(
        self, replica_id: int, offset: int, leader_end: int, now: float, broker_epoch: int
    ) -> None:
        """A follower has everything below `offset`. KeyError: it has no replica."""
        self._followers[replica_id].fetches(offset, leader_end, now, broker_epoch)

    def high_watermark(self, known: int, leader_end: int, now: float, isr_min: int) -> int:
        """The current high watermark. It never falls below `known`, the previous one.

        A replica that has caught up counts, too, because it is about to join the ISR."""
        if len(self.isr) < isr_min:
            return known
        offset, counted = leader_end, self.maximal_isr
        for id_, replica in self._followers.items():
            if replica.end_offset < offset and (
                id_ in counted
                or (id_ in self._alive and replica.is_caught_up(leader_end, now, self._lag_max))
            ):
                offset = replica.end_offset
        return max(known, offset)

    def change(self, leader_end: int, high_watermark: int, now: float) -> IsrChange | None:
        """The proposal to the controller; None: no change, or a proposal is pending."""
        if self._asked is not None:
            return None
        isr = {
            id_
            for id_ in self.isr
            if id_ not in self._followers
            or self._followers[id_].is_caught_up(leader_end, now, self._lag_max)
        }
        joining_at = max(high_watermark, self.epoch_start)
        isr |= {
            id_
            for id_, replica in self._followers.items()
            if id_ not in self.isr and id_ in self._alive and replica.end_offset >= joining_at
        }
        if isr == self.isr:
            return None
        epochs = ((id_, self._followers[id_].broker_epoch) for id_ in isr & self._followers.keys())
        self._asked = IsrChange(
            self._leader_epoch, self.version, frozenset(isr), tuple(sorted(epochs))
        )
        return self._asked

    def settle(self, leadership: Leadership) -> None:
        """Applies a decision of the controller, whether or not a proposal led to it."""
        if leadership.version > self.version:
            self.isr, self.version, self._asked = leadership.isr, leadership.version, None
            self._alive = leadership.alive

    def refuse(self, change: IsrChange) -> None:
        """The controller has refused a proposal, although it has the same state as the leader.

        Do not call this if the controller did not answer. It may have agreed, so the proposal
        counts until the next decision."""
        if self._asked is change:
            self._asked = None
