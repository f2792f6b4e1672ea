"""One broker of the cluster, for all clients of an event loop.

Many clients may connect at once, for example when a broker has restarted. One connection asks for
the versions that the broker serves, and the others wait for the response.

Not here: one connection to a broker (upstream.py), the brokers' addresses (topology.py)."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Protocol

from downconvert.gateway.certificates import Certificates
from downconvert.gateway.config import GatewayConfig
from downconvert.gateway.figures import Counters
from downconvert.gateway.network.sockets.deadline import wake
from downconvert.gateway.network.sockets.ended import UnreachableError
from downconvert.gateway.security import Credentials
from downconvert.gateway.topology import BOOTSTRAP, RECENT, Address, Topology
from downconvert.protocol.schemas import Message
from records.budget import MemoryBudget

from .conversion_pool import ConversionPool
from .upstream import Upstream, reach


class Cluster(Protocol):
    """The parts of a gateway (server.py) that this file needs."""

    config: GatewayConfig
    topology: Topology
    counters: Counters
    certificates: Certificates
    pool: ConversionPool
    budget: MemoryBudget
    cluster_failure: str | None

    def report_broker(self, address: Address, reason: str | None) -> None: ...


class ClusterBroker:
    """The broker of a node. `clock`: seconds of the event loop."""

    def __init__(self, gateway: Cluster, node_id: int, clock: Callable[[], float]) -> None:
        self._gateway = gateway
        self._node_id = node_id
        self._clock = clock
        self._asking: asyncio.Future[None] | None = None  # until a connection has its response

    async def reach(self, credentials: Credentials | None) -> Upstream:
        """A connection to it. UnreachableError."""
        asking = None
        if self._asking is None:
            asking = self._asking = asyncio.get_running_loop().create_future()
        try:
            return await self._reach(credentials)
        finally:
            if asking is not None:
                self._asking = None
                wake(asking)

    async def _reach(self, credentials: Credentials | None) -> Upstream:
        gateway, node_id = self._gateway, self._node_id
        config, topology = gateway.config, gateway.topology
        security = replace(config.security, credentials=credentials)
        try:
            reached = await reach(
                topology.addresses(node_id),
                replace(config, security=security),
                gateway.certificates.cluster,
                gateway.report_broker,
                pool=gateway.pool,
                budget=gateway.budget,
            )
        except UnreachableError as error:
            if node_id == BOOTSTRAP:
                gateway.cluster_failure = str(error)
            raise
        if reached.api_versions is not None:
            topology.set_broker_api_versions(node_id, reached.api_versions, self._clock())
        reached.on_response = gateway.counters.broker_answered
        return reached

    async def recent_api_versions(self) -> Message | None:
        """Its response to another connection, at most RECENT seconds old. None: there is none, and
        the caller must ask."""
        topology, node_id = self._gateway.topology, self._node_id
        response = topology.recent_api_versions(node_id, self._clock())
        if response is None and self._asking is not None:
            await asyncio.wait((self._asking,), timeout=RECENT)
            response = topology.recent_api_versions(node_id, self._clock())
        return response
