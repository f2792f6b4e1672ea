"""How much load do one core and one gigabyte carry on this machine, and how much of both do old
clients need?

A gateway of one process stands in front of our own server. Each kind of work runs for a few
seconds. The gateway's CPU time is read from the system, so that neither the clients here nor other
load count. A core's rate is the work for each second of the gateway's CPU time.

    python -m bench.gateway sizing [--seconds 3] [--connections 1000]
    python -m bench.gateway sizing --polls 0.5 --rate 50 --brokers 6

The plan assumes that each client has a connection to each broker. The options set how often clients
poll and how much they read. A third of each core is left free.

Not here: memory for slow clients (gateway_memory.py), comparisons with Kafka (gateway_speed.py)."""

import resource
import ssl
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from time import monotonic
from typing import Any, Final

import click
from scramp import ScramClient

from downconvert.protocol.schemas import ApiKey, Message
from records import Codec, TimestampType
from records.batches.builder import build
from records.record import Record
from records.units import GiB, KiB, MiB
from tests.certificates import self_signed
from tests.downconvert.gateway.serving import cluster

from .draining import Address, Wire, fetch, parsed
from .gateway_clients import in_front
from .processes import Serving, settled

RECORD: Final = 1000  # bytes
BATCH: Final = 16  # records: the most that Kafka's producer sends by default
LOG: Final = 16 * MiB  # of each topic
FETCH: Final = MiB  # bytes of a partition: the default of consumers
OLD: Final = 2  # a version of Fetch with converted responses
NEW: Final = 11  # a version with responses that pass through
CODECS: Final = {"none": Codec.NONE, "lz4": Codec.LZ4, "gzip": Codec.GZIP}
WORD_SIZE: Final = 8  # bytes, with a blank
WORDS: Final = [b"%0*x" % (WORD_SIZE - 1, Random(n).getrandbits(28)) for n in range(500)]
NO_TOPICS: Final = Message(topics=[])
USED: Final = 2 / 3  # of a core
CLIENTS: Final = (1_000, 10_000, 100_000)
USER: Final = "user"
PASSWORD: Final = "secret"


@dataclass(frozen=True, slots=True)
class Measured:
    """The work of one core in a second, and the memory of a connection."""

    idle: int  # bytes of a connection
    process: int  # bytes of a gateway without connections
    polls: dict[str, float]  # empty responses, by the way they are handled
    rates: dict[str, float]  # bytes of responses, by the same ways
    logins: dict[str, float]  # by mechanism
    handshakes: float


@dataclass(frozen=True, slots=True)
class Need:
    """The cores and the memory that the clients need."""

    clients: int
    connections: int
    cores: float
    memory: int  # bytes
    storm: float  # seconds until all have logged in again, over TLS, with these cores


def plan(
    measured: Measured, clients: int, *, brokers: int, polls: float, rate: float, codec: str
) -> Need:
    """`polls`: of a client, in a second. `rate`: its bytes a second, in converted responses."""
    connections = clients * brokers
    busy = clients * (polls / measured.polls["converted"] + rate / measured.rates[codec])
    cores = max(busy / USED, 1.0)
    login = 1 / measured.handshakes + 1 / measured.logins["SCRAM-SHA-512"]
    processes = ceil(cores)
    memory = processes * measured.process + connections * measured.idle
    return Need(clients, connections, cores, memory, connections * login / processes)


# --- measuring


