"""Converted once for many: counted at a broker, and over sockets."""

import os
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from downconvert import ConversionPolicy, LazyDownConvertRecords
from downconvert.broker import Broker, Client, Exchange
from downconvert.broker.fetch.conversion_cache import ConversionCache
from downconvert.broker.operating.gauges import StateCollector
from downconvert.broker.partition_state import LOOK_AGE_MAX
from downconvert.broker.server import Server
from downconvert.protocol.schemas import ApiKey, Message
from records import Codec
from tests.downconvert.broker.asking import begin, sent
from tests.downconvert.broker.fetching import broker_of, fetched, fetching, records_of, request
from tests.downconvert.broker.talking import Talk, fetch
from tests.downconvert.broker.writable import writable_broker
from tests.downconvert.storage.logs import batch
from tests.waiting import wait_for

CONSUMERS = 200
PRODUCED = batch(*range(100), size=90, codec=Codec.GZIP)


def append(broker: Broker, data: bytes, topic: str = "events") -> None:
    partition = broker.topics[topic].partitions[0]
    partition.log.writer.append(data)
    broker.purgatory.notify(partition.key)


def asked(
    broker: Broker,
    client: int,
    offset: int = 0,
    version: int = 2,
    *,
    now: float = 0.0,
    **more: Any,
) -> Exchange:
    """A fetch by one of several clients, answered."""
    exchange = fetching(
        broker, version, "events", offset, now=now, client=Client(client, "127.0.0.1"), **more
    )
    while not exchange.is_done:
        broker.tick(now)
    return exchange


