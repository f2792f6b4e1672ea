"""A small deterministic controller: live brokers, leaders, and ISRs.

A broker without a heartbeat for a while is fenced: it is no longer leader or in sync. A leader is
elected from the ISR, with a new epoch. If the ISR would become smaller than min.insync.replicas,
removed replicas stay eligible, because they have everything that was committed, and nothing more is
committed [KIP-966]. A broker whose machine lost unflushed data is neither in sync nor eligible,
until it has caught up.

Not here: the messages between brokers and controller (membership.py)."""

from dataclasses import dataclass, field
from typing import Final

from downconvert.broker.replication.replica import IsrChange, Leadership
from downconvert.storage import TopicPartition

SESSION_TIMEOUT: Final = 2.0  # seconds
UNKNOWN: Final = -1


@dataclass(slots=True)
class Assigned:
    """The controller's state of a partition."""

    replicas: tuple[int, ...]
    isr_min: int
    isr: set[int]
    eligible: set[int] = field(default_factory=set)  # in addition to the ISR
    leader: int | None = None
    leader_epoch: int = 0
    version: int = 0


class Controller:
    """The controller of one cluster. `now` in seconds."""

    def __init__(self, partitions: dict[TopicPartition, tuple[int, ...]], isr_min: int) -> None:
        self.partitions = {
            name: Assigned(replicas, min(isr_min, len(replicas)), set(replicas))
            for name, replicas in partitions.items()
        }
        self._epochs: dict[int, int] = {}  # broker epochs
        self._incarnations: dict[int, int] = {}  # of registered brokers
        self._last_heartbeats: dict[int, float] = {}  # of live brokers
        self._registrations = 0

    @property
    def alive(self) -> set[int]:
        return set(self._last_heartbeats)

    def register(self, node: int, now: float, *, lost: bool, incarnation: int) -> int:
        """Registers a started broker and returns its epoch. `lost`: its machine crashed, and lost
        unflushed data. A repeated request of the same incarnation changes nothing."""
        self._fence(node, lost=lost and self._incarnations.get(node) != incarnation)
        self._incarnations[node] = incarnation
        self._registrations += 1
        self._epochs[node], self._last_heartbeats[node] = self._registrations, now
        self._elect()
        return self._registrations

    def heartbeat(
        self, node: int, epoch: int, versions: dict[TopicPartition, int], now: float
    ) -> dict[TopicPartition, Leadership] | None:
        """The leaderships that are newer than the broker's. None if the broker must register
        again."""
        if self._epochs.get(node) != epoch:
            return None
        is_back = node not in self._last_heartbeats
        self._last_heartbeats[node] = now
        if is_back:
            self._elect()
        return {
            name: self.leadership(name)
            for name, known in versions.items()
            if name in self.partitions and self.partitions[name].version > known
        }

    def check(self, now: float) -> None:
        """Fences brokers whose session has timed out."""
        for node in [
            n for n, last in self._last_heartbeats.items() if now - last > SESSION_TIMEOUT
        ]:
            self._fence(node, lost=False)
            self._elect()

    def change_isr(self, node: int, epoch: int, name: TopicPartition, change: IsrChange) -> bool:
        """A leader's AlterPartition. False if it is refused although the leader has the newest
        state."""
        assigned = self.partitions[name]
        if (
            self._epochs.get(node) != epoch
            or assigned.leader != node
            or (assigned.leader_epoch, assigned.version) != (change.leader_epoch, change.version)
        ):
            return True  # its view is out of date
        lives = dict(change.broker_epochs)
        for added in sorted(change.isr - assigned.isr):
            if added not in self._last_heartbeats or lives.get(added) != self._epochs[added]:
                return False
        removed = assigned.isr - change.isr
        assigned.isr = set(change.isr)
        self._keep_eligible(assigned, removed)
        assigned.version += 1
        return True

    def move_leader(self, name: TopicPartition, choice: int) -> None:
        """Moves leadership to another replica in sync, if there is one."""
        assigned = self.partitions[name]
        could = assigned.isr & self.alive - {assigned.leader}
        others = [node for node in assigned.replicas if node in could]
        if others:
            self._lead(assigned, others[choice % len(others)])

    def leadership(self, name: TopicPartition) -> Leadership:
        assigned = self.partitions[name]
        return Leadership(
            leader=assigned.leader,
            leader_epoch=assigned.leader_epoch,
            replicas=assigned.replicas,
            isr=frozenset(assigned.isr),
            alive=frozenset(self._last_heartbeats),
            version=assigned.version,
        )

    # --- fencing and election

    def _fence(self, node: int, *, lost: bool) -> None:
        self._last_heartbeats.pop(node, None)
        for assigned in self.partitions.values():
            if node not in assigned.replicas:
                continue
            if node in assigned.isr:
                assigned.isr.discard(node)
                self._keep_eligible(assigned, {node})
            if lost:
                assigned.eligible.discard(node)
            if assigned.leader == node:
                assigned.leader = None
            assigned.version += 1

    def _keep_eligible(self, assigned: Assigned, removed: set[int]) -> None:
        if len(assigned.isr) < assigned.isr_min:
            assigned.eligible |= removed
        else:
            assigned.eligible.clear()

    def _elect(self) -> None:
        """Elects missing leaders, and sends every broker the set of live brokers."""
        for assigned in self.partitions.values():
            assigned.version += 1
            if assigned.leader is not None:
                continue
            in_sync = [n for n in assigned.replicas if n in assigned.isr & self.alive]
            eligible = [n for n in assigned.replicas if n in assigned.eligible & self.alive]
            if in_sync or eligible:
                self._lead(assigned, (in_sync or eligible)[0])

    def _lead(self, assigned: Assigned, node: int) -> None:
        if node not in assigned.isr:
            assigned.isr.add(node)
            assigned.eligible.discard(node)
            self._keep_eligible(assigned, set())
        assigned.leader = node
        assigned.leader_epoch += 1
        assigned.version += 1
