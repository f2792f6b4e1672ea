"""Who a client of the gateway is, and as whom the cluster is asked for it."""

from typing import TypeAlias

from downconvert.access import identity

from .security import Credentials

Identified: TypeAlias = identity.Identified[Credentials | None]
ClientRule: TypeAlias = identity.ClientRule[Credentials | None]
Identities: TypeAlias = identity.Identities[Credentials | None]
