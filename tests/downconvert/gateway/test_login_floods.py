"""Clients that guess passwords at `serve` and at the gateway, and others that log in meanwhile.

Over sockets, since what is held for a guess are connections, and places for them. A guess waits
longer here than any test does, so a client that is delayed by it gets no response in time."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Thread

import pytest
from kafka import KafkaConsumer
from kafka.errors import KafkaError

from downconvert.access import failed_logins
from downconvert.access.guard import Guard
from downconvert.access.identity import Identities, Users
from downconvert.broker import Broker
from downconvert.broker.server import Server
from downconvert.gateway.config import Limits
from downconvert.gateway.topology import Address
from downconvert.protocol.schemas import ApiKey, Message
from downconvert.serving.limits import Limits as BrokerLimits
from downconvert.storage import LogDir
from records import Record, build
from records.formats import V1
from records.units import KiB, MiB
from tests.downconvert.broker.asking import frame
from tests.downconvert.broker.talking import Talk
from tests.waiting import wait_for

from .serving import Wire, cluster, gateway

LONG_TOKEN = "x" * 40_000
USERS = Users({"ann": "secret", "bob": "other", "eve": LONG_TOKEN})
PLACES = 100
MEMORY = 24 * MiB
LONG = 1000.0  # seconds


@dataclass(frozen=True)
class Guarded:
    """A server that clients log in to."""

    address: Address
    connections: Callable[[], int]


@pytest.fixture(params=["serve", "gateway"])
def guarded(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Guarded]:
    monkeypatch.setattr(failed_logins, "LONGEST_WAIT", LONG)
    if request.param == "gateway":
        identities = Identities(users=USERS)
        with (
            cluster(tmp_path, "t") as (_, port),
            gateway(port, identities=identities, limits=Limits(connections=PLACES)) as running,
        ):
            wait_for(lambda: running.topology.api_versions is not None)
            yield Guarded(running.address, lambda: len(running.places))
        return
    broker = Broker(LogDir.open(tmp_path))
    broker.guard = Guard(identities=Identities(users=USERS))
    with Server(broker, limits=BrokerLimits(connections=PLACES)) as server:
        yield Guarded(Address(*server.address), lambda: len(server.places))


@pytest.fixture(params=["serve", "gateway"])
def with_memory(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Address]:
    """A server with little memory for requests."""
    if request.param == "gateway":
        limits, identities = Limits(requests_memory=MEMORY), Identities(users=USERS)
        with (
            cluster(tmp_path, "t") as (_, port),
            gateway(port, identities=identities, limits=limits) as running,
        ):
            wait_for(lambda: running.topology.api_versions is not None)
            yield running.address
        return
    broker = Broker(LogDir.open(tmp_path))
    broker.guard = Guard(identities=Identities(users=USERS))
    with Server(broker, limits=BrokerLimits(requests_memory=MEMORY)) as server:
        yield Address(*server.address)


def offer(client: Wire, user: str, password: str) -> None:
    """Sends a login, and waits for no response to it."""
    client.ask(ApiKey.SaslHandshake, 1, Message(mechanism="PLAIN"))
    token = f"\0{user}\0{password}".encode()
    client.send(ApiKey.SaslAuthenticate, 0, Message(auth_bytes=token))


def log_in(address: Address, user: str, password: str) -> None:
    """Fails after the time that a client here waits for a response."""
    with Wire(address) as client:
        offer(client, user, password)
        assert len(client.receive()) > 4
        client.ask(ApiKey.Metadata, 1, Message(topics=None))


def test_logins_that_were_sent_and_dropped_delay_no_other_user(guarded: Guarded) -> None:
    for _ in range(200):
        with Wire(guarded.address) as client, suppress(EOFError, ConnectionError):
            offer(client, "ann", "guess")
    log_in(guarded.address, "bob", "other")


def test_stock_clients_with_an_old_password_delay_no_other_user(guarded: Guarded) -> None:
    def ask(user: str, password: str, seconds: float) -> None:
        client = KafkaConsumer(
            bootstrap_servers=str(guarded.address),
            security_protocol="SASL_PLAINTEXT",
            sasl_mechanism="PLAIN",
            sasl_plain_username=user,
            sasl_plain_password=password,
            bootstrap_timeout_ms=int(seconds * 1000),
        )
        try:
            client.topics()
        finally:
            client.close()

    def fail() -> None:
        with pytest.raises(KafkaError):
            ask("ann", "old", seconds=1.5)

    guessers = [Thread(target=fail) for _ in range(3)]
    for guesser in guessers:
        guesser.start()
    for _ in range(3):
        ask("bob", "other", seconds=60.0)
    for guesser in guessers:
        guesser.join()


def test_a_client_that_leaves_while_it_waits_frees_its_place(guarded: Guarded) -> None:
    with ExitStack() as stack:
        for _ in range(40):
            client = stack.enter_context(Wire(guarded.address))
            with suppress(EOFError, ConnectionError):
                offer(client, "ann", "guess")
    wait_for(lambda: guarded.connections() == 0)


@pytest.mark.parametrize("guesses", [True, False])
def test_clients_that_do_not_log_in_block_no_other_client(guarded: Guarded, guesses: bool) -> None:
    with ExitStack() as stack, Wire(guarded.address) as user:
        offer(user, "bob", "other")
        user.receive()
        for _ in range(PLACES + 20):
            client = stack.enter_context(Wire(guarded.address))
            with suppress(EOFError, ConnectionError):
                if guesses:
                    offer(client, "ann", "guess")
        log_in(guarded.address, "bob", "other")
        user.ask(ApiKey.Metadata, 1, Message(topics=None))  # who has logged in keeps its place
        assert guarded.connections() <= PLACES


def begin_logins(stack: ExitStack, address: Address, source: str = "") -> None:
    """Clients send so much of their logins that no memory for logins is left, and no more."""
    asked = ApiKey.SaslAuthenticate, 1, Message(auth_bytes=bytes(500 * KiB))
    begun = frame(*asked)[: 480 * KiB]
    for _ in range(2 * MEMORY // len(begun)):
        client = stack.enter_context(Talk(address, source=source))
        client.ask(ApiKey.SaslHandshake, 1, Message(mechanism="PLAIN"))
        client.socket.setblocking(False)
        data = memoryview(len(frame(*asked)).to_bytes(4) + begun)
        with suppress(BlockingIOError):
            while data:
                data = data[client.socket.send(data) :]


def test_logins_that_never_end_take_no_memory_from_clients_that_have_logged_in(
    with_memory: Address,
) -> None:
    records = build([Record(0, 0, value=bytes(100 * KiB))], magic=V1)
    topic = Message(name="t", partition_data=[Message(index=0, records=records)])
    large = Message(acks=1, timeout_ms=1000, topic_data=[topic])
    with ExitStack() as stack, Wire(with_memory) as user:
        offer(user, "bob", "other")
        user.receive()
        begin_logins(stack, with_memory)
        for _ in range(20):  # the server has read what it may meanwhile
            user.ask(ApiKey.Metadata, 1, Message(topics=[]))
        assert user.ask(ApiKey.Produce, 2, large).responses
        log_in(with_memory, "bob", "other")


def test_logins_that_never_end_delay_no_long_token_from_another_address(
    with_memory: Address,
) -> None:
    """Tokens of OAUTHBEARER may have some KiB, and so take memory."""
    with ExitStack() as stack:
        begin_logins(stack, with_memory, "127.0.0.2")
        for _ in range(3):
            log_in(with_memory, "eve", LONG_TOKEN)
