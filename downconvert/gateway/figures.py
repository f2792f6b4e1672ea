"""The counts of a gateway, and the sum over its processes.

They are plain values that are sent between processes. Not here: showing them (observing.py), which
clients use old versions (census.py)."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from threading import Lock
from typing import Any, Final, TypeVar

from downconvert.serving.series import BUCKETS, OTHERS

from .session.census import merged
from .session.last_old import LastOld, Row

Number = TypeVar("Number", int, float)
BROKERS_MAX: Final = 100  # addresses; replaced brokers keep adding new ones


class End(StrEnum):
    """Why a connection ended."""

    CLIENT = "client_closed"
    CLUSTER = "broker_failed"
    TIMEOUT = "timed_out"
    REQUEST = "bad_request"
    REFUSED = "refused"  # before its first request: limits, networks
    HANDSHAKE = "failed_handshake"  # of TLS
    LOGIN = "failed_login"
    LIMIT = "over_limit"  # of its principal: connections, or new connections a second
    EXPIRED = "session_expired"  # of a client that did not log in again in time
    STOPPED = "gateway_stopped"
    DEFECT = "defect"


@dataclass(slots=True)
class Latency:
    """A histogram. A bucket counts the values up to its bound that are above the previous bound."""

    counts: list[int] = field(default_factory=lambda: [0] * (len(BUCKETS) + 1))
    seconds: float = 0.0


@dataclass(slots=True)
class Served:
    """The answered requests of the clients of one rule. `received`, `sent`: bytes of requests and
    of their responses."""

    latencies: dict[str, Latency] = field(default_factory=dict)  # by API
    received: int = 0
    sent: int = 0

    def add(self, other: "Served") -> None:
        _add(other.latencies, self.latencies)
        self.received += other.received
        self.sent += other.sent

    def copy(self) -> "Served":
        return Served(_copies(self.latencies), self.received, self.sent)

    @property
    def latency(self) -> Latency:
        """The sum over all APIs."""
        whole: dict[str, Latency] = {}
        for one in self.latencies.values():
            _add({"": one}, whole)
        return whole.get("", Latency())


@dataclass(frozen=True, slots=True)
class Process:
    """The resources of one of several processes at one moment."""

    connections: int
    resident_bytes: int


@dataclass(slots=True)
class Figures:
    """The counts at one moment."""

    processes: int = 1
    process_id: int | None = None  # of the process, if there is one
    restarted: int = 0  # processes, because they died
    each: dict[int, Process] = field(default_factory=dict)  # by number; empty for one process
    connections: int = 0
    brokers: int = 0
    unready: list[str] = field(default_factory=list)  # why clients should use another gateway
    failures: Counter[str] = field(
        default_factory=Counter
    )  # failed responses of brokers, by address
    ends: Counter[str] = field(default_factory=Counter)  # of connections, by End
    throttled: dict[str, float] = field(default_factory=dict)  # seconds, by API
    cluster_seconds: dict[str, float] = field(default_factory=dict)  # until responses began, by API
    served: dict[str, Served] = field(default_factory=dict)  # by rule; "": of no rule
    broker_latencies: dict[str, Latency] = field(default_factory=dict)  # of responses, by address
    errors: Counter[tuple[str, int]] = field(
        default_factory=Counter
    )  # in responses, by API and code
    clients: list[dict[str, Any]] = field(default_factory=list)  # rows of the census
    last_old: list[Row] = field(default_factory=list)  # when old versions were seen last
    cpu_seconds: float = 0.0
    resident_bytes: int = 0
    spool_free_bytes: int | None = None  # on the disk of large responses
    certificate_until: float | None = None  # of the listener, seconds since the epoch

    @property
    def latencies(self) -> dict[str, Latency]:
        """The numbers of requests, by API."""
        found: dict[str, Latency] = {}
        for one in self.served.values():
            _add(one.latencies, found)
        return found

    def lasting(self) -> "Figures":
        """The counts that outlive the process, because they only grow."""
        return replace(
            self,
            processes=0,
            process_id=None,
            each={},
            connections=0,
            brokers=0,
            unready=[],
            resident_bytes=0,
            spool_free_bytes=None,
            certificate_until=None,
        )


class Counters:
    """The counts of one process's connections. Thread-safe."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._failures = Counter[str]()
        self._ends = Counter[str]()
        self._served: dict[str, Served] = {}
        self._broker_latencies: dict[str, Latency] = {}
        self._errors = Counter[tuple[str, int]]()
        self._throttled: dict[str, float] = {}
        self._cluster_seconds: dict[str, float] = {}

    def broker_failed(self, address: str) -> None:
        with self._lock:
            oldest = _oldest(self._failures, address)
            if oldest is not None:
                self._failures[OTHERS] += self._failures.pop(oldest)
            self._failures[address] = self._failures.pop(address, 0) + 1

    def broker_answered(self, address: str, seconds: float, api: str) -> None:
        """Counts a broker's response that began so many seconds after the request. `api`: as in
        `request_served`."""
        table = self._broker_latencies
        with self._lock:
            if address in table:
                table[address] = table.pop(address)  # moves it to the end, as the last counted
            elif (oldest := _oldest(table, address)) is not None:
                _add({OTHERS: table.pop(oldest)}, table)
            _add_one(table, address, seconds)
            self._cluster_seconds[api] = self._cluster_seconds.get(api, 0.0) + seconds

    def errors_answered(self, api: str, codes: Mapping[int, int]) -> None:
        """Counts the error codes of a response. `api`: as in `request_served`."""
        with self._lock:
            self._errors.update({(api, code): times for code, times in codes.items()})

    def connection_ended(self, reason: End) -> None:
        with self._lock:
            self._ends[reason] += 1

    def request_served(
        self, api: str, seconds: float, rule: str = "", received: int = 0, sent: int = 0
    ) -> None:
        """Counts a request. `api`: the name of a known API, or "other", so that the number of names
        is limited. `rule`: of its client. `received`, `sent`: bytes of the request and of its
        response."""
        with self._lock:
            served = self._served.get(rule)
            if served is None:
                served = self._served[rule] = Served()
            served.received += received
            served.sent += sent
            _add_one(served.latencies, api, seconds)

    def throttled(self, api: str, seconds: float) -> None:
        """Counts the seconds for which a client is muted."""
        with self._lock:
            self._throttled[api] = self._throttled.get(api, 0.0) + seconds

    def copy_to(self, figures: Figures) -> None:
        with self._lock:
            figures.failures = self._failures.copy()
            figures.ends = self._ends.copy()
            figures.throttled = self._throttled.copy()
            figures.cluster_seconds = self._cluster_seconds.copy()
            figures.errors = self._errors.copy()
            figures.served = {rule: one.copy() for rule, one in self._served.items()}
            figures.broker_latencies = _copies(self._broker_latencies)


