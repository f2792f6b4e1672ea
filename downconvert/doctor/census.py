"""Counts each client's requests, over all evidence.

Its size is limited, because a client may use another client id in every request, and a log may be
forged."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

from .evidence import Seen
from .releases import NAMES

KEYS_MAX: Final = 50_000  # of clients, APIs and versions; a few hundred bytes each
OTHERS: Final = "(others)"  # clients beyond that


class ClientKey(NamedTuple):
    """A client by its own description, with an API and its version."""

    client_id: str
    software: str
    address: str
    api: str
    version: int


@dataclass(slots=True)
class Use:
    """The number of requests, and the last time: seconds since the epoch, or None if unknown."""

    requests: int = 0
    last_seen: float | None = None


class Census:
    """All requests, by client, API and version."""

    def __init__(self) -> None:
        self._uses: dict[ClientKey, Use] = {}

    def add(self, seen: Seen) -> ClientKey:
        """Counts requests. Returns the key under which they were counted."""
        api = NAMES[seen.api]
        key = ClientKey(seen.client_id, seen.software, seen.address, api, seen.version)
        if key not in self._uses and len(self._uses) >= KEYS_MAX:
            key = ClientKey(OTHERS, OTHERS, OTHERS, api, seen.version)
        use = self._uses.setdefault(key, Use())
        use.requests += seen.requests
        if seen.when is not None:
            use.last_seen = max(use.last_seen or 0.0, seen.when)
        return key

    def __iter__(self) -> Iterator[tuple[ClientKey, Use]]:
        return iter(sorted(self._uses.items(), key=lambda item: item[0]))
