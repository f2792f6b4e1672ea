"""A simulated broker's side of the controller's protocol: registration, heartbeats, ISR changes. It
starts a follower for each leader that the controller names.

Not here: the controller's decisions (controller.py), their effect on a broker
(downconvert/broker/replication/replica_manager.py)."""

from contextlib import suppress
from typing import Final, Protocol

from downconvert.broker import Broker
from downconvert.broker.replication.replica import IsrChange, Leadership
from downconvert.broker.replication.replica_manager import Replication
from downconvert.storage import StorageError, TopicPartition

from .context import Context
from .link import Host, Link
from .timeline import Action

CONTROLLER: Final = "controller"


class Member(Host, Protocol):
    """A machine known to the controller. broker, replication: None while it is down."""

    id: int
    life: int
    broker: Broker | None
    replication: Replication | None


class Membership:
    """The membership of one machine. `register` begins it when the broker starts, and `end` ends it
    when the broker dies."""

    def __init__(self, node: Member, context: Context) -> None:
        self._node = node
        self._context = context
        self._links: dict[int, Link] = {}
        self._isr_requests: dict[TopicPartition, IsrChange] = {}  # without a response yet
        self._lost_disk = False  # whether data was lost and the controller does not know it yet

    def end(self, *, lost: bool) -> None:
        """Call this when the broker has died. `lost`: its machine died too, and lost unflushed
        data."""
        for link in self._links.values():
            link.close()
        self._links, self._isr_requests = {}, {}
        self._lost_disk = self._lost_disk or lost

    def register(self) -> None:
        node, context, life, lost = self._node, self._context, self._node.life, self._lost_disk

        def ask() -> None:
            epoch = context.controller.register(
                node.id, context.timeline.now, lost=lost, incarnation=life
            )
            self._answer(lambda: registered(epoch))

        def registered(epoch: int) -> None:
            if node.life == life and node.replication is not None:
                if epoch < node.replication.broker_epoch:
                    return  # a response to an earlier request
                node.replication.register(epoch)
                self._lost_disk = False
                self.heartbeat()

        self._ask(ask)

    def heartbeat(self) -> None:
        """Sends a heartbeat, and repeats requests without a response."""
        if self._beat():
            for name, change in self._isr_requests.items():
                self._request_isr(name, change)

    def _beat(self) -> bool:
        """Sends a heartbeat. Returns whether the broker is registered."""
        node, context, life = self._node, self._context, self._node.life
        assert node.replication is not None
        epoch, versions = node.replication.broker_epoch, node.replication.versions
        if epoch < 0:
            self.register()
            return False

        def ask() -> None:
            leaderships = context.controller.heartbeat(
                node.id, epoch, versions, context.timeline.now
            )
            self._answer(lambda: apply(leaderships))

        def apply(leaderships: dict[TopicPartition, Leadership] | None) -> None:
            if node.life == life:
                self._apply(leaderships)

        self._ask(ask)
        return True

    def change_isr(self) -> None:
        """Requests the changes of the ISR that are due."""
        assert self._node.replication is not None
        changes = self._node.replication.isr_changes(self._context.timeline.now)
        for name, change in changes.items():
            self._isr_requests[name] = change
            self._request_isr(name, change)

    # --- messages

    def _ask(self, action: Action) -> None:
        """Runs an action at the controller."""
        self._context.network.message(self._node.host, CONTROLLER, action)

    def _answer(self, action: Action) -> None:
        """Runs an action at the broker."""
        node = self._node
        self._context.network.message(CONTROLLER, node.host, lambda: node.run(action))

    def _apply(self, leaderships: dict[TopicPartition, Leadership] | None) -> None:
        replication, context = self._node.replication, self._context
        assert replication is not None
        if leaderships is None:
            replication.register(-1)
            return
        for name in leaderships:
            self._isr_requests.pop(name, None)
        with suppress(StorageError):  # the disk is full: the next heartbeat brings the same leaders
            replication.assign(leaderships, context.timeline.now)
        followers = replication.followers
        for gone in self._links.keys() - followers.keys():
            self._links.pop(gone).close()
        for leader, follower in followers.items():
            if leader not in self._links:
                self._links[leader] = Link(self._node, context, follower)
                self._links[leader].resume()

    def _request_isr(self, name: TopicPartition, change: IsrChange) -> None:
        node, controller, life = self._node, self._context.controller, self._node.life
        assert node.replication is not None
        epoch = node.replication.broker_epoch

        def ask() -> None:
            has_news = controller.change_isr(node.id, epoch, name, change)
            # Nothing is requested again here, because each request would cause another one.
            self._answer(accepted if has_news else refused)

        def accepted() -> None:
            self._beat()

        def refused() -> None:
            if node.life == life and node.broker is not None:
                self._isr_requests.pop(name, None)
                partition = node.broker.topics.partition(*name)
                assert partition is not None
                partition.refuse(change)

        self._ask(ask)
