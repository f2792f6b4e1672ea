"""Mutants of requests of every kind and version, each of a seed and a number alone.

A mutant may be answered, wait, be answered with nothing, or end its connection. An exception that
is not the broker's own is a defect, and so is a response whose length is not what it says.

With users, the mutants come from clients that are logged in, that log in, and that are not, and are
checked for what they may not be told.

Not here: how many are tried (test_hostile.py; by the million, bench/fuzz_requests.py)."""

from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any, Final

from downconvert.access.credentials import MECHANISMS, Proved
from downconvert.access.guard import Guard
from downconvert.access.identity import ClientRule
from downconvert.access.rights import Access, parse_network
from downconvert.broker import BadRequestError, Broker, BrokerConfig, Client
from downconvert.broker.handlers.apis import APIS
from downconvert.broker.handlers.sasl import BEFORE
from downconvert.protocol.schemas import ApiKey, Field, Message, schema
from downconvert.storage import LogDir, TopicPartition
from records import Codec, Record, RecordsError, build
from tests.damage import mutated
from tests.downconvert.storage.logs import batch

from .asking import frame, someone
from .guarding import guard_of

LENGTH_SIZE: Final = 4
USERS: Final = {"root": "r", "part": "p", "reads": "s"}
SECRETS: Final = (b"secret-topic", b"what only root may read")
KNOWN_NETWORK, OTHER_NETWORK = "10.1.0.{}", "10.2.0.{}"
NETWORKS: Final = (parse_network("10.1.0.0/16"),)
PART: Final = Access(
    topics=("t", "u*"), written_topics=("u*",), groups=("g",), transactional_ids=("t",)
)
NAMES: Final = ("t", "u", "", "g", "PLAIN", "range")
NUMBERS: Final = (0, 0, 0, 1, 1, 2, -1, 5, 100, 2**15 - 1)
BATCHES: Final = tuple(batch(0, 1, 2, codec=codec) for codec in Codec)
CONVERTED: Final = tuple(batch(0, 1, magic=magic) for magic in (0, 1))


@contextmanager
def hostile_broker(directory: Path, *, writable: bool = False) -> Iterator[Broker]:
    """One with a topic of two partitions, with records of every codec."""
    with LogDir.open(directory, writable=True) as log_dir:
        for partition in range(2):
            writer = log_dir.logs.create(TopicPartition("t", partition)).writer
            for number, codec in enumerate(Codec):
                writer.append(batch(2 * number, 2 * number + 1, codec=codec))
        yield Broker(log_dir, BrokerConfig(is_writable=writable))


@contextmanager
def guarded_broker(directory: Path) -> Iterator[Broker]:
    """One that may be written to, with users that have rights of every kind, and a topic that only
    one of them may know of."""
    with hostile_broker(directory, writable=True) as broker:
        broker.topics.create(SECRETS[0].decode(), 1, {}, 0)
        made = broker.topics[SECRETS[0].decode()].partitions[0]
        made.log.writer.append(build([Record(0, 0, value=SECRETS[1])], magic=2))
        reads = Access(is_read_only=True, topics=("t", "u*"), consumer_byte_rate=1e6)
        rules = guard_of(USERS, root=Access(), part=PART, reads=reads).identities
        of_network = ClientRule(access=PART, credentials=None, networks=NETWORKS)
        rules = replace(rules, rules=(*rules.rules, of_network))
        broker.guard = Guard(identities=rules)
        yield broker


def made_up(fields: tuple[Field, ...], version: int, random: Random) -> Message:
    """A message with something in every field."""
    return Message(
        **{
            field.name: _value(field, version, random)
            for field in fields
            if version in field.versions
        }
    )


def _value(field: Field, version: int, random: Random) -> Any:
    if field.is_array:
        if version in field.nullable and random.random() < 0.1:
            return None
        return [_element(field, version, random) for _ in range(random.choice((0, 1, 1, 2)))]
    if version in field.nullable and random.random() < 0.1:
        return None
    return _element(field, version, random)


