"""Groups a gateway's counts of old clients by principal, rule, cluster or client id's prefix.

Not here: single clients, and the output (gateway_report.py)."""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, Final

NONE: Final = "(none)"
PREFIX: Final = re.compile(r"[^-_.:/@# ]+[-_.:/@# ]")  # the first part of a name

Row = Mapping[str, Any]


def prefix_of(client_id: str) -> str:
    """For example, `billing-*` for `billing-loader-7`. A name with one part is its own prefix."""
    found = PREFIX.match(client_id)
    return f"{found[0]}*" if found is not None else client_id


def in_ranges(old: Iterable[str]) -> str:
    """Versions in short form: `Fetch v0-v3, Produce v0` for `Fetch v0`, `Fetch v1`, …"""
    versions: dict[str, list[int]] = {}
    for name in old:
        api, _, version = name.rpartition(" v")
        versions.setdefault(api, []).append(int(version))
    found = []
    for api in sorted(versions):
        for _, run in groupby(enumerate(sorted(versions[api])), lambda one: one[1] - one[0]):
            first, *rest = (version for _, version in run)
            found.append(f"{api} v{first}" + (f"-v{rest[-1]}" if rest else ""))
    return ", ".join(found)


GROUPED_BY: Final[dict[str, Callable[[Row], str]]] = {
    "principal": lambda row: str(row.get("principal", "")),
    "rule": lambda row: str(row.get("rule", "")),
    "cluster": lambda row: str(row.get("cluster", "")),
    "prefix": lambda row: prefix_of(row["client_id"]),
}


@dataclass
class Group:
    """Clients that have one thing in common. Times in seconds since the epoch."""

    name: str
    clients: set[tuple[str, str]] = field(default_factory=set)  # their ids and addresses
    old_clients: set[tuple[str, str]] = field(default_factory=set)  # clients that need the gateway
    requests: int = 0
    translated: int = 0
    old: set[str] = field(default_factory=set)  # versions that the cluster does not accept
    first_seen: float = float("inf")
    last_seen: float = 0.0
    last_old: float | None = None  # when a client that needs the gateway was seen last

    def add(self, row: Row) -> None:
        client = row["client_id"], row["address"]
        self.clients.add(client)
        self.requests += row["requests"]
        self.translated += row["translated"]
        self.first_seen = min(self.first_seen, row["first_seen"])
        self.last_seen = max(self.last_seen, row["last_seen"])
        if row["translated"]:
            self.old_clients.add(client)
            self.old.add(f"{row['api']} v{row['version']}")
            self.last_old = max(self.last_old or 0.0, row["last_seen"])

    def figures(self) -> dict[str, Any]:
        """The figures for programs."""
        return {
            "name": self.name,
            "clients": len(self.clients),
            "old_clients": len(self.old_clients),
            "requests": self.requests,
            "translated": self.translated,
            "old": sorted(self.old),
            "first_seen": self.first_seen,
            "last_seen": self.last_seen,
            "last_old": self.last_old,
        }


def grouped(rows: list[dict[str, Any]], by: str) -> list[Group]:
    """The groups, sorted by how many of their requests need the gateway."""
    groups: dict[str, Group] = {}
    for row in rows:
        name = GROUPED_BY[by](row) or NONE
        groups.setdefault(name, Group(name)).add(row)
    return sorted(groups.values(), key=lambda one: (-one.translated, one.name))
