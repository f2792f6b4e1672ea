"""Two servers side by side, with connections to both: Kafka, and what answers as it does.

That is `serve --writable` beside Kafka 3.9.1, or the gateway in front of Kafka 4.4.0.

A request of a client goes to both servers at once. One that waits for others, as a group's members
do, leaves its client waiting; it is used again when both have answered."""

import select
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any, Final

from downconvert.access.guard import Guard
from downconvert.broker import Broker, BrokerConfig
from downconvert.broker.server import Server
from downconvert.protocol.errors import BadRequestError
from downconvert.protocol.schemas import ApiKey, Message
from downconvert.storage import LogDir
from tests.downconvert.broker.asking import parsed
from tests.downconvert.broker.talking import API_VERSIONS, Talk
from tests.downconvert.gateway.serving import gateway
from tests.downconvert.storage.logs import UNSYNCED
from tests.kafka_secured import authorizing
from tests.kafka_server import NEW, KafkaServer, running

from .envelope import framed
from .identities import KAFKA, OURS, SIDES
from .operations import Operation
from .users import (
    ADMINISTRATOR,
    ANY_HOST,
    USERS,
    User,
    connected,
    creations,
    jaas,
    lines,
    settings,
)

Address = tuple[str, int]
PROPERTIES: Final = {
    "log.retention.check.interval.ms": "86400000",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "86400000",
    "log.cleaner.enable": "false",
}
PATIENCE: Final = 20.0  # seconds for a response that has to come
PAIRS: Final = 3  # clients of a block
MOMENT: Final = 0.15  # in which a response comes that does not wait for another client
SETTLE: Final = 10.0
KNOWN: Final = set(ApiKey)
# Not asked where both servers have the users' ACLs: they would take the users' rights.
OF_ACLS: Final = (ApiKey.DescribeAcls, ApiKey.CreateAcls, ApiKey.DeleteAcls)
# Requests that prepare data, in versions that both brokers take. From version 5 on, responses to
# CreateTopics have the settings, and each broker has its own.
PREPARING: Final = {
    ApiKey.CreateTopics: range(2, 5),
    ApiKey.Produce: range(10),
    ApiKey.SyncGroup: range(6),
    ApiKey.DescribeConfigs: range(0),
}
# Kafka 4.4.0 says that it takes Produce 0 to 2, for a client that asks no more, and does not.
TAKEN: Final = {ApiKey.Produce: range(3, 100)}


class Pair:
    """One client of both servers."""

    def __init__(self, addresses: tuple[Address, Address], user: User | None = None) -> None:
        self._addresses = addresses
        self.user = user
        self.talks = [connected(address, user, PATIENCE) for address in addresses]
        self._heard: list[bytes | None] = [None, None]
        self.asked: Operation | None = None
        self.is_held = False  # a scene compares its response, when it is due
        self._last: Operation | None = None

    def close(self) -> None:
        for talk in self.talks:
            talk.socket.close()

    def reconnect(self) -> None:
        """Begins again, where a server has ended the connection, or the client leaves."""
        self.close()
        self.asked = None
        self.talks = [connected(address, self.user, PATIENCE) for address in self._addresses]

    def versions(self) -> list[dict[int, range]]:
        """Those that each server offers to this client."""
        return [_versions(talk) for talk in self.talks]

    def send(self, asked: Operation, bodies: list[Any]) -> None:
        self.asked, self._heard = asked, [None, None]
        for side, body in zip(SIDES, bodies, strict=True):
            self._send(side, body)

    def send_again(self, bodies: list[Any], sides: tuple[int, ...]) -> None:
        """To these servers only; the other response is the one that came before."""
        assert self._last is not None
        self.asked = self._last
        for side in sides:
            self._heard[side] = None
            self._send(side, bodies[side])

    def _send(self, side: int, body: Message) -> None:
        asked, talk = self.asked, self.talks[side]
        assert asked is not None
        try:
            talk.send_frame(framed(asked.envelope, asked.api, asked.version, body))
            if asked.is_unanswered:  # the next request is answered, if the connection lives
                talk.send(*API_VERSIONS)
        except OSError:
            self._heard[side] = b""

    def hear(self, seconds: float) -> list[bool]:
        """Which servers have answered, or ended the connection, within that time."""
        until = time.monotonic() + seconds
        while waiting := [side for side in SIDES if self._heard[side] is None]:
            sockets = [self.talks[side].socket for side in waiting]
            ready, _, _ = select.select(sockets, [], [], max(0.0, until - time.monotonic()))
            if not ready:
                break
            for side in waiting:
                if self.talks[side].socket in ready:
                    try:
                        self._heard[side] = self.talks[side].receive()
                    except (AssertionError, OSError):
                        self._heard[side] = b""
        return [frame is not None for frame in self._heard]

    def responses(self) -> list[Message | None]:
        """Both responses; None of a server that ended the connection."""
        assert self.asked is not None
        asked = self._last = self.asked
        self.asked = None
        if asked.is_unanswered:
            return [Message() if one else None for one in self._heard]
        return [read(asked, one) if one else None for one in self._heard]


