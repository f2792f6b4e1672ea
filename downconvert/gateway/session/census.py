"""Counts which clients use old versions: the APIs and versions of every client, and conversions.

Brokers do not report this. The census is the list of clients to upgrade. Its size is bounded,
because a client may use a new client id in every request, and a scheduler keeps giving its pods new
names. When the census is full, clients that need the gateway are kept longest:

1. Clients that do not need the gateway are counted as `(others)`, least recently seen first.
2. If none of these is left, ids that differ only in generated parts are merged, and then ids with
   the same beginning. The first and the last date are kept.
3. Last, the half with the fewest requests is counted as `(others)`, too.

Not here: generated parts of ids (client_names.py)."""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from math import inf
from threading import Lock
from typing import Any, Final, NamedTuple

from downconvert.serving.series import NAME_MAX, OTHERS

from .client_names import ANY, pattern_of, prefix_of
from .headers import NAMES

KEYS_MAX: Final = 10_000
ROOM: Final = 10  # after a merge, one row in so many is free
VERSIONS: Final = range(64)  # of requests; no API has as many
UNKNOWN_KEYS: Final = 256  # unknown API keys below this are counted separately
KNOWN_APIS: Final = {*NAMES.values(), *(f"API {key}" for key in range(UNKNOWN_KEYS))}
NO_VERSION: Final = -1


class ClientKey(NamedTuple):
    """A client as it describes itself, with an API and its version."""

    client_id: str
    software: str  # name and version, from ApiVersions v3 on
    address: str
    api: str
    version: int
    principal: str = ""  # the proved identity, or the rule for the address
    rule: str = ""  # the rule that matches it
    tls: str = ""  # its TLS version, as OpenSSL names it


@dataclass(slots=True)
class ClientUse:
    """The counts of one ClientKey. Times in seconds since the epoch."""

    requests: int = 0
    translated: int = 0  # requests that cannot be passed on unchanged
    records_converted: int = 0
    bytes_converted: int = 0  # converted bytes that were sent
    first_seen: float = inf
    last_seen: float = 0.0
    merged: int = 1  # how many keys these counts cover

    def add(self, other: "ClientUse") -> None:
        """Adds the counts of another key."""
        self.requests += other.requests
        self.translated += other.translated
        self.records_converted += other.records_converted
        self.bytes_converted += other.bytes_converted
        self.first_seen = min(self.first_seen, other.first_seen)
        self.last_seen = max(self.last_seen, other.last_seen)
        self.merged += other.merged


