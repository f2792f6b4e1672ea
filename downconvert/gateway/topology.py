"""The addresses of the cluster's brokers, and the gateway's addresses that replace them.

Each broker has a listening port of its own: the first port plus the broker's id. It depends on the
id only, so several gateways of one cluster need no coordination.

Not here: advertised addresses that differ from these (advertised.py)."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from threading import Lock
from typing import Final, NamedTuple

from downconvert.protocol.errors import BadRequestError, ErrorCode
from downconvert.protocol.schemas import ApiKey, Message

from .advertised import PORT_MAX, Advertised

RECENT: Final = 1.0  # seconds for which a broker's response is reused for other clients
BOOTSTRAP: Final = -1  # the "node" of the listener that clients bootstrap from


class Address(NamedTuple):
    """A host and a port."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Ports:
    """The ports of the brokers."""

    first: int
    pinned: Mapping[int, int]  # node id: port

    def of(self, node_id: int) -> int:
        """The port of a broker. BadRequestError: it has none."""
        port = self.pinned.get(node_id, self.first + node_id)
        if not 0 < port <= PORT_MAX:
            raise BadRequestError(
                f"broker {node_id} would have port {port}: give it one with --node-port"
            )
        return port


class Topology:
    """The brokers of a cluster in the last response. Thread-safe."""

    def __init__(self, bootstrap: Iterable[Address], ports: Ports) -> None:
        self.bootstrap = tuple(bootstrap)
        self.ports = ports
        self.api_versions: Message | None = None  # the last ApiVersions response of any broker
        self.unserved: dict[int, str] = {}  # brokers whose port cannot be bound, and why
        self._recent: dict[int, tuple[Message, float]] = {}  # by node: last response, its time
        self._lock = Lock()
        self._nodes: dict[int, Address] = {}
        self._failed: set[Address] = set()

    def set_api_versions(self, response: Message) -> Message:
        """Takes a broker's ApiVersions response. Returns the previous object if it is equal,
        because thousands of connections keep it."""
        known = self.api_versions
        if known is not None and known == response:
            return known
        self.api_versions = response  # another thread may replace it at any time
        return response

    def set_broker_api_versions(self, node_id: int, response: Message, now: float) -> None:
        """Takes the ApiVersions response of one broker. `now`: seconds of a monotonic clock."""
        self._recent[node_id] = self.set_api_versions(response), now

    def recent_api_versions(self, node_id: int, now: float) -> Message | None:
        """That broker's response, if it is at most RECENT seconds old. None otherwise."""
        response, noted_at = self._recent.get(node_id, (None, 0.0))
        return response if response is not None and now - noted_at <= RECENT else None

    @property
    def nodes(self) -> dict[int, Address]:
        with self._lock:
            return dict(self._nodes)

    def addresses(self, node_id: int) -> tuple[Address, ...]:
        """The addresses at which to try to reach a broker, best first."""
        if node_id == BOOTSTRAP:
            every = dict.fromkeys((*self.bootstrap, *self.nodes.values()))
            with self._lock:
                return tuple(sorted(every, key=lambda address: address in self._failed))
        known = self.nodes.get(node_id)
        return () if known is None else (known,)

    def set_failed(self, address: Address, *, has_failed: bool) -> bool:
        """Notes whether a broker has failed. Failed brokers are tried last. Returns whether this
        has changed."""
        with self._lock:
            is_news = (address in self._failed) != has_failed
            (self._failed.add if has_failed else self._failed.discard)(address)
            self._failed &= {*self.bootstrap, *self._nodes.values()}
        return is_news

    def set_brokers(self, brokers: Iterable[Message]) -> None:
        """Takes all live brokers from a Metadata or DescribeCluster response."""
        nodes = {_id(broker): Address(broker.host, broker.port) for broker in brokers}
        if nodes:  # a broker that has just started names none
            with self._lock:
                self._nodes = nodes

    def rewrite(self, api: ApiKey, version: int, response: Message, advertised: Advertised) -> None:
        """Replaces the brokers' addresses by the advertised ones. `version`: the client's.

        A broker is left out if its port at the gateway could not be bound: another program listens
        there, perhaps the gateway of another cluster."""
        unserved = {} if advertised.goes_by_name else self.unserved
        if api is ApiKey.Metadata or api is ApiKey.DescribeCluster:
            self.set_brokers(response.brokers)
            response.brokers = [one for one in response.brokers if _id(one) not in unserved]
            self._rewrite(response.brokers, advertised)
            if api is ApiKey.Metadata and version == 0:
                _leave_out_absent(response)
        elif api is ApiKey.FindCoordinator:
            coordinators = [*response.coordinators, response]
            for one in coordinators:
                if one.node_id in unserved:
                    one.error_code = ErrorCode.COORDINATOR_NOT_AVAILABLE
                    one.node_id, one.host, one.port = -1, "", -1
            self._rewrite([one for one in coordinators if one.node_id >= 0], advertised)
        elif api is ApiKey.Produce:
            known = [one for one in response.node_endpoints if _id(one) not in unserved]
            response.node_endpoints = known
            self._rewrite(known, advertised)

    def _rewrite(self, brokers: Iterable[Message], advertised: Advertised) -> None:
        for broker in brokers:
            broker.host, broker.port = advertised.address(_id(broker), self.ports.of)


PRODUCE_WITH_ENDPOINTS: Final = 10
# The APIs whose responses name brokers by address.
WITH_ADDRESSES: Final = frozenset(
    {ApiKey.Metadata, ApiKey.DescribeCluster, ApiKey.FindCoordinator, ApiKey.Produce}
)


def names_addresses(api: ApiKey | None, version: int) -> bool:
    """Whether the response of an API names brokers by address. None: the API is not known."""
    if api is ApiKey.Produce:
        return version >= PRODUCE_WITH_ENDPOINTS
    return api in WITH_ADDRESSES


def _leave_out_absent(response: Message) -> None:
    """Removes leaders and replicas that are not in `brokers`, as Kafka does for Metadata v0.
    Clients of 0.8 look up each of them there, and fail if one is missing."""
    there = {_id(broker) for broker in response.brokers}
    for part in (one for topic in response.topics for one in topic.partitions):
        named = len(part.replica_nodes) + len(part.isr_nodes)
        part.replica_nodes = [one for one in part.replica_nodes if one in there]
        part.isr_nodes = [one for one in part.isr_nodes if one in there]
        if part.leader_id >= 0 and part.leader_id not in there:
            part.leader_id, part.error_code = -1, ErrorCode.LEADER_NOT_AVAILABLE
        elif named > len(part.replica_nodes) + len(part.isr_nodes) and not part.error_code:
            part.error_code = ErrorCode.REPLICA_NOT_AVAILABLE


def _id(broker: Message) -> int:
    node_id: int = broker.node_id if "node_id" in broker.__dict__ else broker.broker_id
    return node_id
