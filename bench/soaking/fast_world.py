"""A `serve` and a gateway with simulated clocks, and the events around them.

There are clients with new names, users who fail to log in, topics, groups, producers, brokers that
fail and are replaced, and disks that are full for a while. There are no sockets and no threads, so
an hour takes some seconds.

Not here: the duration, and the measurements (fast_soak.py)."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from random import Random
from typing import Any, Final

from downconvert.access.failed_logins import FailedLogins
from downconvert.access.guard import Guard
from downconvert.access.identity import ClientRule, Identities, Users
from downconvert.access.ledger import OwnLedger
from downconvert.access.quotas import Quotas
from downconvert.access.rights import Access
from downconvert.broker import BadRequestError, Broker, BrokerConfig, Client
from downconvert.broker.endings import End
from downconvert.broker.operating.disk_room import DiskRoom
from downconvert.broker.operating.maintenance import Maintenance
from downconvert.broker.operating.request_log import log_end
from downconvert.gateway.advertised import Advertised
from downconvert.gateway.config import GatewayConfig
from downconvert.gateway.figures import End as GatewayEnd
from downconvert.gateway.identity import ClientRule as GatewayRule
from downconvert.gateway.identity import Identities as GatewayIdentities
from downconvert.gateway.network.connection_log import log_refusal
from downconvert.gateway.server import Gateway
from downconvert.gateway.session.census import ClientCensus
from downconvert.gateway.session.session import Session
from downconvert.gateway.session.shared import Ledgers
from downconvert.gateway.topology import Address
from downconvert.protocol.errors import ApiError, BrokerError
from downconvert.protocol.schemas import ApiKey, Message
from downconvert.serving.places import NoPlaceError, Place
from downconvert.storage import DiskFullError, LogConfig, LogDir, StorageError
from downconvert.storage.disk.files import WritableFile
from records import RecordsError, build
from records.record import Record
from records.units import KiB
from tests.downconvert.broker.asking import frame
from tests.downconvert.gateway.cluster import Through, modern
from tests.downconvert.gateway.talk import fetch_body, message_set, produce_body
from tests.downconvert.storage.logs import UNSYNCED, UnsyncedDisk, UnsyncedFile

STEP: Final = 120.0  # seconds of the world, so that an hour takes some seconds
EPOCH: Final = 1_700_000_000.0  # its time of day when it begins
NAMES_MAX: Final = 200  # of a ledger or a census, so that they are full soon
TOPICS: Final = 12  # at a time
PLACES: Final = 100
POD: Final = "bcdfghjklmnpqrstvwxz2456789"
USERS: Final = {"ann": "secret", "bob": "other"}
RATED: Final = Access(producer_byte_rate=1e6, consumer_byte_rate=1e6)
RULES: Final = tuple(ClientRule(access=RATED, credentials=None, user=user) for user in USERS)
GATEWAY_RULES: Final = tuple(
    GatewayRule(access=RATED, credentials=None, user=user) for user in USERS
)
CONFIG: Final = BrokerConfig(
    is_writable=True,
    auto_create_topics=True,
    group_initial_rebalance_delay_ms=0,
    offsets_retention_minutes=10,
    offsets_retention_check_interval_ms=60_000,
    producer_id_expiration_ms=600_000,
    producer_id_expiration_check_interval_ms=60_000,
    transactional_id_expiration_ms=600_000,
    transaction_remove_expired_transaction_cleanup_interval_ms=60_000,
    log_retention_check_interval_ms=60_000,
    fetch_session_slots=50,
)
LOGS: Final = LogConfig(segment_bytes=64 * KiB, retention_ms=600_000)


class FillingDisk(UnsyncedDisk):
    """The disk of a machine, which is full for a while."""

    def __init__(self) -> None:
        self.is_full = False

    def open(self, path: Path) -> WritableFile:
        return FillingFile(path, self)


class FillingFile(UnsyncedFile):
    def __init__(self, path: Path, disk: FillingDisk) -> None:
        super().__init__(path)
        self._disk = disk

    def write_at(self, data: Any, position: int) -> None:
        if self._disk.is_full:
            raise DiskFullError(str(self.path))
        super().write_at(data, position)


class World:
    """The servers and their clients, with a time of their own: `now`, in seconds."""

    def __init__(self, serve: LogDir, cluster: LogDir, disk: FillingDisk, seed: int) -> None:
        self.now = 0.0
        self.random = Random(seed)
        self.disk = disk
        self.broker = Broker(serve, CONFIG)
        self.broker.time_of_day.shift = EPOCH
        self.broker.failed_logins = FailedLogins(OwnLedger(NAMES_MAX))
        self.broker.quotas = Quotas(OwnLedger(NAMES_MAX))
        identities = Identities(users=Users(USERS), rules=RULES)
        self.broker.guard = Guard(identities=identities)
        self.maintenance = Maintenance(self.broker)
        self.room = DiskRoom(serve)
        behind = modern(Broker(cluster, replace(CONFIG, auto_create_topics=False)))
        behind.topics.create("t", 1, {}, 0)
        config = GatewayConfig(
            bootstrap=(Address("cluster", 9092),),
            identities=GatewayIdentities(users=Users(USERS), rules=GATEWAY_RULES),
        )
        ledgers = Ledgers(OwnLedger(NAMES_MAX), OwnLedger(NAMES_MAX))
        self.gateway = Gateway(config, ledgers=ledgers, clock=lambda: self.now)
        self.gateway.census = ClientCensus(NAMES_MAX)
        self.through = Through(behind, config)
        self.places = list[Place]()
        self.topics = list[str]()
        self.requests = 0  # sent so far
        self.client_ids = 0

    def step(self) -> None:
        """Runs the events of STEP seconds."""
        self.now += STEP
        for happen in self.random.choices(HAPPENINGS, k=4):
            with suppress(BadRequestError, ApiError, BrokerError, RecordsError, StorageError):
                happen(self)
        self.broker.tick(self.now)
        for _ in range(1000):
            if self.maintenance.step(EPOCH + self.now) > 1.0:
                break
        self.broker.lines.write_omitted(self.now)
        self.gateway.lines.write_omitted(self.now)
        self.room.failure(self.now)

    # --- names

    def pod(self) -> str:
        """The name of a client from a scheduler."""
        tail = "".join(self.random.choices(POD, k=5))
        return (
            f"{self.random.choice(('orders', 'billing'))}-{self.random.randrange(16**9):x}-{tail}"
        )

    def address(self) -> str:
        return f"10.{self.random.randrange(256)}.{self.random.randrange(256)}.7"

    # --- clients of `serve`

    def client(self, user: str = "ann") -> Client:
        """A client that has logged in."""
        self.client_ids += 1
        client = Client(self.client_ids, self.address())
        password = USERS[user].encode()
        self.ask(client, ApiKey.SaslHandshake, 1, Message(mechanism="PLAIN"))
        token = b"\0" + user.encode() + b"\0" + password
        self.ask(client, ApiKey.SaslAuthenticate, 1, Message(auth_bytes=token))
        return client

    def ask(self, client: Client, api: ApiKey, version: int, body: Message) -> None:
        """Sends a request and takes the response, or disconnects if it does not come soon."""
        self.requests += 1
        data = memoryview(frame(api, version, body, self.pod()))
        exchange = self.broker.handle(client, data, self.now)
        for _ in range(10):
            if exchange.is_done:
                break
            self.broker.tick(self.now)
        if exchange.send is not None:
            channel = BytesIO()
            while not exchange.send.completed:
                exchange.send.write_to(channel)
        self.broker.finished(exchange, self.now)

    def ask_gateway(self, api: ApiKey, version: int, body: Message, client_id: str) -> None:
        """Sends a request through the session of `through`."""
        self.requests += 1
        self.through.reply(frame(api, version, body, client_id))

    def topic(self) -> str:
        return self.random.choice(self.topics) if self.topics else "none"


# --- events


def clients_come_and_go(world: World) -> None:
    client = world.client(world.random.choice(tuple(USERS)))
    software = Message(client_software_name="lib", client_software_version="1.0")
    world.ask(client, ApiKey.ApiVersions, 3, software)
    world.ask(client, ApiKey.Metadata, 4, Message(topics=[Message(name=world.topic())]))
    version = world.random.choice((0, 1, 2, 4, 7))
    part = Message(partition=0, fetch_offset=0, partition_max_bytes=10_000)
    body = Message(
        replica_id=-1,
        max_bytes=10_000,
        session_epoch=0,
        topics=[Message(topic=world.topic(), partitions=[part])],
    )
    world.ask(client, ApiKey.Fetch, version, body)
    end = world.random.choice((End.CLIENT, End.RESPONSE, End.LOGIN))
    log_end(world.broker.lines, client, end, "it has gone", 1.0, world.now)


def producers_come_and_go(world: World) -> None:
    client = world.client()
    producer = world.random.randrange(1_000_000)
    records = [Record(0, int(1000 * (EPOCH + world.now)), value=world.random.randbytes(500))]
    new = build(records, magic=2, producer_id=producer, producer_epoch=0, base_sequence=0)
    batches = (new, message_set(1, b"old"), message_set(0, b"older"))
    for version, batch in zip((3, 2, 0), batches, strict=True):
        part = Message(index=0, records=batch)
        topics = [Message(name=world.topic(), partition_data=[part])]
        body = Message(acks=1, timeout_ms=1000, topic_data=topics)
        world.ask(client, ApiKey.Produce, version, body)


def topics_come_and_go(world: World) -> None:
    client, name = world.client(), f"topic-{world.pod()}"
    made = Message(name=name, num_partitions=2, replication_factor=1)
    world.ask(client, ApiKey.CreateTopics, 2, Message(topics=[made], timeout_ms=1000))
    world.topics.append(name)
    if len(world.topics) > TOPICS:
        gone = world.topics.pop(0)
        world.ask(client, ApiKey.DeleteTopics, 1, Message(topic_names=[gone], timeout_ms=1000))


def groups_come_and_go(world: World) -> None:
    client, group = world.client(), f"group-{world.pod()}"
    protocols = [Message(name="range", metadata=b"")]
    joins = Message(
        group_id=group,
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        member_id="",
        protocol_type="consumer",
        protocols=protocols,
    )
    world.ask(client, ApiKey.JoinGroup, 1, joins)
    part = Message(partition_index=0, committed_offset=0, committed_metadata="")
    topics = [Message(name=world.topic(), partitions=[part])]
    simple = Message(
        group_id=f"simple-{group}", generation_id_or_member_epoch=-1, member_id="", topics=topics
    )
    world.ask(client, ApiKey.OffsetCommit, 2, simple)


def transactions_begin(world: World) -> None:
    body = Message(transactional_id=f"tx-{world.pod()}", transaction_timeout_ms=60_000)
    world.ask(world.client(), ApiKey.InitProducerId, 2, body)


def logins_fail(world: World) -> None:
    for _ in range(20):
        world.client_ids += 1
        client, user = Client(world.client_ids, world.address()), world.pod()
        world.ask(client, ApiKey.SaslHandshake, 1, Message(mechanism="PLAIN"))
        token = f"\0{user}\0guess".encode()
        world.ask(client, ApiKey.SaslAuthenticate, 1, Message(auth_bytes=token))
        log_end(world.broker.lines, client, End.LOGIN, "failed login", 0.1, world.now)


def clients_use_the_gateway(world: World) -> None:
    through, name = world.through, world.pod()
    shared = world.gateway.shared
    shared.topology.api_versions = (
        shared.topology.api_versions or through.shared.topology.api_versions
    )
    through.session = Session(shared, world.address(), Advertised("gateway"))
    through.now = EPOCH + world.now
    user = world.random.choice((*USERS, world.pod()))
    token = f"\0{user}\0{USERS.get(user, 'guess')}".encode()
    world.ask_gateway(ApiKey.SaslHandshake, 1, Message(mechanism="PLAIN"), name)
    world.ask_gateway(ApiKey.SaslAuthenticate, 1, Message(auth_bytes=token), name)
    if user not in USERS:
        return
    world.ask_gateway(ApiKey.Metadata, 1, Message(topics=None), name)
    version = world.random.choice((0, 1, 3, 4, 12))
    for api, body in (
        (ApiKey.Fetch, fetch_body(0, max_bytes=1000)),
        (ApiKey.Produce, produce_body(message_set(0, b"x"))),
    ):
        with suppress(BadRequestError):
            world.ask_gateway(api, version if api is ApiKey.Fetch else 0, body, name)


def brokers_fail_and_are_replaced(world: World) -> None:
    nodes = [Message(node_id=number, host=world.address(), port=9092) for number in range(10)]
    world.gateway.topology.set_brokers(nodes)
    for node in nodes:
        address = Address(node.host, node.port)
        for _ in range(5):
            world.gateway.report_broker(address, "it does not answer")
            lines, audit, client = world.gateway.lines, world.gateway.audit, world.address()
            log_refusal(lines, audit, client, "no broker answers", GatewayEnd.REFUSED, world.now)
        world.gateway.report_broker(address, None)
        world.gateway.counters.broker_answered(str(address), 0.1, "Fetch")


def places_are_taken(world: World) -> None:
    for _ in range(20):
        with suppress(NoPlaceError):
            place = world.gateway.places.take(world.address(), PLACES, PLACES)
            world.places.append(place)
    for place in world.places[:-50]:
        place.release()
    del world.places[:-50]


def disks_fill_up(world: World) -> None:
    world.disk.is_full = not world.disk.is_full and world.random.random() < 0.5


HAPPENINGS: Final[tuple[Callable[[World], None], ...]] = (
    clients_come_and_go,
    clients_come_and_go,
    producers_come_and_go,
    topics_come_and_go,
    groups_come_and_go,
    transactions_begin,
    logins_fail,
    clients_use_the_gateway,
    clients_use_the_gateway,
    brokers_fail_and_are_replaced,
    places_are_taken,
    disks_fill_up,
)


@contextmanager
def world(directory: Path, seed: int) -> Iterator[World]:
    """A world in two directories below this one."""
    disk = FillingDisk()
    (directory / "serve").mkdir()
    (directory / "cluster").mkdir()
    with (
        LogDir.open(directory / "serve", writable=True, config=LOGS, files=disk) as serve,
        LogDir.open(directory / "cluster", writable=True, config=LOGS, files=UNSYNCED) as cluster,
    ):
        made = World(serve, cluster, disk, seed)
        try:
            yield made
        finally:
            disk.is_full = False
            made.maintenance.close()
            made.gateway.pool.close()
