"""Finds the clients that would break with each release of Kafka 4, with advice.

A client breaks if it has sent a request in a version that the release refuses. If the evidence has
no such request, this proves nothing, because evidence covers a limited time.

Not here: the versions (releases.py), the advice (advice.py), the output (the command)."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from .advice import advice_for
from .census import OTHERS, ClientKey, Use
from .releases import BETWEEN_BROKERS, NEWEST, alike, key_of, oldest

# Requests that a client sends before it has given its name, or with it.
BEFORE_NAMES: Final = {"ApiVersions", "SaslHandshake", "SaslAuthenticate"}


@dataclass(frozen=True, slots=True)
class Refused:
    """Requests of one API and version that a release refuses."""

    api: str
    version: int
    requests: int
    last_seen: float | None  # seconds since the epoch
    releases: tuple[str, ...]  # those that refuse it

    def __str__(self) -> str:
        return f"{self.api} v{self.version}"


@dataclass(frozen=True, slots=True)
class Client:
    """A client, with its requests that some release of Kafka 4 refuses."""

    client_id: str
    software: str
    address: str
    requests: int  # all that were seen
    last_seen: float | None
    refused: tuple[Refused, ...]
    name: str  # in common use; empty: unknown
    advice: str  # empty: none is needed

    def refused_by(self, release: str) -> list[Refused]:
        return [one for one in self.refused if release in one.releases]

    @property
    def requests_refused(self) -> int:
        """The number of requests that some release of Kafka 4 refuses."""
        return sum(one.requests for one in self.refused)

    def as_json(self, release: str) -> dict[str, Any]:
        """The client for another program. Times are seconds since the epoch."""
        return {
            "client_id": self.client_id,
            "software": self.software,
            "address": self.address,
            "requests": self.requests,
            "requests_refused": self.requests_refused,
            "last_seen": self.last_seen,
            "breaks": bool(self.refused_by(release)),
            "refused": [
                {
                    "api": one.api,
                    "version": one.version,
                    "requests": one.requests,
                    "last_seen": one.last_seen,
                    "releases": list(one.releases),
                }
                for one in self.refused
            ],
            "is": self.name,
            "advice": self.advice,
        }


class _Oldest:
    """The tables of all releases, looked up once."""

    def __init__(self) -> None:
        self._groups = [(releases, oldest(releases[0])) for releases in alike()]

    def refusing(self, api: str, version: int) -> tuple[str, ...]:
        key = key_of(api)
        assert key is not None, "a census has known APIs only"
        return tuple(
            release
            for releases, table in self._groups
            if version < table.get(key, 0)
            for release in releases
        )


def diagnose(uses: Iterable[tuple[ClientKey, Use]], release: str = NEWEST) -> list[Client]:
    """Every client: first those that break with `release`, the most frequent first."""
    tables = _Oldest()
    found: dict[tuple[str, str, str], list[tuple[ClientKey, Use]]] = {}
    items = [(key, use) for key, use in uses if key_of(key.api) not in BETWEEN_BROKERS]
    software = _software(key for key, _ in items)
    for key, use in items:
        name = key.software
        if key.api in BEFORE_NAMES:
            name = name or software.get((key.client_id, key.address), "")
        found.setdefault((key.client_id, name, key.address), []).append((key, use))
    clients = [_client(*who, seen, tables) for who, seen in found.items()]
    return sorted(clients, key=lambda one: _order(one, release))


def _software(keys: Iterable[ClientKey]) -> dict[tuple[str, str], str]:
    """The named software by client id and address, if there is only one. Requests without software
    may come from another client, because a client with pinned versions does not name itself."""
    named: dict[tuple[str, str], set[str]] = {}
    for key in keys:
        # Requests without a client id or an address may come from any client.
        if key.software and key.client_id not in ("", OTHERS) and key.address:
            named.setdefault((key.client_id, key.address), set()).add(key.software)
    return {who: names.pop() for who, names in named.items() if len(names) == 1}


def _client(
    client_id: str,
    software: str,
    address: str,
    seen: list[tuple[ClientKey, Use]],
    tables: _Oldest,
) -> Client:
    uses: dict[tuple[str, int], Use] = {}
    for key, use in seen:
        one = uses.setdefault((key.api, key.version), Use())
        one.requests += use.requests
        one.last_seen = _later(one.last_seen, use.last_seen)
    refused = tuple(
        Refused(api, version, use.requests, use.last_seen, releases)
        for (api, version), use in sorted(uses.items(), key=lambda item: _in_order(*item[0]))
        if (releases := tables.refusing(api, version))
    )
    last_seen: float | None = None
    for use in uses.values():
        last_seen = _later(last_seen, use.last_seen)
    apis = {one.api for one in refused}
    name, advice = advice_for(client_id, software, apis) if refused else ("", "")
    requests = sum(use.requests for use in uses.values())
    return Client(client_id, software, address, requests, last_seen, refused, name, advice)


def _later(one: float | None, other: float | None) -> float | None:
    return max(one or 0.0, other) if other is not None else one


def _in_order(api: str, version: int) -> tuple[int, int]:
    return key_of(api) or 0, version


def _order(client: Client, release: str) -> tuple[bool, bool, int, str, str]:
    refused = sum(one.requests for one in client.refused_by(release))
    return (not refused, not client.refused, -refused, client.client_id, client.address)
