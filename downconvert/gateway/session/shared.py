"""What all sessions of a gateway share."""

from dataclasses import dataclass, field

from downconvert.broker.access.failed_logins import FailedLogins
from downconvert.broker.access.ledger import Ledger, OwnLedger
from downconvert.broker.access.quotas import Quotas
from downconvert.broker.buffered_send import MemoryBudget
from downconvert.broker.limits import RequestMemory

from .census import ClientCensus
from .config import GatewayConfig, Limits
from .topology import Topology


@dataclass(frozen=True, slots=True)
class Ledgers:
    """What is kept of clients beyond their connections; by all processes of a gateway, where it has
    several."""

    quotas: Ledger = field(default_factory=OwnLedger)
    failed_logins: Ledger = field(default_factory=OwnLedger)


@dataclass(frozen=True, slots=True)
class Shared:
    """`room`: the budget of conversions that are kept in memory; `requests`: that of requests."""

    config: GatewayConfig
    topology: Topology
    census: ClientCensus
    room: MemoryBudget = field(default_factory=lambda: MemoryBudget(Limits().memory))
    failed_logins: FailedLogins = field(default_factory=FailedLogins)
    quotas: Quotas = field(default_factory=Quotas)
    requests: RequestMemory = field(default_factory=lambda: RequestMemory(Limits().requests_memory))
