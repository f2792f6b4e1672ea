"""Asks everything of the table, and compares what happens with what the rule allows.

Clients are connections to a broker, and to a gateway in front of another one. Beside the error
codes, it looks at what is changed, and at names in responses that nobody asked for."""

from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from random import Random
from typing import Any, Final

from downconvert.access.rights import Access
from downconvert.access.settings import access_of
from downconvert.broker import Broker, BrokerConfig
from downconvert.broker.server import Server
from downconvert.gateway.topology import Address
from downconvert.protocol.error_codes import error_codes
from downconvert.protocol.schemas import ApiKey, Message
from downconvert.storage import LogDir
from tests.downconvert.broker.asking import frame, parsed
from tests.downconvert.broker.guarding import guard_of
from tests.downconvert.gateway.cluster import modern
from tests.downconvert.gateway.serving import LENGTH, Wire, gateway
from tests.downconvert.storage.logs import UNSYNCED

from . import belongings
from .belongings import WHOSE
from .operations import ANY_TOPIC, CASES, FOLLOWER, Case, Names
from .rules import CLUSTER, GROUP, ID, TOPIC, Settings, granted, writes_to_something

TOPIC_DENIED, GROUP_DENIED, CLUSTER_DENIED, ID_DENIED = 29, 30, 31, 53
DENIALS: Final = {
    TOPIC: {TOPIC_DENIED},
    GROUP: {GROUP_DENIED},
    CLUSTER: {CLUSTER_DENIED},
    ID: {ID_DENIED},
    ANY_TOPIC: {CLUSTER_DENIED},
    FOLLOWER: {TOPIC_DENIED, CLUSTER_DENIED},
}
UNKNOWN_TOPIC_ID: Final = 100
AUTHORIZATION: Final = frozenset().union(*DENIALS.values())
SERVE, GATEWAY = "serve", "gateway"
FETCH_AT_GATEWAY: Final = 15  # the newest: responses to later ones hold brokers' addresses
LOG_DIRS_TELL: Final = 3  # the first version of DescribeLogDirs whose responses have an error
METADATA_TELLS, GROUPS_TELL = 8, 3  # the first versions that tell operations
NOT_TOLD: Final = -(2**31)
# The codes of AclOperation, and which of them a broker of 3.9 reports.
BITS: Final = {
    "Read": 3,
    "Write": 4,
    "Create": 5,
    "Delete": 6,
    "Alter": 7,
    "Describe": 8,
    "ClusterAction": 9,
    "DescribeConfigs": 10,
    "AlterConfigs": 11,
    "IdempotentWrite": 12,
}
TOLD: Final = {TOPIC: set(BITS), CLUSTER: set(BITS), GROUP: {"Read", "Describe", "Delete"}}


class WrongError(AssertionError):
    """A client may do what its rule does not allow, or may not do what it does."""


@dataclass
class Side:
    """Where clients connect, and the broker that does what they ask."""

    name: str
    broker: Broker
    address: Address
    set_access: Any
    wire: Wire | None = None
    offered: dict[int, range] = field(default_factory=dict)

    def begin(self, access: Access) -> None:
        self.end()
        self.set_access(access)
        with Wire(self.address) as wire:
            response = wire.ask(ApiKey.ApiVersions, 0, Message())
        self.offered = {
            one.api_key: range(one.min_version, one.max_version + 1) for one in response.api_keys
        }

    def end(self) -> None:
        if self.wire is not None:
            self.wire.__exit__()
        self.wire = None

    def ask(self, api: ApiKey, version: int, body: Message) -> tuple[bytes, bytes] | None:
        """The bytes of the request and of the response; None: the connection ended instead."""
        if self.wire is None:
            self.wire = Wire(self.address)
        data = frame(api, version, body)
        try:
            self.wire.socket.sendall(LENGTH.pack(len(data)) + data)
            return data, self.wire.receive()
        except (EOFError, ConnectionError):
            self.end()
            return None