def batch_of(offsets: range, codec: Codec) -> bytes:
    """Records of words, which codecs compress to about a third."""
    random = Random(offsets.start)
    values = (b" ".join(random.choices(WORDS, k=RECORD // WORD_SIZE)) for _ in offsets)
    create = TimestampType.CREATE
    records = [
        Record(offset, offset, create, b"key", value)
        for offset, value in zip(offsets, values, strict=True)
    ]
    return build(records, magic=2, codec=codec)


@contextmanager
def gateway(log: int, directory: Path, settings: str = "") -> Iterator[Serving]:
    """A gateway in front of a cluster with a topic of `log` bytes for each codec."""
    config, logs = directory / "gateway.toml", directory / "logs"
    config.write_text(settings)
    logs.mkdir()
    with cluster(logs, *CODECS) as (broker, port):
        for name, codec in CODECS.items():
            partition = broker.topics.partition(name, 0)
            assert partition is not None
            for first in range(0, ceil(log / RECORD), BATCH):
                offsets = range(first, first + BATCH)
                partition.log.writer.append(batch_of(offsets, codec))
        with in_front(f"127.0.0.1:{port}", "--config", str(config)) as serving:
            yield serving


def by_core(serving: Serving, seconds: float, work: Callable[[], float]) -> float:
    """The sum of the results of `work` for each second of the gateway's CPU time."""
    work()  # a warm-up: the gateway makes everything that it makes only once
    began, cpu, done = monotonic(), serving.cpu_seconds, 0.0
    while monotonic() - began < seconds or serving.cpu_seconds == cpu:
        done += work()
    return done / (serving.cpu_seconds - cpu)


def held_idle(serving: Serving, connections: int) -> int:
    """Bytes for a connection that has requested metadata and is idle."""

    def connected() -> Wire:
        wire = Wire(serving.address, buffered=False)
        wire.ask(ApiKey.Metadata, 1, NO_TOPICS)
        return wire

    with ExitStack() as stack:
        for _ in range(20):
            stack.enter_context(connected())
        before = settled(lambda: serving.memory)
        for _ in range(connections):
            stack.enter_context(connected())
        return max(settled(lambda: serving.memory) - before, 0) // connections


def fetches(address: Address, version: int, topic: str, offset: int) -> Callable[[], int]:
    """Fetches records at an offset. Each call returns the bytes of a response. RuntimeError: the
    response has an error."""
    wire, frame = Wire(address), fetch(version, topic, offset, FETCH)
    wire.send(frame)
    (found,) = parsed(ApiKey.Fetch, version, wire.response()).responses[0].partitions
    if found.error_code:
        raise RuntimeError(f"{topic}: error {found.error_code} at offset {offset}")

    def ask() -> int:
        wire.send(frame)
        return wire.drain()

    return ask


def logs_in(address: Address, mechanism: str) -> int:
    """Logs in once."""
    tokens: list[Callable[[bytes], bytes]]
    with Wire(address, buffered=False) as wire:
        wire.ask(ApiKey.SaslHandshake, 1, Message(mechanism=mechanism))
        if mechanism == "PLAIN":
            tokens = [lambda _: f"\0{USER}\0{PASSWORD}".encode()]
        else:
            client: Any = ScramClient([mechanism], USER, PASSWORD)
            tokens = [lambda _: client.get_client_first().encode(), _final(client)]
        answered = b""
        for token in tokens:
            response = wire.ask(ApiKey.SaslAuthenticate, 1, Message(auth_bytes=token(answered)))
            assert not response.error_code, response.error_message
            answered = bytes(response.auth_bytes)
    return 1


def _final(client: Any) -> Callable[[bytes], bytes]:
    def token(answered: bytes) -> bytes:
        client.set_server_first(answered.decode())
        return bytes(client.get_client_final().encode())

    return token


def shakes_hands(address: Address, context: ssl.SSLContext) -> int:
    """One TLS handshake, without a session to resume."""
    with Wire(address, buffered=False) as wire, context.wrap_socket(wire.socket):
        return 1


def measure(seconds: float, connections: int, log: int = LOG) -> Measured:
    """Runs each kind of work for this many seconds."""
    with TemporaryDirectory() as temporary:
        directory = Path(temporary)
        (directory / "users").write_text(f"{USER}:{PASSWORD}\n")
        certificate, key = self_signed(directory)
        folders = [directory / name for name in ("plain", "users-only", "tls")]
        for folder in folders:
            folder.mkdir()
        with gateway(log, folders[0]) as serving:
            process = settled(lambda: serving.memory)
            idle = held_idle(serving, connections)
            end = ceil(log / RECORD / BATCH) * BATCH
            polls = {}
            for name, version in (("converted", OLD), ("passed", NEW)):
                poll = fetches(serving.address, version, "none", end)
                polls[name] = by_core(serving, seconds, lambda poll=poll: bool(poll()))  # type: ignore[misc]
            rates = {
                name: by_core(serving, seconds, fetches(serving.address, OLD, name, 0))
                for name in CODECS
            }
            rates["passed"] = by_core(serving, seconds, fetches(serving.address, NEW, "none", 0))
        with gateway(0, folders[1], f'users_file = "{directory}/users"\n') as serving:
            logins = {
                name: by_core(serving, seconds, lambda name=name: logs_in(serving.address, name))  # type: ignore[misc]
                for name in ("PLAIN", "SCRAM-SHA-512")
            }
        settings = f'tls_cert = "{certificate}"\ntls_key = "{key}"\n'
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        with gateway(0, folders[2], settings) as serving:
            where = serving.address
            handshakes = by_core(serving, seconds, lambda: shakes_hands(where, context))
    return Measured(idle, process, polls, rates, logins, handshakes)


# --- output


def lines(measured: Measured) -> Iterator[str]:
    """The measurements, one a line."""
    per_gigabyte = (GiB - measured.process) // max(measured.idle, 1)
    yield f"one process without connections           {measured.process / MiB:10,.0f} MiB"
    yield f"an idle connection                        {measured.idle / KiB:10,.1f} KiB"
    yield f"idle connections in a gigabyte            {per_gigabyte:10,}"
    for name, amount in measured.polls.items():
        yield f"a core: empty polls a second, {name:<9}   {amount:10,.0f}"
    for name, amount in measured.rates.items():
        what = "passed through" if name == "passed" else f"converted, {name}"
        yield f"a core: MB a second, {what:<18}   {amount / 1e6:10,.0f}"
    for name, amount in measured.logins.items():
        yield f"a core: logins a second, {name:<13}    {amount:10,.0f}"
    yield f"a core: TLS handshakes a second           {measured.handshakes:10,.0f}"


def shown(need: Need) -> str:
    return (
        f"{need.clients:>9,} {need.connections:>13,} {need.cores:>7.1f} "
        f"{need.memory / GiB:>10.1f} {need.storm:>22,.0f}"
    )


@click.command()
@click.option("--seconds", default=3.0, help="For each kind of work.")
@click.option("--connections", default=1000, help="Idle ones, whose memory is measured.")
@click.option("--log", default=LOG, help="Bytes of each topic.")
@click.option("--brokers", default=3, help="The plan: connections of a client.")
@click.option("--polls", default=2.0, help="The plan: a client's polls in a second.")
@click.option("--rate", default=10.0, help="The plan: kB a second that a client takes.")
@click.option("--codec", default="lz4", type=click.Choice([*CODECS]), help="The plan: of records.")
def sizing(
    seconds: float,
    connections: int,
    log: int,
    brokers: int,
    polls: float,
    rate: float,
    codec: str,
) -> None:
    """Measures the load that a core and a gigabyte carry here, and prints a plan for old
    clients."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    measured = measure(seconds, connections, log)
    for line in lines(measured):
        click.echo(line)
    click.echo("\n  clients   connections   cores  memory GB  s to log in again, TLS")
    for clients in CLIENTS:
        need = plan(measured, clients, brokers=brokers, polls=polls, rate=rate * 1000, codec=codec)
        click.echo(shown(need))
