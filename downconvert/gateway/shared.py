"""What all sessions of a gateway share."""

from dataclasses import dataclass, field

from downconvert.broker.kept import KeepRoom

from .census import ClientCensus
from .config import GatewayConfig, Limits
from .failed_logins import FailedLogins
from .topology import Topology


@dataclass(frozen=True, slots=True)
class Shared:
    """`room`: the budget of conversions that are kept in memory."""

    config: GatewayConfig
    topology: Topology
    census: ClientCensus
    room: KeepRoom = field(default_factory=lambda: KeepRoom(Limits().memory))
    failed_logins: FailedLogins = field(default_factory=FailedLogins)