@pytest.fixture
def lazily(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The sizes of the ranges that are converted for one client alone."""
    sizes: list[int] = []
    in_steps = LazyDownConvertRecords.in_steps

    def counted(records: Any, *args: Any, **options: Any) -> Any:
        sizes.append(records.size)
        return in_steps(records, *args, **options)

    monkeypatch.setattr(LazyDownConvertRecords, "in_steps", counted)
    return sizes


def test_a_chunk_that_many_clients_wait_for_is_converted_once(
    tmp_path: Path, lazily: list[int]
) -> None:
    """Over sockets, in several threads, all of them due at once."""
    with (
        writable_broker(tmp_path, "events") as broker,
        Server(broker, network_threads=2) as server,
        ExitStack() as stack,
    ):
        cache = broker.conversion_cache
        talks = [stack.enter_context(Talk(server.address)) for _ in range(CONSUMERS)]
        for talk in talks:
            talk.send(ApiKey.Fetch, 2, fetch(wait=20_000))
        wait_for(lambda: len(broker.purgatory) == CONSUMERS)
        partition = Message(index=0, records=PRODUCED)
        topic = Message(name="events", partition_data=[partition])
        body = Message(transactional_id=None, acks=1, timeout_ms=1000, topic_data=[topic])
        with Talk(server.address) as producer:
            producer.ask(ApiKey.Produce, 3, body)
        responses = {talk.receive() for talk in talks}
        assert len(responses) == 1
        assert (cache.misses, cache.hits) == (2, CONSUMERS - 2)
        assert len(lazily) == 1, "the first client's"
        assert cache.budget.held < 2 * len(PRODUCED) + 2048
    response = responses.pop()
    assert len(response) > 100


def test_clients_that_are_behind_each_other_share_each_append(
    tmp_path: Path, lazily: list[int]
) -> None:
    with writable_broker(tmp_path, "events") as broker:
        for start in range(0, 50, 5):
            append(broker, batch(*range(start, start + 5)))
            for client in range(1, 6):  # each begins somewhere else
                offset = max(0, start - 5 * client)
                found = records_of(fetched(asked(broker, client, offset)))
                assert [one.offset for one in found] == list(range(offset, start + 5))
        assert broker.conversion_cache.misses == 20
        assert len(lazily) == 10, "the first client's"


def test_slow_clients_and_what_is_kept_have_one_budget(tmp_path: Path) -> None:
    topics = {f"t{n}": {0: [batch(*range(50), size=90)]} for n in range(8)}
    room = 25_000
    with broker_of(tmp_path, topics, conversions_kept_bytes=room) as broker:
        budget, cache = broker.memory_budget, broker.conversion_cache
        slow = []
        for topic in topics:
            for client in range(4):
                body = request(broker, {topic: 0})
                who = Client(client + 1, "127.0.0.1")
                slow.append(begin(broker, ApiKey.Fetch, 2, body, client=who))
                assert 0 <= budget.left <= room
        assert 0 < len(cache) < len(topics)
        sizes = {len(sent(exchange)) for exchange in slow}
        assert len(sizes) == 1, "who found no room gets as much"
        for exchange in slow:
            broker.finished(exchange)
        for topic in reversed(topics):  # now there is room again, as what is kept is evicted
            for client in range(2):
                who = Client(10 + client, "127.0.0.1")
                body = request(broker, {topic: 0})
                sent(begin(broker, ApiKey.Fetch, 2, body, client=who))
        assert cache.evictions > 0
        held = budget.held
        assert 0 < held <= room
        evict_all(cache)
        assert budget.left == room


def evict_all(cache: ConversionCache) -> None:
    """Clients fetch so much else that no chunk stays but those that are being sent."""
    cache.note_asked((), 99, 2 * cache.budget.size)


def test_a_response_that_is_not_sent_holds_nothing(tmp_path: Path) -> None:
    with broker_of(tmp_path, {"events": {0: [PRODUCED]}}) as broker:
        broker.finished(asked(broker, 1))
        exchange = asked(broker, 2)
        cache = broker.conversion_cache
        evict_all(cache)
        assert len(cache) == 1
        broker.finished(exchange)
        evict_all(cache)
        assert len(cache) == cache.budget.held == 0


def test_nothing_is_kept_by_a_broker_that_has_no_memory_for_it(tmp_path: Path) -> None:
    with broker_of(tmp_path, {"events": {0: [PRODUCED]}}, conversions_kept_bytes=0) as broker:
        for client in range(3):
            assert len(records_of(fetched(asked(broker, client)))) == 100
        assert len(broker.conversion_cache) == 0


@pytest.mark.parametrize(
    "policy", [ConversionPolicy.kafka(), ConversionPolicy(size="estimate"), ConversionPolicy()]
)
def test_only_exact_sizes_are_shared(policy: ConversionPolicy, tmp_path: Path) -> None:
    with broker_of(tmp_path, {"events": {0: [PRODUCED]}}, policy=policy) as broker:
        sizes = {len(sent(asked(broker, client))) for client in range(3)}
        assert len(sizes) == 1
        assert len(broker.conversion_cache) == (policy.size == "exact")


def test_a_chunk_that_is_too_large_is_tried_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("downconvert.serving.buffered_send.BUFFERED_SIZE_MAX", 1000)
    with broker_of(tmp_path, {"events": {0: [batch(*range(50), size=90)]}}) as broker:
        for client in range(3):
            assert len(records_of(fetched(asked(broker, client)))) == 50
        assert len(broker.conversion_cache) == 0
        assert broker.conversion_cache.misses == 3  # an attempt, and two that did not try
        assert broker.memory_budget.held == 0


def test_a_chunk_of_truncated_records_is_not_sent_again(tmp_path: Path) -> None:
    """Written again, it is as long as before."""
    old, new = batch(5, 6, size=50), batch(5, 6, size=50, timestamp=77)
    with writable_broker(tmp_path, "events") as broker:
        append(broker, batch(*range(5)) + old)
        assert len(records_of(fetched(asked(broker, 1, version=3)))) == 7
        writer = broker.topics["events"].partitions[0].log.writer
        writer.truncate_to(5)
        append(broker, new)
        found = records_of(fetched(asked(broker, 2, version=3)))
        assert [one.timestamp for one in found[5:]] == [77, 77]


def test_a_chunk_of_records_that_another_process_truncated_is_not_sent_again(
    tmp_path: Path,
) -> None:
    old, new = batch(5, 6, size=50), batch(5, 6, size=50, timestamp=77)
    first = batch(*range(5))
    with broker_of(tmp_path, {"events": {0: [first, old]}}) as broker:
        assert len(records_of(fetched(asked(broker, 1, version=3)))) == 7
        (segment,) = broker.topics["events"].partitions[0].log.segments
        with segment.path().open("r+b") as file:
            file.seek(len(first))
            file.write(new)
        os.utime(segment.path(), ns=(0, 0))  # the clock of a file system may not have moved on yet
        found = records_of(fetched(asked(broker, 2, version=3, now=2 * LOOK_AGE_MAX)))
        assert [one.timestamp for one in found[5:]] == [77, 77]


def test_operators_see_what_is_shared(tmp_path: Path) -> None:
    with broker_of(tmp_path, {"events": {0: [PRODUCED]}}) as broker:
        for client in range(4):
            exchange = asked(broker, client)
            sent(exchange)
            broker.metrics.finished(exchange, None)
        broker.metrics.registry.register(StateCollector(broker))
        value = broker.metrics.registry.get_sample_value
        name = "downconvert_broker_conversion_cache"
        assert value(f"{name}_hits_total") == 2
        assert value(f"{name}_misses_total") == 2
        assert value(f"{name}_evictions_total") == 0
        assert 100 < (value(f"{name}_bytes") or 0) < (value(f"{name}_max_bytes") or 0)
        labels = {"api": "Fetch", "topic": "events"}
        assert value("downconvert_broker_converted_records_total", labels) == 400
