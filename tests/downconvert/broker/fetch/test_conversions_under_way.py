"""Conversions of many chunks at a time: no waiting client starts again for ever."""

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from downconvert.broker import Broker, Client, Exchange, Owner
from downconvert.broker.fetch import shared_range
from downconvert.broker.fetch.conversion_cache import ConversionCache
from downconvert.broker.fetch.conversions_under_way import ConversionsUnderWay
from downconvert.broker.operating.gauges import StateCollector
from downconvert.conversion import converter
from records import Codec
from tests.downconvert.broker.asking import sent
from tests.downconvert.broker.fetching import broker_of, fetched, fetching, records_of
from tests.downconvert.storage.logs import batch

BATCHES = 6  # of a log, of which each takes a turn
COUNT_MAX = 8
TOPICS = 12
ROUNDS_MAX = 40


@pytest.fixture(autouse=True)
def a_batch_a_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_range, "WORK_A_TURN", 1)
    monkeypatch.setattr(converter, "MESSAGES_SIZE", 1)


@pytest.fixture
def under_way() -> ConversionsUnderWay:
    return ConversionsUnderWay(COUNT_MAX)


@pytest.fixture
def broker(tmp_path: Path, under_way: ConversionsUnderWay) -> Iterator[Broker]:
    log = [batch(*range(n, n + 5), codec=Codec.GZIP) for n in range(0, 5 * BATCHES, 5)]
    with broker_of(tmp_path, {f"t{n}": {0: log} for n in range(TOPICS)}) as broker:
        broker.conversion_cache = ConversionCache(broker.memory_budget, under_way)
        for topic in range(TOPICS):  # the first client's conversions are not shared
            Waiting(broker, 0, topic).leave()
        broker.conversion_cache.misses = 0
        yield broker


class Waiting:
    """A client that fetches the tail of one topic, and takes its turns when the test says so."""

    def __init__(self, broker: Broker, number: int, topic: int) -> None:
        self._broker = broker
        self._owner = Owner()
        client = Client(number, "127.0.0.1")
        self.exchange: Exchange = fetching(
            broker, 2, f"t{topic}", 0, now=0.0, client=client, owner=self._owner
        )

    def turn(self) -> None:
        self._broker.run_due(self._owner, 0.0) or self._broker.run_turn(self._owner, 0.0)

    def leave(self) -> None:
        self._broker.finished(self.exchange)


def rounds_until_all_are_answered(clients: list[Waiting]) -> int:
    """The number of turns of the client that is answered last."""
    for count in range(ROUNDS_MAX):
        waiting = [client for client in clients if not client.exchange.is_done]
        if not waiting:
            return count
        for client in waiting:
            client.turn()
    raise AssertionError(f"{len(waiting)} of {len(clients)} still wait")


def test_clients_of_more_chunks_than_are_converted_at_a_time_are_all_answered(
    broker: Broker, under_way: ConversionsUnderWay
) -> None:
    clients = [Waiting(broker, n + 1, n) for n in range(TOPICS)]
    assert broker.conversion_cache.under_way == COUNT_MAX
    assert under_way.clients_count == COUNT_MAX
    broker.metrics.registry.register(StateCollector(broker))
    name = "downconvert_broker_conversions_under_way"
    assert broker.metrics.registry.get_sample_value(name) == COUNT_MAX
    assert rounds_until_all_are_answered(clients) >= BATCHES - 1
    assert len({len(sent(client.exchange)) for client in clients}) <= 2  # by their names
    assert broker.conversion_cache.under_way == 0
    assert under_way.clients_count == 0


def test_any_number_of_clients_share_a_conversion_under_way(
    broker: Broker,
) -> None:
    clients = [Waiting(broker, n + 1, n % TOPICS) for n in range(2 * TOPICS)]
    rounds_until_all_are_answered(clients)
    assert broker.conversion_cache.hits >= COUNT_MAX
    for client in clients:
        offsets = [record.offset for record in records_of(fetched(client.exchange))]
        assert offsets == list(range(5 * BATCHES))


def test_conversions_that_nobody_waits_for_make_room_and_the_others_stay(
    broker: Broker, under_way: ConversionsUnderWay
) -> None:
    clients = [Waiting(broker, n + 1, n) for n in range(COUNT_MAX)]
    begun = list(under_way)
    for gone in (3, 5):
        clients[gone].leave()
    later = [Waiting(broker, 1000 + n, COUNT_MAX + n) for n in range(3)]
    assert len(under_way) == COUNT_MAX
    assert [n for n, key in enumerate(begun) if key not in under_way] == [3, 5]
    rounds_until_all_are_answered([*later, *(c for n, c in enumerate(clients) if n not in (3, 5))])


def test_a_client_that_fetches_something_else_waits_for_that_only(
    broker: Broker, under_way: ConversionsUnderWay
) -> None:
    clients = [Waiting(broker, 1, topic) for topic in (0, 1)]  # kept: who is collected has left
    first, second = under_way
    clients += [Waiting(broker, number, number) for number in range(2, COUNT_MAX)]
    assert (len(under_way), under_way.clients_count) == (COUNT_MAX, COUNT_MAX - 1)
    clients.append(Waiting(broker, 1000, COUNT_MAX))
    assert (first in under_way, second in under_way) == (False, True)
    assert (len(under_way), under_way.clients_count) == (COUNT_MAX, COUNT_MAX)


def test_a_client_that_returns_continues_at_its_offset(broker: Broker) -> None:
    client = Waiting(broker, 1, 0)
    client.turn()
    client.leave()
    again = Waiting(broker, 1, 0)
    assert broker.conversion_cache.misses == 1
    assert rounds_until_all_are_answered([again]) < BATCHES - 1


def test_the_caller_sets_how_many_conversions_are_under_way() -> None:
    assert not ConversionsUnderWay(0).has_room()
    assert ConversionsUnderWay(1).has_room()


def test_a_dropped_conversion_that_ends_late_leaves_the_one_in_its_place() -> None:
    """Its last client left amid a turn, so another client began the chunk again."""
    under_way = ConversionsUnderWay(1)
    key: Any = "chunk"
    dropped, following = (SimpleNamespace(clients=set()) for _ in range(2))
    under_way.add(key, dropped)  # type: ignore[arg-type]
    assert under_way.has_room()
    assert key not in under_way
    under_way.remove(key, dropped)  # type: ignore[arg-type]
    under_way.add(key, following)  # type: ignore[arg-type]
    under_way.wait(1, following)  # type: ignore[arg-type]
    under_way.remove(key, dropped)  # type: ignore[arg-type]
    assert under_way.get(key) is following
    assert not under_way.has_room()
    under_way.remove(key, following)  # type: ignore[arg-type]
    assert key not in under_way
