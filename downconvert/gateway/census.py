"""Which clients use old versions: what every client asks, in which version, and what was done.

Brokers do not report this, and it is the list of what must be upgraded. Its size is bounded,
because a client may use another client id in every request."""

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from threading import Lock
from typing import Any, Final, NamedTuple

from downconvert.broker.series import NAME_MAX, OTHERS

KEYS_MAX: Final = 10_000


class ClientKey(NamedTuple):
    """A client by what it says of itself, with an API and its version."""

    client_id: str
    software: str  # name and version, from ApiVersions v3 on
    address: str
    api: str
    version: int


@dataclass(slots=True)
class ClientUse:
    """What was counted for one ClientKey."""

    requests: int = 0
    translated: int = 0  # requests that the cluster does not take, or not serve, as they are
    records_converted: int = 0
    bytes_converted: int = 0  # that were sent
    last_seen: float = 0.0  # seconds since the epoch


class ClientCensus:
    """Everything counted since the gateway started. Thread-safe."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._uses: dict[ClientKey, ClientUse] = {}

    def see(self, key: ClientKey, now: float, *, translated: bool) -> ClientKey:
        """Counts a request. Returns the key under which what follows is to be counted."""
        key = key._replace(client_id=key.client_id[:NAME_MAX], software=key.software[:NAME_MAX])
        with self._lock:
            if key not in self._uses and len(self._uses) >= KEYS_MAX:
                key = ClientKey(OTHERS, OTHERS, OTHERS, key.api, key.version)
            use = self._uses.setdefault(key, ClientUse())
            use.requests += 1
            use.translated += translated
            use.last_seen = now
        return key

    def converted(self, key: ClientKey, records: int, sent: int) -> None:
        """Adds what a conversion did."""
        with self._lock:
            use = self._uses.setdefault(key, ClientUse())
            use.records_converted += records
            use.bytes_converted += sent

    def recoded(self, key: ClientKey, sent: int) -> None:
        """Adds an answer whose records got another codec. The cluster takes the request itself."""
        with self._lock:
            use = self._uses.setdefault(key, ClientUse())
            use.translated += 1
            use.bytes_converted += sent

    def __iter__(self) -> Iterator[tuple[ClientKey, ClientUse]]:
        with self._lock:
            return iter(sorted(self._uses.items()))

    def rows(self) -> list[dict[str, Any]]:
        """One for each client, API and version, for a report or another program."""
        return [key._asdict() | asdict(use) for key, use in self]


def merged(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows of several censuses as those of one."""
    found: dict[ClientKey, dict[str, Any]] = {}
    for row in rows:
        key = ClientKey(*(row[name] for name in ClientKey._fields))
        if key not in found and len(found) >= KEYS_MAX:
            key = ClientKey(OTHERS, OTHERS, OTHERS, key.api, key.version)
        known = found.setdefault(key, key._asdict() | asdict(ClientUse()))
        for name in ("requests", "translated", "records_converted", "bytes_converted"):
            known[name] += row[name]
        known["last_seen"] = max(known["last_seen"], row["last_seen"])
    return [found[key] for key in sorted(found)]
