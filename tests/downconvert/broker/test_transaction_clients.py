"""Real transactional producers, over real sockets: what they commit is read, once, and nothing
else.

Each reads what others wrote, writes it elsewhere and commits its offsets in one transaction, has
one aborted, and is fenced by another of the same transactional id."""

import asyncio
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka import TopicPartition as AioPartition
from aiokafka.errors import ProducerFenced
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.errors import KafkaError
from kafka.structs import OffsetAndMetadata

from downconvert.broker import Broker, BrokerConfig
from downconvert.broker.server import Server
from downconvert.storage import LogDir
from tests import kafka_server
from tests.clients import install
from tests.clients.combinations import PYPI, Client

from .offset_logs import fetch
from .transacting import committed, is_stable

GROUP: Final = "copies"
SOURCE, TARGET = ("source", 0), ("target", 0)
PATIENCE: Final = 120.0  # seconds
PROGRAMS: Final = Path(__file__).parent / "programs"


@contextmanager
def serving(path: Path) -> Iterator[tuple[Broker, str]]:
    with LogDir.open(path, writable=True) as log_dir:
        broker = Broker(log_dir, BrokerConfig(is_writable=True))
        for topic, _ in (SOURCE, TARGET):
            broker.topics.create(topic, 1, {}, 0)
        with Server(broker) as server:
            host, port = server.address
            yield broker, f"{host}:{port}"


def with_kafka_python(address: str) -> None:
    def producer() -> Any:
        made = KafkaProducer(bootstrap_servers=address, transactional_id="copier")
        made.init_transactions()
        return made

    first = producer()
    first.begin_transaction()
    first.send(TARGET[0], b"dropped")
    first.flush()
    first.abort_transaction()
    first.begin_transaction()
    first.send(TARGET[0], b"kept")
    offsets = {TopicPartition(*SOURCE): OffsetAndMetadata(5, "", -1)}
    first.send_offsets_to_transaction(offsets, GROUP)
    first.commit_transaction()
    first.begin_transaction()
    first.send(TARGET[0], b"fenced")
    first.flush()
    second = producer()
    with pytest.raises(KafkaError):
        first.commit_transaction()
    second.begin_transaction()
    second.send(TARGET[0], b"last")
    second.commit_transaction()
    first.close(timeout=1)
    second.close()


def with_aiokafka(address: str) -> None:
    async def producer() -> Any:
        made = AIOKafkaProducer(bootstrap_servers=address, transactional_id="copier")
        await made.start()
        return made

    async def run() -> None:
        first = await producer()
        await first.begin_transaction()
        await first.send_and_wait(TARGET[0], b"dropped")
        await first.abort_transaction()
        async with first.transaction():
            await first.send_and_wait(TARGET[0], b"kept")
            await first.send_offsets_to_transaction({AioPartition(*SOURCE): 5}, GROUP)
        await first.begin_transaction()
        await first.send_and_wait(TARGET[0], b"fenced")
        second = await producer()
        with pytest.raises(ProducerFenced):
            await first.commit_transaction()
        async with second.transaction():
            await second.send_and_wait(TARGET[0], b"last")
        await first.stop()
        await second.stop()

    asyncio.run(asyncio.wait_for(run(), PATIENCE))


def with_confluent(address: str) -> None:
    client = Client(PYPI, "confluent-kafka", "2.16.1", "read_confluent.py")
    python, launch, folder, shared, _ = install.installed(client)
    _run(python, launch, folder, shared, str(PROGRAMS / "transact_confluent.py"), address)


def with_java(version: str) -> Callable[[str], None]:
    def run(address: str) -> None:
        libraries = kafka_server.prepare(version)
        source = str(PROGRAMS / "Transact.java")
        _run("java", *kafka_server.QUICK, "-cp", libraries, source, address)

    return run


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 0, f"{done.stdout}{done.stderr}"


def _java(version: str) -> Any:
    skipped = pytest.mark.skipif(bool(kafka_server.missing()), reason="there is no Java")
    marks = () if kafka_server.REQUIRED else (skipped,)
    return pytest.param(with_java(version), marks=marks, id=f"java-{version}")


@pytest.mark.parametrize(
    "copy",
    [
        pytest.param(with_kafka_python, id="kafka-python"),
        pytest.param(with_aiokafka, id="aiokafka"),
        pytest.param(with_confluent, id="confluent-kafka"),
        _java(kafka_server.OLD),
        _java(kafka_server.NEW),
    ],
)
def test_a_clients_commit_is_stored_once(tmp_path: Path, copy: Callable[[str], None]) -> None:
    with serving(tmp_path) as (broker, address):
        copy(address)
        assert [value for value in committed(broker, TARGET) if value] == [b"kept", b"last"]
        assert is_stable(broker, TARGET)
        assert fetch(broker, GROUP, SOURCE, stable=True) == (5, 0)
        assert _read(address, "read_committed") == [b"kept", b"last"]
        everything = [b"dropped", b"kept", b"fenced", b"last"]
        assert _read(address, "read_uncommitted") == everything
    with LogDir.open(tmp_path, writable=True) as log_dir:  # and after a restart
        broker = Broker(log_dir, BrokerConfig(is_writable=True))
        assert fetch(broker, GROUP, SOURCE, stable=True) == (5, 0)
        one = broker.transactions.get("copier")
        assert one is not None
        assert one.state.title == "CompleteCommit"


def _read(address: str, isolation: str) -> list[bytes]:
    consumer = KafkaConsumer(bootstrap_servers=address, isolation_level=isolation)
    try:
        partition = TopicPartition(*TARGET)
        consumer.assign([partition])
        consumer.seek_to_beginning(partition)
        end = consumer.end_offsets([partition])[partition]
        values: list[bytes] = []
        while consumer.position(partition) < end:
            for records in consumer.poll(timeout_ms=200).values():
                values += [record.value for record in records]
        return values
    finally:
        consumer.close()
