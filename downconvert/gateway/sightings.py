"""Who is still old? What every client asked, in which version, and what was done for it.

The list of what must be upgraded, which brokers do not give. It is bounded: a client may call
itself anything, a thousand times a second."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from threading import Lock
from typing import Any, Final, NamedTuple

SIGHTINGS_MAX: Final = 10_000
NAME_MAX: Final = 128  # characters of what a client calls itself
OTHERS: Final = "(others)"


class Who(NamedTuple):
    """A client as it shows itself, and what it asks."""

    client_id: str
    software: str  # name and version, from ApiVersions v3 on
    address: str
    api: str
    version: int


@dataclass(slots=True)
class Sighting:
    """What is known of one Who."""

    requests: int = 0
    translated: int = 0  # requests that the cluster does not take, or not serve, as they are
    records_converted: int = 0
    bytes_converted: int = 0  # that were sent
    last_seen: float = 0.0  # seconds since the epoch


class Sightings:
    """All that has been seen since the gateway started. Any thread may call anything."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._seen: dict[Who, Sighting] = {}

    def see(self, who: Who, now: float, *, translated: bool) -> Who:
        """Counts a request; under which name further figures are to be added."""
        who = who._replace(client_id=who.client_id[:NAME_MAX], software=who.software[:NAME_MAX])
        with self._lock:
            if who not in self._seen and len(self._seen) >= SIGHTINGS_MAX:
                who = Who(OTHERS, OTHERS, OTHERS, who.api, who.version)
            sighting = self._seen.setdefault(who, Sighting())
            sighting.requests += 1
            sighting.translated += translated
            sighting.last_seen = now
        return who

    def converted(self, who: Who, records: int, sent: int) -> None:
        """Adds what a conversion did."""
        with self._lock:
            sighting = self._seen.setdefault(who, Sighting())
            sighting.records_converted += records
            sighting.bytes_converted += sent

    def recoded(self, who: Who, sent: int) -> None:
        """Adds an answer, to a request that the cluster takes, in which a codec was another."""
        with self._lock:
            sighting = self._seen.setdefault(who, Sighting())
            sighting.translated += 1
            sighting.bytes_converted += sent

    def __iter__(self) -> Iterator[tuple[Who, Sighting]]:
        with self._lock:
            return iter(sorted(self._seen.items()))

    def rows(self) -> list[dict[str, Any]]:
        """One for each client, API and version, for a report or another program."""
        return [who._asdict() | asdict(sighting) for who, sighting in self]