def _versions(talk: Talk) -> dict[int, range]:
    response = talk.ask(ApiKey.ApiVersions, 2, Message())
    return {one.api_key: range(one.min_version, one.max_version + 1) for one in response.api_keys}


def _common(theirs: range, ours: range) -> range:
    return range(max(theirs.start, ours.start), min(theirs.stop, ours.stop))


def read(asked: Operation, response: bytes) -> Message:
    try:
        return parsed(asked.api, asked.envelope.response_version(asked.version), response)
    except BadRequestError as error:
        return Message(unreadable=str(error))


class Servers:
    """Both servers, and what is asked of them beside the operations.

    cluster: the broker behind the gateway, where Kafka is of an older version. Versions that it
    takes are not compared then, as brokers of two versions differ in them. users: the clients, of
    which the first may do everything; empty: all may. with_acls: the servers that have ACLs for
    the users; the other one has rules."""

    def __init__(
        self,
        addresses: tuple[Address, Address],
        *,
        is_gateway: bool = False,
        cluster: Address | None = None,
        users: Sequence[User] = (),
        with_acls: Sequence[int] = (KAFKA,),
    ) -> None:
        self.addresses = addresses
        self.is_gateway = is_gateway
        self.users = users
        self._with_acls = with_acls
        administrator = users[0] if users else None
        self._talks = [connected(address, administrator, PATIENCE) for address in addresses]
        self._cluster = cluster

    def ask(self, side: int, api: ApiKey, version: int, body: Any) -> Message:
        return self._talks[side].ask(api, version, body)

    def pairs(self, seed: str, block: int, count: int = PAIRS) -> list[Pair]:
        """The clients of a block. With users, the first is one that may do everything, and others
        are chosen by the seed."""
        if not self.users:
            return [Pair(self.addresses) for _ in range(count)]
        self._create_acls(block)
        administrator, *others = self.users
        chosen = Random(f"{seed}/users").sample(others, count - 1)
        return [Pair(self.addresses, user) for user in (administrator, *chosen)]

    def _create_acls(self, block: int) -> None:
        asked = creations(block)
        last = asked.creations[-1]
        all_of_it = Message(
            **{f"{name}_filter": vars(last)[name] for name in ("resource_type", "resource_name")},
            pattern_type_filter=last.resource_pattern_type,
            principal_filter=last.principal,
            host_filter=last.host,
            operation=last.operation,
            permission_type=last.permission_type,
        )
        for side in self._with_acls:
            response = self.ask(side, ApiKey.CreateAcls, 3, asked)
            assert not any(one.error_code for one in response.results), response
            is_known = partial(self._has_acls, side, all_of_it)
            assert self.until(is_known)

    def _has_acls(self, side: int, asked: Message) -> bool:
        return bool(self.ask(side, ApiKey.DescribeAcls, 3, asked).resources)

    def versions(self) -> dict[ApiKey, range]:
        """Those that are compared."""
        if self.users:  # clients with limited rights have fewer versions here
            limited = Pair(self.addresses, self.users[-1])
            theirs, ours = limited.versions()
            limited.close()
        else:
            theirs, ours = (_versions(talk) for talk in self._talks)
        common = {api: _common(theirs[api], ours[api]) for api in theirs.keys() & ours.keys()}
        if self._cluster is not None:
            with Talk(self._cluster, seconds=PATIENCE) as talk:
                taken = _versions(talk)
            for api in common.keys() & taken.keys():
                old = common[api]
                former = range(old.start, min(old.stop, taken[api].start))
                common[api] = _common(old, PREPARING[api]) if api in PREPARING else former
        elif self.is_gateway:
            common |= {api: _common(common[api], taken) for api, taken in TAKEN.items()}
        left_out = OF_ACLS if OURS in self._with_acls else ()
        return {ApiKey(api): common[api] for api in sorted(common) if api in KNOWN - {*left_out}}

    def close(self) -> None:
        for talk in self._talks:
            talk.socket.close()

    def wake(self) -> None:
        """Kafka has neither groups nor transactions before it is asked where they are."""
        for kind in (0, 1):
            body = Message(key="warm", key_type=kind)
            self.until(partial(self._is_told, ApiKey.FindCoordinator, 2, body))
        asked = Message(group_id="warm", topics=[])
        self.until(partial(self._is_told, ApiKey.OffsetFetch, 5, asked))
        producer = Message(transactional_id="warm", transaction_timeout_ms=1000)
        for side in SIDES:
            self.until(partial(self._has_begun, side, producer))

    def _is_told(self, api: ApiKey, version: int, body: Message) -> bool:
        return all(self.ask(side, api, version, body).error_code == 0 for side in SIDES)

    def _has_begun(self, side: int, producer: Message) -> bool:
        return bool(self.ask(side, ApiKey.InitProducerId, 1, producer).error_code == 0)

    def delete(self, topics: list[str]) -> None:
        """Those that are there."""
        body = Message(topic_names=topics, timeout_ms=10_000)
        for side in SIDES:
            self.ask(side, ApiKey.DeleteTopics, 1, body)

    def until(self, holds: Callable[[], bool]) -> bool:
        """Whether it holds before long."""
        deadline = time.monotonic() + SETTLE
        while not holds():
            if time.monotonic() > deadline:
                return False
            time.sleep(0.01)
        return True