def _oldest(table: Mapping[str, Any], name: str) -> str | None:
    """The broker whose row must be merged into the others before this broker gets one. None: this
    broker has a row, or there is room. The table is ordered by the time of the last count."""
    if name in table or len(table) < BROKERS_MAX:
        return None
    return next(one for one in table if one != OTHERS)


def _copies(latencies: Mapping[str, Latency]) -> dict[str, Latency]:
    return {name: Latency(one.counts.copy(), one.seconds) for name, one in latencies.items()}


def _add_one(to: dict[str, Latency], name: str, seconds: float) -> None:
    known = to.get(name)
    if known is None:
        known = to[name] = Latency()
    known.counts[bisect_left(BUCKETS, seconds)] += 1
    known.seconds += seconds


def _add(latencies: Mapping[str, Latency], to: dict[str, Latency]) -> None:
    for name, latency in latencies.items():
        known = to.setdefault(name, Latency())
        known.counts = [a + b for a, b in zip(known.counts, latency.counts, strict=True)]
        known.seconds += latency.seconds


def _add_seconds(seconds: Mapping[str, float], to: dict[str, float]) -> None:
    for name, one in seconds.items():
        to[name] = to.get(name, 0.0) + one


def _least(a: Number | None, b: Number | None) -> Number | None:
    return min((one for one in (a, b) if one is not None), default=None)


def of_processes(clusters: Collection[Figures]) -> Figures:
    """The processes of several clusters. A process that serves several clusters is counted once."""
    found = {one.process_id: one for one in clusters if one.process_id is not None}
    whole = Figures(processes=0)
    for one in (*found.values(), *(one for one in clusters if one.process_id is None)):
        whole.processes += one.processes
        whole.restarted += one.restarted
        whole.cpu_seconds += one.cpu_seconds
        whole.resident_bytes += one.resident_bytes
    return whole


def total(every: Iterable[Figures]) -> Figures:
    """The figures of all processes together."""
    whole = Figures(processes=0)
    rows: list[dict[str, Any]] = []
    last_old = LastOld()
    for one in every:
        whole.processes += one.processes
        whole.restarted += one.restarted
        whole.each |= one.each
        whole.connections += one.connections
        whole.brokers = max(whole.brokers, one.brokers)
        whole.unready += [reason for reason in one.unready if reason not in whole.unready]
        whole.failures += one.failures
        whole.ends += one.ends
        whole.errors += one.errors
        whole.cpu_seconds += one.cpu_seconds
        whole.resident_bytes += one.resident_bytes
        _add_seconds(one.throttled, whole.throttled)
        _add_seconds(one.cluster_seconds, whole.cluster_seconds)
        whole.spool_free_bytes = _least(whole.spool_free_bytes, one.spool_free_bytes)
        whole.certificate_until = _least(whole.certificate_until, one.certificate_until)
        for rule, served in one.served.items():
            whole.served.setdefault(rule, Served()).add(served)
        _add(one.broker_latencies, whole.broker_latencies)
        rows += one.clients
        last_old.join(one.last_old)
    whole.clients, whole.last_old = merged(rows), last_old.rows()
    return whole