class Oracle:
    """Two brokers with the same things in them: one that is asked, one behind a gateway."""

    def __init__(self, path: Path) -> None:
        self.counts = Counter[str]()
        self._stack = ExitStack()
        direct, behind = self._served(path / "direct"), self._served(path / "behind", old=False)
        running = self._stack.enter_context(gateway(behind.address.port))

        def set_access(access: Access) -> None:
            running.config = replace(running.config, access=access)

        behind.broker.guard = guard_of(None, Access(follower_ids=frozenset({1})))
        behind.name, behind.address, behind.set_access = GATEWAY, running.address, set_access
        self.sides = (direct, behind)

    def __enter__(self) -> "Oracle":
        return self

    def __exit__(self, *_: object) -> None:
        for side in self.sides:
            side.end()
        self._stack.close()

    def _served(self, path: Path, *, old: bool = True) -> Side:
        path.mkdir()
        log_dir = LogDir.open(path, writable=True, files=UNSYNCED)
        self._stack.enter_context(log_dir)
        config = BrokerConfig(is_writable=True, group_initial_rebalance_delay_ms=0)
        broker = Broker(log_dir, config)
        server = Server(broker if old else modern(broker), ("127.0.0.1", 0))
        self._stack.enter_context(server)

        def set_access(access: Access) -> None:
            broker.guard = guard_of(None, access)

        return Side(SERVE, broker, Address(*server.address), set_access)

    # --- asking

    def ask_all(self, settings: Settings) -> None:
        """Asks everything as clients of a rule. WrongError."""
        for side in self.sides:
            self._begin(settings, side)
            for case in CASES:
                for version in _versions(side, case):
                    for whose in product(WHOSE, repeat=len(case.kinds())):
                        self._try(settings, side, case, version, whose)

    def ask_some(self, settings: Settings, random: Random) -> None:
        """Asks something of each case as a client of a rule. WrongError."""
        for side in self.sides:
            self._begin(settings, side)
        for case in CASES:
            side = random.choice(self.sides)
            whose = tuple(random.choice(WHOSE) for _ in case.kinds())
            self._try(settings, side, case, random.choice(_versions(side, case)), whose)

    def _begin(self, settings: Settings, side: Side) -> None:
        belongings.restore(side.broker)
        side.begin(access_of(settings, Access()))

    def _try(
        self, settings: Settings, side: Side, case: Case, version: int, whose: tuple[str, ...]
    ) -> None:
        names = belongings.names(side.broker, dict(zip(case.kinds(), whose, strict=True)))
        denied = [kind for kind, need in case.needs if not _is_granted(settings, kind, need, names)]
        before = belongings.state(side.broker) if case.changes and denied else {}
        answered = side.ask(case.api, version, case.request(version, names))
        try:
            how = _judge(settings, side, case, version, denied, answered)
            after = belongings.state(side.broker) if before else {}
            changed = sorted({name for name, _ in before.items() ^ after.items()})
            if changed:
                raise WrongError(f"changed: {', '.join(changed)}")
        except WrongError as error:
            asked = f"{side.name}: {case.api.name} v{version} of {names}"
            raise WrongError(f"{settings}: {asked}: {error}") from None
        self.counts[f"{side.name}, {how}"] += 1
        if case.changes and not denied:
            belongings.restore(side.broker)


def _versions(side: Side, case: Case) -> list[int]:
    """They include versions that a cluster has dropped and a gateway translates."""
    return [one for one in range(side.broker.versions[case.api].stop) if one in case.versions]


def _is_granted(settings: Settings, kind: str, operation: str, names: Names) -> bool:
    if kind == FOLLOWER:
        return False
    if kind == ANY_TOPIC:
        return writes_to_something(settings)
    return operation in granted(settings, kind, names.of(kind))


def _judge(
    settings: Settings,
    side: Side,
    case: Case,
    version: int,
    denied: list[str],
    answered: tuple[bytes, bytes] | None,
) -> str:
    """In a word, what has happened. WrongError: another result is right."""
    is_offered = version in side.offered.get(case.api, ())
    if not is_offered and not denied and not _may_be_missing(settings, side, case, version):
        raise WrongError("it is allowed, and not offered")
    if answered is None:
        if is_offered:
            raise WrongError("it is offered, and the connection ends")
        return "not offered"
    request, response = answered
    answer = parsed(case.api, version, response)
    codes = set(error_codes(case.api, answer))
    errors = codes & AUTHORIZATION
    if case.api is ApiKey.DescribeLogDirs and version < LOG_DIRS_TELL and not answer.results:
        errors.add(CLUSTER_DENIED)
    if version in case.by_id and UNKNOWN_TOPIC_ID in codes and denied:
        errors.add(TOPIC_DENIED)
    if denied and not errors:
        raise WrongError(f"{denied} are denied, and the response has errors {sorted(codes)}")
    if errors - {code for kind in denied for code in DENIALS[kind]}:
        raise WrongError(f"{denied} are denied, and the response has errors {sorted(codes)}")
    for kind in (TOPIC, GROUP, ID):
        for whose in ("own", "other"):
            name = belongings.name_of(kind, whose)
            is_told = name.encode() in response and name.encode() not in request
            if is_told and "Describe" not in granted(settings, kind, name):
                raise WrongError(f"the response names {name}")
    _judge_operations(settings, case, version, answer)
    return "denied" if denied else "allowed"


def _may_be_missing(settings: Settings, side: Side, case: Case, version: int) -> bool:
    """Whether it may be that what is allowed is not offered: what a request or a response says can
    not be checked."""
    if side.name == GATEWAY and case.api is ApiKey.Fetch and version > FETCH_AT_GATEWAY:
        return True
    return bool(settings) and (version in case.by_id or case.api is ApiKey.DescribeAcls)


def _judge_operations(settings: Settings, case: Case, version: int, response: Message) -> None:
    """A response names exactly the granted operations."""
    errors: list[tuple[str, str, int]] = []
    if case.api is ApiKey.Metadata and version >= METADATA_TELLS:
        errors = [(TOPIC, one.name, one.topic_authorized_operations) for one in response.topics]
        errors.append((CLUSTER, "", response.cluster_authorized_operations))
    elif case.api is ApiKey.DescribeGroups and version >= GROUPS_TELL:
        errors = [(GROUP, one.group_id, one.authorized_operations) for one in response.groups]
    elif case.api is ApiKey.DescribeCluster:
        errors = [(CLUSTER, "", response.cluster_authorized_operations)]
    for kind, name, bits in errors:
        if bits == NOT_TOLD:  # an error has no operations, nor has who did not ask
            continue
        expected = {one for one in granted(settings, kind, name) if one in TOLD[kind]}
        if bits != sum(1 << BITS[one] for one in expected):
            raise WrongError(f"{kind} {name}: {bits} for {sorted(expected)}")
