"""The cost of a request grows with its bytes, and not with their square.

Each request here takes a second or two. If its cost were the product of two numbers in it, or of
one and the broker's state, it would take minutes.

Not here: what the requests do (handlers/), how much memory they take (test_serving_memory.py)."""

import sys
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from string import ascii_letters
from time import thread_time
from types import SimpleNamespace

import pytest

from downconvert.broker import Broker
from downconvert.broker.groups.member import Join
from downconvert.broker.handlers.alter_configs import Operation
from downconvert.broker.partition import Partition
from downconvert.broker.topics import OFFSETS_TOPIC
from downconvert.internal_topics.transaction import Transaction
from downconvert.protocol.errors import ErrorCode
from downconvert.protocol.schemas import ApiKey, Message
from downconvert.storage import TopicPartition

from .asking import ask, begin, response_of
from .groups.test_joining import new_group
from .writable import writable_broker

SECONDS = 20.0  # of this thread's time, on a machine that is ten times slower than most
TEXT = 32_000  # characters of a list in one setting
FILTERS = 200_000
SHORT = ["".join(one) for size in (1, 2) for one in product(ascii_letters, repeat=size)]


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    with writable_broker(tmp_path, "t") as one:
        yield one


def quickly(work: Callable[[], object]) -> object:
    started = thread_time()
    found = work()
    assert thread_time() - started < SECONDS
    return found


def worked_on(broker: Broker, api: ApiKey, version: int, body: Message) -> Message:
    """The response to a request that is worked on in turns."""
    exchange = begin(broker, api, version, SimpleNamespace(**vars(body)))
    while not exchange.is_done:
        broker.tick(0.0)
    return response_of(exchange)


@pytest.mark.parametrize("filters", ["state_filters", "producer_id_filters"])
def test_transactions_are_listed_by_many_filters(
    broker: Broker, monkeypatch: pytest.MonkeyPatch, filters: str
) -> None:
    many = {
        str(n): Transaction(transactional_id=str(n), producer_id=n, timeout_ms=1)
        for n in range(20_000)
    }
    monkeypatch.setattr(broker.transactions, "all", lambda: many)
    values = (
        [f"no{n}" for n in range(FILTERS)] if filters == "state_filters" else range(-FILTERS, 1)
    )
    body = Message(**{"state_filters": [], "producer_id_filters": [], filters: list(values)})
    found = quickly(lambda: ask(broker, ApiKey.ListTransactions, 1, body))
    assert isinstance(found, Message)
    ids = [one.producer_id for one in found.transaction_states]
    assert ids == ([0] if filters == "producer_id_filters" else [])


COMMITTED = Message(
    name="t", partitions=[Message(partition_index=0, committed_offset=1)], topic_id=bytes(16)
)
COORDINATED: dict[str, tuple[ApiKey, int, Message]] = {
    "commit": (ApiKey.OffsetCommit, 2, Message(group_id="g", topics=[COMMITTED])),
    "begin": (ApiKey.InitProducerId, 0, Message(transactional_id="x", transaction_timeout_ms=1)),
    "find": (ApiKey.FindCoordinator, 4, Message(key_type=1, coordinator_keys=["x", "y", "z"])),
    "find_group": (ApiKey.FindCoordinator, 0, Message(key="g")),
    "heartbeat": (ApiKey.Heartbeat, 0, Message(group_id="g")),
}


@pytest.mark.parametrize("request_", COORDINATED)
def test_the_cost_for_a_coordinator_does_not_grow_with_the_partitions(
    broker: Broker, request_: str
) -> None:
    """Neither with those of `__consumer_offsets`, nor with those of other topics."""

    def asked() -> Message:
        return response_of(begin(broker, *COORDINATED[request_]))

    for one in COORDINATED.values():
        begin(broker, *one)
    few, _ = lines(asked)
    for name in (OFFSETS_TOPIC, "t"):
        partitions = broker.topics[name].partitions
        for index in range(1, 1_000):
            partitions[index] = Partition(
                TopicPartition(name, index), partitions[0].log, 0, broker.topics.with_others
            )
    many, found = lines(asked)
    assert many < few + 100
    topics = getattr(found, "topics", ())
    codes = {
        getattr(one, "error_code", 0)
        for one in (found, *getattr(found, "coordinators", ()), *(t.partitions[0] for t in topics))
    }
    assert codes == ({ErrorCode.UNKNOWN_MEMBER_ID} if request_ == "heartbeat" else {0})


def test_long_lists_are_joined_to_settings(broker: Broker) -> None:
    value = ",".join(SHORT)
    configs = [
        Message(name=name, config_operation=Operation.APPEND, value=value)
        for name in (
            "cleanup.policy",
            "leader.replication.throttled.replicas",
            "follower.replication.throttled.replicas",
        )
    ]
    assert len(value) < TEXT
    body = Message(
        resources=[
            Message(resource_type=2, resource_name=f"t{n}", configs=configs) for n in range(200)
        ]
    )
    quickly(lambda: worked_on(broker, ApiKey.IncrementalAlterConfigs, 1, body))


def test_the_cost_of_a_new_name_does_not_grow_with_the_topics(tmp_path: Path) -> None:
    one = Message(name="", num_partitions=1, replication_factor=1, assignments=[], configs=[])
    names = [f"new_{n}" for n in range(100)] + ["one_7"]
    topics = [Message(**vars(one) | {"name": name}) for name in names]
    body = Message(topics=topics, validate_only=True)

    def calls(existing: int) -> int:
        path = tmp_path / str(existing)
        path.mkdir()
        with writable_broker(path, *(f"one.{n}" for n in range(8, existing)), "one.7") as broker:
            count, found = counted(lambda: worked_on(broker, ApiKey.CreateTopics, 4, body))
        assert [one.name for one in found.topics if one.error_code] == ["one_7"]
        return count

    assert calls(200) - calls(10) < (200 - 10) * len(names) / 2  # no call for each pair of names


def counted(work: Callable[[], Message]) -> tuple[int, Message]:
    """The number of calls, also of built-in functions, and the response."""
    calls = 0

    def count(_: object, event: str, __: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        found = work()
    finally:
        sys.setprofile(None)
    return calls, found


def lines(work: Callable[[], Message]) -> tuple[int, Message]:
    """The number of lines of Python that are run, and the response."""
    run = 0

    def count(_: object, event: str, __: object) -> object:
        nonlocal run
        run += event == "line"
        return count

    sys.settrace(count)
    try:
        found = work()
    finally:
        sys.settrace(None)
    return run, found


def test_a_member_joins_and_leaves_a_large_group() -> None:
    """Each of its members supports one protocol of all, and many of its own."""
    group = new_group()

    def protocols(number: int) -> tuple[tuple[str, bytes], ...]:
        return (("range", b""), *((f"{number}/{one}", b"") for one in range(99)))

    def work() -> None:
        joined: list[str] = []
        for number in range(2_000):
            join = Join(
                protocol_type="consumer",
                protocols=protocols(number),
                session_timeout=10.0,
                rebalance_timeout=10.0,
                instance_id=str(number),
            )
            group.join(join, 0.0, lambda one: joined.append(one.member_id))
        for member_id in list(group.members):
            assert group.leave(member_id, None, 0.0) is ErrorCode.NONE

    quickly(work)
    assert not group.members
