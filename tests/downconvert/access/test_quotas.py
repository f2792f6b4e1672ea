"""Rates of clients: who keeps within them, and how long others wait."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from downconvert.access.ledger import NAMES_MAX, OwnLedger
from downconvert.access.quotas import Quotas
from downconvert.access.rights import Access
from downconvert.broker import Broker
from downconvert.protocol.schemas import ApiKey, Message
from tests.downconvert.broker.asking import ask, begin, response_of, someone
from tests.downconvert.broker.guarding import guard_of
from tests.downconvert.broker.writable import writable_broker
from tests.downconvert.storage.logs import batch

TOPIC = "t"
RATE = 1000  # bytes a second


def produce(size: int, acks: int = 1) -> Message:
    one = Message(index=0, records=batch(0, size=size))
    return Message(acks=acks, timeout_ms=0, topic_data=[Message(name=TOPIC, partition_data=[one])])


def fetch(offset: int = 0, min_bytes: int = 1) -> Message:
    one = Message(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
    topics = [Message(topic=TOPIC, partitions=[one])]
    return Message(
        replica_id=-1, max_wait_ms=0, min_bytes=min_bytes, max_bytes=1 << 20, topics=topics
    )


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    with writable_broker(tmp_path, TOPIC) as made:
        made.guard = guard_of(None, Access(producer_byte_rate=RATE, consumer_byte_rate=RATE))
        yield made


def test_a_client_within_its_rate_does_not_wait() -> None:
    quotas = Quotas()
    waits = [quotas.charge("a", "fetch", RATE, RATE, now) for now in range(100)]
    assert max(waits) == 0


def test_a_client_above_its_rate_waits_until_the_rate_is_kept() -> None:
    quotas, now, taken = Quotas(), 0.0, 0
    while now < 100:
        taken += 5000
        now += quotas.charge("a", "fetch", 5000, RATE, now) + 0.001
    assert taken / now == pytest.approx(RATE, rel=0.1)
    assert quotas.charge("a", "produce", 1, RATE, now) == 0
    assert quotas.charge("b", "fetch", 1, RATE, now) == 0


def test_clients_of_any_number_take_bounded_memory() -> None:
    ledger = OwnLedger()
    quotas = Quotas(ledger)
    for number in range(NAMES_MAX + 500):
        quotas.charge(str(number), "fetch", 10 * RATE, RATE, 0.0)
    assert len(ledger) == NAMES_MAX
    assert quotas.charge(str(NAMES_MAX + 499), "fetch", 0, RATE, 0.0) == 9  # it still owes


def test_new_clients_get_the_throttle_time_and_old_ones_a_response(broker: Broker) -> None:
    first = begin(broker, ApiKey.Produce, 9, produce(4000))
    throttled = response_of(first)
    assert throttled.responses[0].partition_responses[0].error_code == 0
    assert throttled.throttle_time_ms == pytest.approx(3100, abs=200)
    assert first.throttle == pytest.approx(throttled.throttle_time_ms / 1000, abs=0.001)
    old = begin(broker, ApiKey.Fetch, 0, fetch())
    assert len(response_of(old).responses[0].partitions[0].records) > 4000
    assert old.throttle == pytest.approx(3.1, abs=0.2)
    assert begin(broker, ApiKey.Metadata, 1, Message(topics=[])).throttle == 0


def test_a_client_that_would_wait_for_weeks_is_answered_too(broker: Broker) -> None:
    """Throttle times are 32 bits of milliseconds."""
    broker.guard = guard_of(None, Access(producer_byte_rate=0.001))
    assert ask(broker, ApiKey.Produce, 9, produce(4000)).throttle_time_ms == 2**31 - 1


def test_a_write_without_a_response_counts_too(broker: Broker) -> None:
    exchange = begin(broker, ApiKey.Produce, 9, produce(4000, acks=0))
    assert exchange.send is None
    assert exchange.throttle > 3


def test_connections_of_one_client_share_its_rate_and_others_have_theirs(broker: Broker) -> None:
    begin(broker, ApiKey.Produce, 9, produce(4000))
    assert begin(broker, ApiKey.Produce, 9, produce(1)).throttle > 3
    other = someone("10.0.0.2")
    assert begin(broker, ApiKey.Produce, 9, produce(1), client=other).throttle == 0


def test_a_response_is_no_larger_than_what_its_client_may_take_soon(broker: Broker) -> None:
    everybody = someone("10.0.0.3")
    broker.guard = guard_of(None)
    for _ in range(10):
        ask(broker, ApiKey.Produce, 9, produce(4000), client=everybody)
    broker.guard = guard_of(None, Access(consumer_byte_rate=RATE))
    exchange = begin(broker, ApiKey.Fetch, 4, fetch(min_bytes=1 << 20))
    size = len(response_of(exchange).responses[0].partitions[0].records)
    assert 4000 < size <= 10 * RATE