class ClientCensus:
    """Everything counted since the gateway started. Thread-safe."""

    def __init__(self, keys_max: int = KEYS_MAX) -> None:
        self._lock = Lock()
        self._keys_max = keys_max
        self._old: dict[ClientKey, ClientUse] = {}  # with translated requests
        self._current: OrderedDict[ClientKey, ClientUse] = OrderedDict()  # others, latest last
        self._others: dict[ClientKey, ClientUse] = {}  # `(others)`, by API and version

    def count(self, key: ClientKey, now: float, *, translated: bool) -> ClientKey:
        """Counts a request. Returns the key for counting its later events."""
        key = key._replace(
            client_id=key.client_id[:NAME_MAX],
            principal=key.principal[:NAME_MAX],
            software=key.software[:NAME_MAX],
            api=key.api if key.api in KNOWN_APIS else OTHERS,
            version=key.version if key.version in VERSIONS else NO_VERSION,
        )
        with self._lock:
            self._add(key, ClientUse(1, int(translated), 0, 0, now, now))
        return key

    def count_again(
        self, key: ClientKey, now: float, *, translated: bool, records: int = 0, sent: int = 0
    ) -> None:
        """As `count`. `key`: as `count` returned it. `records`, `sent`: converted records and bytes
        of the response."""
        with self._lock:
            use = self._old.get(key)
            if use is None and not translated:
                use = self._current.get(key)
                if use is not None:
                    self._current.move_to_end(key)
            if use is None:
                self._add(key, ClientUse(1, int(translated), records, sent, now, now))
                return
            use.requests += 1
            use.translated += translated
            use.records_converted += records
            use.bytes_converted += sent
            use.last_seen = max(use.last_seen, now)

    def converted(self, key: ClientKey, records: int, sent: int) -> None:
        """Adds the counts of a conversion."""
        with self._lock:
            use = self._known(key)
            use.records_converted += records
            use.bytes_converted += sent

    def recoded(self, key: ClientKey, sent: int) -> None:
        """Adds a response whose records got another codec, for a request that the cluster
        accepts."""
        with self._lock:
            use = self._known(key)
            use.translated += 1
            use.bytes_converted += sent
            if self._current.pop(key, None) is not None:
                self._old[key] = use

    def __iter__(self) -> Iterator[tuple[ClientKey, ClientUse]]:
        with self._lock:
            return iter(sorted((self._old | self._current | self._others).items()))

    def rows(self) -> list[dict[str, Any]]:
        """One row for each client, API and version, for a report or another program."""
        return [key._asdict() | asdict(use) for key, use in self]

    def add(self, row: dict[str, Any]) -> None:
        """Adds a row of another census."""
        key = ClientKey(*(row[name] for name in ClientKey._fields))
        use = ClientUse(**{name: row[name] for name in ClientUse.__dataclass_fields__})
        with self._lock:
            self._add(key, use)

    def _add(self, key: ClientKey, use: ClientUse) -> None:
        if key.client_id == OTHERS:
            self._count_as_others(key, use)
            return
        known = self._old.get(key)
        if known is None and (known := self._current.get(key)) is not None:
            self._current.move_to_end(key)
            if use.translated:
                self._old[key] = self._current.pop(key)
        if known is not None:
            known.add(use)
            known.merged -= use.merged == 1  # it is the same client
        elif self._has_room(needs_gateway=bool(use.translated)):
            (self._old if use.translated else self._current)[key] = use
        else:
            self._count_as_others(key, use)

    def _has_room(self, *, needs_gateway: bool) -> bool:
        """Whether another key may be counted by itself. Makes room if possible."""
        if len(self._old) + len(self._current) < self._keys_max:
            return True
        if self._current:
            self._count_as_others(*self._current.popitem(last=False))
            return True
        if needs_gateway:
            self._make_room()
        return needs_gateway

    def _make_room(self) -> None:
        """Merges similar clients until enough rows are free."""
        enough = self._keys_max - max(self._keys_max // ROOM, 1)
        for alike in (_by_pattern, _by_prefix):
            self._merge(alike)
            if len(self._old) <= enough:
                return
        ranked = sorted(self._old, key=lambda key: _weight(self._old[key]))
        for key in ranked[: -(-len(ranked) // 2)]:
            self._count_as_others(key, self._old.pop(key))

    def _merge(self, alike: Callable[[ClientKey], ClientKey]) -> None:
        groups: dict[ClientKey, list[ClientKey]] = {}
        for key in self._old:
            groups.setdefault(alike(key), []).append(key)
        for common, keys in groups.items():
            if len(keys) > 1:
                first, *rest = (self._old.pop(key) for key in keys)
                for use in rest:
                    first.add(use)
                self._old[common] = first

    def _count_as_others(self, key: ClientKey, use: ClientUse) -> None:
        known = self._others.setdefault(_others(key), use)
        if known is not use:
            known.add(use)

    def _known(self, key: ClientKey) -> ClientUse:
        """The counts of a key, or of the row that it was merged into."""
        for table in (self._old, self._current):
            if (found := table.get(key)) is not None:
                return found
        for common in (_by_pattern(key), _by_prefix(key)):
            if (found := self._old.get(common)) is not None:
                return found
        return self._others.setdefault(_others(key), ClientUse(first_seen=0.0, merged=0))


def _others(key: ClientKey) -> ClientKey:
    return ClientKey(OTHERS, OTHERS, OTHERS, key.api, key.version, OTHERS, OTHERS)


def _by_pattern(key: ClientKey) -> ClientKey:
    return key._replace(client_id=pattern_of(key.client_id), address=ANY)


def _by_prefix(key: ClientKey) -> ClientKey:
    return key._replace(client_id=prefix_of(key.client_id), software=ANY, address=ANY)


def _weight(use: ClientUse) -> tuple[int, float]:
    """The rank of a client: its number of requests, then the time of the last one."""
    return use.requests, use.last_seen


def merged(rows: Iterable[dict[str, Any]], keys_max: int = KEYS_MAX) -> list[dict[str, Any]]:
    """Merges the rows of several censuses."""
    census = ClientCensus(keys_max)
    for row in sorted(rows, key=lambda row: float(row["last_seen"])):
        census.add(row)
    return census.rows()
