"""The identity of a gateway's client, and the credentials used at the cluster for it."""

from typing import TypeAlias

from downconvert.access import identity

from .security import Credentials

Identified: TypeAlias = identity.Identified[Credentials | None]
ClientRule: TypeAlias = identity.ClientRule[Credentials | None]
Identities: TypeAlias = identity.Identities[Credentials | None]