def _element(field: Field, version: int, random: Random) -> Any:
    match field.type:
        case "struct":
            return made_up(field.fields, version, random)
        case "string":
            return random.choice(NAMES)
        case "records":
            return random.choice(BATCHES + CONVERTED)
        case "bytes":
            return random.choice((b"", b"\0a\0b", random.randbytes(20)))
        case "bool":
            return random.random() < 0.5
        case "uuid":
            return random.choice((bytes(16), random.randbytes(16)))
        case "int8":
            return random.choice((0, 1, -1))
        case "float64":
            return random.random()
        case "uint16" | "uint32":
            return random.choice((0, 1, 9092))
        case kind:
            bits = int(kind.removeprefix("int")) - 1
            return random.choice((*NUMBERS, 2**bits - 1, -(2**bits)))


def request(random: Random) -> bytes:
    """A frame that is well formed, of some API and version."""
    api = random.choice(tuple(APIS))
    version = random.choice(APIS[api].versions)
    body = made_up(schema(f"{api.name}Request").fields, version, random)
    if api is ApiKey.Fetch:  # it need not wait
        body.max_wait_ms = random.choice((0, 0, 100))
    return frame(api, version, SimpleNamespace(**vars(body)))


def attempt(broker: Broker, seed: int, number: int, now: float) -> str:
    """Tries one; what became of it. Raises what no request may."""
    random = Random(f"{seed}/{number}")
    return _outcome(broker, someone(), _spoiled(request(random), random), now)


def attempt_as_somebody(broker: Broker, seed: int, number: int, now: float) -> str:
    """Tries one as a client of `guarded_broker`."""
    random = Random(f"{seed}/{number}")
    client = someone(random.choice((KNOWN_NETWORK, OTHER_NETWORK)).format(number % 25))
    kind = random.random()
    if kind < 0.2:
        return _log_in(broker, client, random, now)
    if kind < 0.8:
        user = random.choice(tuple(USERS))
        client.principal, client.access = f"User:{user}", broker.guard.find(client.address, user)
        client.proved = Proved(user)
    return _outcome(broker, client, _spoiled(request(random), random), now)


def _spoiled(data: bytes, random: Random) -> bytes:
    return mutated(data, random) if random.random() < 0.8 else data


def _log_in(broker: Broker, client: Client, random: Random, now: float) -> str:
    """A handshake, and up to three tokens, each as it should be or not."""
    mechanism = random.choice((*MECHANISMS, "OAUTHBEARER", ""))
    version = random.choice((0, 1))
    shake = frame(ApiKey.SaslHandshake, version, Message(mechanism=mechanism))
    became = _outcome(broker, client, shake, now)
    user = random.choice((*USERS, "nobody"))
    password = random.choice((USERS.get(user, ""), "guess"))
    tokens = (
        f"\0{user}\0{password}".encode(),
        f"n,,n={user},r=abc".encode(),
        b"c=biws,r=abc,p=" + b64encode(random.randbytes(20)),
    )
    for _ in range(random.choice((1, 2, 3))):
        token = _spoiled(random.choice(tokens), random)
        if version and random.random() < 0.9:
            body = Message(auth_bytes=token)
            token = _spoiled(frame(ApiKey.SaslAuthenticate, random.choice((0, 1, 2)), body), random)
        became = _outcome(broker, client, token, now)
        if became != "answered":
            break
    return became


def _outcome(broker: Broker, client: Client, data: bytes, now: float) -> str:
    before = client.access
    try:
        exchange = broker.handle(client, memoryview(data), now)
        broker.tick(now)
        if not exchange.is_done:
            return "waits"
        if exchange.send is None:
            return "hangs up" if exchange.close_after_reply else "nothing"
        channel = BytesIO()
        while not exchange.send.completed:
            exchange.send.write_to(channel)
    except (BadRequestError, RecordsError) as error:
        return type(error).__name__
    written = channel.getvalue()
    assert int.from_bytes(written[:LENGTH_SIZE]) == len(written) - LENGTH_SIZE
    if before is None and client.access is None:
        assert exchange.request.api in BEFORE, "nobody has logged in"
    if client.access is None or client.access.has_lists:
        assert not any(one in written for one in SECRETS), "that is for others"
    return "answered"
