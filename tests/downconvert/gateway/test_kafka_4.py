"""The gateway in front of real brokers of Kafka 4, two of them, with real clients before it."""

from collections.abc import Iterator
from typing import Any

import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition

from downconvert.gateway.server import Gateway
from tests.kafka_server import NEW, KafkaServer, running

from .serving import gateway

PINS = [(0, 8, 2), (0, 9), (0, 10), (0, 11), None]
OLD_PINS = PINS[:4]
RECORDS = 40
PATIENCE = 120_000  # milliseconds


@pytest.fixture(scope="module")
def kafka() -> Iterator[KafkaServer]:
    with running(NEW, nodes=2) as brokers:
        yield brokers


@pytest.fixture(scope="module")
def front(kafka: KafkaServer) -> Iterator[Gateway]:
    with gateway(*kafka.ports, nodes=2, refresh_seconds=1.0) as front:
        yield front


def pinned(pin: tuple[int, ...] | None) -> dict[str, Any]:
    return {} if pin is None else {"api_version": pin}


def write(bootstrap: str, topic: str, count: int = RECORDS, **options: Any) -> list[int]:
    """The offsets that were acknowledged, in order."""
    producer = KafkaProducer(bootstrap_servers=bootstrap, **options)
    sent = [producer.send(topic, value=b"%d" % n, key=b"key", partition=0) for n in range(count)]
    offsets = [one.get(timeout=PATIENCE / 1000).offset for one in sent]
    producer.close()
    return offsets


def read(bootstrap: str, topic: str, count: int = RECORDS, **options: Any) -> list[bytes]:
    """The values of partition 0, from its beginning."""
    consumer = KafkaConsumer(
        bootstrap_servers=bootstrap,
        auto_offset_reset="earliest",
        consumer_timeout_ms=PATIENCE,
        **options,
    )
    if "group_id" in options:
        consumer.subscribe([topic])
    else:
        consumer.assign([TopicPartition(topic, 0)])
        consumer.seek_to_beginning()
    found = [next(consumer).value for _ in range(count)]
    consumer.close()
    return found


def values(count: int = RECORDS) -> list[bytes]:
    return [b"%d" % number for number in range(count)]


@pytest.mark.parametrize("codec", [None, "gzip", "snappy", "lz4", "zstd"])
def test_clients_of_every_age_read_every_codec(
    kafka: KafkaServer, front: Gateway, codec: str | None
) -> None:
    topic = f"read-{codec}"
    kafka.create_topic(topic)
    write(kafka.bootstrap, topic, compression_type=codec)
    for pin in PINS:
        assert read(str(front.address), topic, **pinned(pin)) == values(), pin


@pytest.mark.parametrize("pin", OLD_PINS[1:])
def test_old_groups_read_everything_and_go_on_where_they_were(
    kafka: KafkaServer, front: Gateway, pin: tuple[int, ...]
) -> None:
    name = "group-" + ".".join(map(str, pin))
    kafka.create_topic(name)
    write(kafka.bootstrap, name)
    options = {"group_id": name, **pinned(pin)}
    assert read(str(front.address), name, RECORDS - 5, **options) == values(RECORDS - 5)
    assert read(str(front.address), name, 5, **options) == values()[-5:]


@pytest.mark.parametrize("pin", OLD_PINS)
@pytest.mark.parametrize("codec", [None, "gzip", "lz4"])
def test_new_consumers_read_records_of_old_producers(
    kafka: KafkaServer, front: Gateway, pin: tuple[int, ...], codec: str | None
) -> None:
    topic = f"write-{'.'.join(map(str, pin))}-{codec}"
    kafka.create_topic(topic)
    options = {"compression_type": codec, "acks": "all", **pinned(pin)}
    assert write(str(front.address), topic, **options) == list(range(RECORDS))
    assert read(kafka.bootstrap, topic) == values()


def test_transactions_pass_through(kafka: KafkaServer, front: Gateway) -> None:
    kafka.create_topic("transactions")
    producer = KafkaProducer(bootstrap_servers=str(front.address), transactional_id="tx")
    producer.init_transactions()
    for is_committed in (False, True):
        producer.begin_transaction()
        producer.send("transactions", b"%d" % is_committed, partition=0).get(
            timeout=PATIENCE / 1000
        )
        if is_committed:
            producer.commit_transaction()
        else:
            producer.abort_transaction()
    producer.close()
    bootstrap = str(front.address)
    assert read(bootstrap, "transactions", 1, isolation_level="read_committed") == [b"1"]
    assert read(bootstrap, "transactions", 2, api_version=(0, 10)) == [b"0", b"1"]


def test_nothing_acknowledged_is_lost_when_leaders_move(kafka: KafkaServer, front: Gateway) -> None:
    kafka.create_topic("moves", replicas=2)
    producer = KafkaProducer(
        bootstrap_servers=str(front.address),
        api_version=(0, 10),
        acks="all",
        retries=1000,
        retry_backoff_ms=50,
        max_in_flight_requests_per_connection=1,
    )
    acknowledged: list[int] = []

    def send(numbers: range) -> None:
        sent = [(number, producer.send("moves", b"%d" % number, partition=0)) for number in numbers]
        for number, one in sent:
            one.get(timeout=PATIENCE / 1000)
            acknowledged.append(number)

    send(range(50))
    consumer = KafkaConsumer(bootstrap_servers=kafka.bootstrap)
    consumer.partitions_for_topic("moves")
    leader = consumer._client.cluster.leader_for_partition(TopicPartition("moves", 0))
    consumer.close()
    kafka.kill(leader)
    try:
        send(range(50, 100))
    finally:
        kafka.restart(leader)
    producer.close()
    found = [int(value) for value in read(str(front.address), "moves", 100, api_version=(0, 9))]
    assert sorted(set(found)) == acknowledged == list(range(100))
    firsts = [found.index(number) for number in range(100)]
    assert firsts == sorted(firsts)
