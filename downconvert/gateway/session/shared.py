"""The objects that all sessions of a gateway share."""

from dataclasses import dataclass, field

from downconvert.access.admissions import Admissions
from downconvert.access.failed_logins import FailedLogins
from downconvert.access.ledger import Ledger, OwnLedger
from downconvert.access.quotas import Quotas
from downconvert.gateway.audit import Audit
from downconvert.gateway.config import GatewayConfig, Limits
from downconvert.gateway.topology import Topology
from downconvert.serving.line_budget import LineBudget
from downconvert.serving.request_memory import RequestMemory
from downconvert.serving.unread import UnreadResponses

from .census import ClientCensus
from .last_old import LastOld


@dataclass(frozen=True, slots=True)
class Ledgers:
    """The state of clients that outlives their connections, shared by all processes of a
    gateway."""

    quotas: Ledger = field(default_factory=OwnLedger)
    failed_logins: Ledger = field(default_factory=OwnLedger)
    admissions: Ledger = field(default_factory=OwnLedger)


@dataclass(frozen=True, slots=True)
class Shared:
    """The shared objects. `requests`: the memory budget of requests. `logins`: the same, of clients
    that have not logged in. `unread`: the responses that wait for their clients."""

    config: GatewayConfig
    topology: Topology
    census: ClientCensus
    failed_logins: FailedLogins = field(default_factory=FailedLogins)
    quotas: Quotas = field(default_factory=Quotas)
    admissions: Admissions = field(default_factory=Admissions)
    last_old: LastOld = field(default_factory=LastOld)
    audit: Audit = field(default_factory=lambda: Audit(LineBudget(), lambda: 0.0))
    requests: RequestMemory = field(default_factory=lambda: RequestMemory(Limits().requests_memory))
    logins: RequestMemory = field(default_factory=lambda: RequestMemory(Limits().requests_memory))
    unread: UnreadResponses = field(
        default_factory=lambda: UnreadResponses(Limits().requests_memory)
    )