@contextmanager
def side_by_side(*, creates_topics: bool = False) -> Iterator[Servers]:
    """creates_topics: whether Metadata of an unknown topic creates it."""
    config = BrokerConfig(
        is_writable=True,
        group_initial_rebalance_delay_ms=0,
        offsets_topic_num_partitions=1,
        auto_create_topics=creates_topics,
    )
    properties = PROPERTIES | {"auto.create.topics.enable": str(creates_topics).lower()}
    with (
        TemporaryDirectory(prefix="differences-") as directory,
        running(properties=properties) as kafka,
        LogDir.open(Path(directory), writable=True, files=UNSYNCED) as log_dir,
        Server(Broker(log_dir, config)) as server,
    ):
        servers = Servers((("127.0.0.1", kafka.ports[0]), server.address))
        try:
            servers.wake()
            yield servers
        finally:
            servers.close()


@contextmanager
def with_users() -> Iterator[Servers]:
    """As `side_by_side`, with users of different rights: Kafka has ACLs, and `serve` has rules."""
    config = BrokerConfig(
        is_writable=True, group_initial_rebalance_delay_ms=0, offsets_topic_num_partitions=1
    )
    with (
        TemporaryDirectory(prefix="differences-") as directory,
        TemporaryDirectory(prefix="users-") as beside,
        authorizing(jaas(), ADMINISTRATOR, PROPERTIES) as (_, port),
        LogDir.open(Path(directory), writable=True, files=UNSYNCED) as log_dir,
    ):
        users_file = Path(beside) / "users"
        users_file.write_text(lines())
        broker = Broker(log_dir, config)
        broker.guard = Guard.of(settings(str(users_file)))
        with Server(broker) as server:
            servers = Servers((("127.0.0.1", port), server.address), users=USERS)
            try:
                servers.wake()
                yield servers
            finally:
                servers.close()


@contextmanager
def in_front(version: str) -> Iterator[Servers]:
    """Kafka of a version, and the gateway in front of Kafka 4.4.0."""
    with (
        running(version, properties=PROPERTIES) as kafka,
        running(NEW, properties=PROPERTIES) as cluster,
        gateway(*cluster.ports) as front,
    ):
        addresses = ("127.0.0.1", kafka.ports[0]), (front.address.host, front.address.port)
        yield from _through_gateway(addresses, _behind(version, cluster))


@contextmanager
def in_front_with_rules(version: str) -> Iterator[Servers]:
    """As `in_front`, with users of different rights: Kafka has ACLs, and the gateway has rules."""
    with (
        TemporaryDirectory(prefix="users-") as beside,
        authorizing(jaas(), ADMINISTRATOR, PROPERTIES, version) as (_, port),
        running(NEW, properties=PROPERTIES) as cluster,
    ):
        users_file = Path(beside) / "users"
        users_file.write_text(lines())
        rules = Guard.of(settings(str(users_file))).identities
        with gateway(*cluster.ports, identities=rules) as front:
            addresses = ("127.0.0.1", port), (front.address.host, front.address.port)
            yield from _through_gateway(addresses, _behind(version, cluster), users=USERS)


@contextmanager
def in_front_with_acls(version: str) -> Iterator[Servers]:
    """As `in_front_with_rules`, but users log in at the cluster, through the gateway. The cluster
    has the ACLs that Kafka of the other version has. It sees the gateway's address in place of a
    client's, so users whose rights depend on their address are left out."""
    users = [user for user in USERS if all(acl.host == ANY_HOST for acl in user.acls)]
    with (
        authorizing(jaas(), ADMINISTRATOR, PROPERTIES, version) as (_, port),
        authorizing(jaas(), ADMINISTRATOR, PROPERTIES, NEW) as (cluster, secure),
        gateway(secure) as front,
    ):
        addresses = ("127.0.0.1", port), (front.address.host, front.address.port)
        behind = _behind(version, cluster)
        yield from _through_gateway(addresses, behind, users=users, with_acls=SIDES)


def _behind(version: str, cluster: KafkaServer) -> Address | None:
    """The cluster, if its version is another than that of Kafka beside it."""
    return None if version == NEW else ("127.0.0.1", cluster.ports[0])


def _through_gateway(
    addresses: tuple[Address, Address], cluster: Address | None, **options: Any
) -> Iterator[Servers]:
    servers = Servers(addresses, is_gateway=True, cluster=cluster, **options)
    try:
        servers.wake()
        yield servers
    finally:
        servers.close()
