"""The parts of a broker share its settings, its clock and what waits in it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from downconvert import ConversionPolicy
from downconvert.broker import Broker, Client
from downconvert.broker.topics import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from downconvert.protocol.schemas import ApiKey, Message

from .asking import ask, begin
from .fetching import fetched, fetching, request
from .offset_logs import commit
from .offset_logs import fetch as committed
from .transacting import NOW, Producing, is_stable, state
from .writable import writable_broker

SHIFT: Final = 5_000.0  # seconds by which the system's clock is ahead
WAITS: Final[dict[str, Any]] = {"max_wait_ms": 500, "min_bytes": 1}


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    """No two of its settings are equal."""
    with writable_broker(
        tmp_path,
        "t",
        node_id=3,
        fetch_session_slots=2,
        conversions_kept_bytes=70_000,
        fetch_max_bytes=50_000,
        policy=ConversionPolicy(chunk_size=4_000),
        offsets_topic_num_partitions=1,
        transaction_state_log_num_partitions=1,
        group_initial_rebalance_delay_ms=2_000,
        offsets_retention_minutes=60,
        offsets_retention_check_interval_ms=600_000,
    ) as made:
        made.time_of_day.shift = SHIFT
        yield made


def test_the_settings_reach_the_parts_that_they_are_for(broker: Broker) -> None:
    assert broker.memory_budget.size == 70_000
    assert broker.conversion_cache.budget is broker.memory_budget
    assert broker.chunk_budget.policy_for(1).chunk_size == 4_000
    assert broker.producer_ids.take() == 3 << 40
    body = Message(transactional_id=None, transaction_timeout_ms=1)
    assert ask(broker, ApiKey.InitProducerId, 4, body).producer_id == (3 << 40) + 1


def test_there_are_as_many_fetch_sessions_as_slots(broker: Broker) -> None:
    ids = []
    for _ in range(4):
        body = request(broker, {"t": 0}, session_id=0, session_epoch=0, max_wait_ms=0)
        ids.append(ask(broker, ApiKey.Fetch, 7, body).session_id)
    assert [bool(one) for one in ids] == [True, True, False, False]
    assert len(broker.fetch_sessions) == 2


def test_a_group_waits_in_the_brokers_purgatory(broker: Broker) -> None:
    body = Message(
        group_id="g",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=30_000,
        member_id="",
        protocol_type="consumer",
        protocols=[Message(name="range", metadata=b"")],
    )
    exchange = begin(broker, ApiKey.JoinGroup, 1, body, client=Client(1, "a"), now=100.0)
    assert not exchange.is_done
    assert broker.keep_time(100.0) == 102.0
    broker.tick(102.0)
    assert exchange.is_done


def test_a_commit_wakes_those_that_fetch_it_and_has_the_time_of_day(broker: Broker) -> None:
    assert commit(broker, 5, at=("t", 0)) == 0
    log = broker.topics[OFFSETS_TOPIC].partitions[0].log
    waiting = fetching(broker, 4, OFFSETS_TOPIC, log.end_offset, now=1000.0, **WAITS)
    assert commit(broker, 6, at=("t", 0)) == 0
    assert len(fetched(waiting).records)
    assert {one.timestamp for one in log.records()} == {int((1000 + SHIFT) * 1000)}


def test_offsets_are_as_old_as_the_time_of_day_says(broker: Broker) -> None:
    """Checks come by the clock of deadlines, which does not follow if the system's clock is set."""
    assert commit(broker, 5) == 0
    broker.tick(1_600.0)
    assert committed(broker) == (5, 0)
    broker.time_of_day.shift += 3_000
    broker.tick(2_200.0)
    assert committed(broker) == (-1, 0)


def test_a_transaction_that_takes_too_long_is_aborted(broker: Broker) -> None:
    producing = Producing(broker)
    assert producing.begin(timeout_ms=1_000) == 0
    producing.write([b"a"])
    assert not is_stable(broker)
    broker.tick(NOW + 10)
    assert is_stable(broker)


def test_a_transaction_wakes_those_that_fetch_it_and_has_the_time_of_day(broker: Broker) -> None:
    producing = Producing(broker)
    assert producing.begin() == 0
    own = broker.topics[TRANSACTIONS_TOPIC].partitions[0].log
    states = fetching(broker, 4, TRANSACTIONS_TOPIC, own.end_offset, now=NOW, **WAITS)
    producing.write([b"a"])
    assert len(fetched(states).records)
    now_ms = int((NOW + SHIFT) * 1000)
    assert state(broker).transaction_start_time_ms == now_ms
    waiting = fetching(broker, 4, "t", 0, now=NOW, isolation_level=1, **WAITS)
    assert producing.end() == 0
    assert len(fetched(waiting).records)
    assert {one.timestamp for one in own.records()} == {now_ms}
