"""Finds the changed settings that apply on a reload, and those that need a restart.

Not here: applying them (server.py, processes.py)."""

from dataclasses import dataclass, fields, replace
from typing import Any, Final

from .config import GatewayConfig, Limits
from .identity import Identities

# Fields of the configuration that have other names in the file.
CALLED: Final = {
    "advertised": "advertise",
    "advertised_without_name": "advertise_without_name",
    "security": "cluster",
    "access": "what clients may do",
    "identities": "who clients are",
    "policy": "recode",
    "is_observing": "observe",
    "shares_ports": "share_ports",
}
NEEDS_RESTART: Final = ("listen", "node_port_first", "node_ports", "shares_ports")
LIMITS_AT_START: Final = ("memory", "requests_memory")


@dataclass(frozen=True, slots=True)
class Changes:
    """The names of changed settings."""

    applied: tuple[str, ...] = ()
    after_restart: tuple[str, ...] = ()

    def __str__(self) -> str:
        parts = [f"applied: {', '.join(self.applied)}"] if self.applied else []
        if self.after_restart:
            parts.append(f"need a restart: {', '.join(self.after_restart)}")
        return "; ".join(parts) or "nothing has changed"


def changes(former: GatewayConfig, later: GatewayConfig) -> Changes:
    """The changes between the current settings and the newly read ones."""
    names = [one.name for one in fields(GatewayConfig) if one.name not in ("limits", "identities")]
    changed = [name for name in names if getattr(former, name) != getattr(later, name)]
    applied = [CALLED.get(name, name) for name in changed if name not in NEEDS_RESTART]
    waiting = [CALLED.get(name, name) for name in changed if name in NEEDS_RESTART]
    if _of_identities(former.identities) != _of_identities(later.identities):
        applied.append(CALLED["identities"])
    for one in fields(Limits):
        if getattr(former.limits, one.name) != getattr(later.limits, one.name):
            (waiting if one.name in LIMITS_AT_START else applied).append(one.name)
    return Changes(tuple(applied), tuple(waiting))


def applicable(former: GatewayConfig, later: GatewayConfig) -> GatewayConfig:
    """The later settings, except that settings that need a restart keep their former values."""
    limits = {name: getattr(former.limits, name) for name in LIMITS_AT_START}
    kept = {name: getattr(former, name) for name in NEEDS_RESTART}
    return replace(later, limits=replace(later.limits, **limits), **kept)


def _of_identities(identities: Identities) -> tuple[Any, ...]:
    """The identities, and their fields that `==` ignores."""
    users, tokens = identities.users, identities.tokens
    return identities, users and users.passwords, tokens and tokens.settings
