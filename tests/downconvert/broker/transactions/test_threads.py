"""Many producers at a time: no thread waits for another for ever, and no batch comes after its
transaction's marker."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random
from threading import Event

from downconvert.protocol.errors import ErrorCode
from downconvert.protocol.schemas import ApiKey, Message
from tests.downconvert.broker.asking import ask
from tests.downconvert.broker.transacting import Producing, committed, is_stable
from tests.downconvert.broker.writable import writable_broker

ROUNDS, PLACES, PATIENCE = 15, [("t", 0), ("t", 1)], 120.0
FENCED = {
    ErrorCode.PRODUCER_FENCED,
    ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.INVALID_TXN_STATE,
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
}


def steps(producer: Producing, values: list[bytes]) -> Iterator[ErrorCode]:
    """The responses on the way to a commit."""
    for at, value in zip(PLACES, values, strict=True):
        yield from producer.add(at)
        yield producer.send(value, at)
    yield producer.add_offsets()
    yield producer.commit_offset(1)
    yield producer.end()


def test_producers_that_fence_each_other_leave_whole_transactions(tmp_path: Path) -> None:
    with writable_broker(tmp_path, "t", partitions=2, node_id=0) as broker:
        told: list[list[bytes]] = []
        is_over = Event()

        def produce(number: int) -> None:
            random = Random(number)
            for turn in range(ROUNDS):
                producer = Producing(broker, random.choice(["x", "y"]))
                values = [b"%d/%d/%d" % (number, turn, at) for at, _ in enumerate(PLACES)]
                code = producer.begin()
                if not code:
                    codes = iter(steps(producer, values))
                    code = next((code for code in codes if code), ErrorCode.NONE)
                assert code in {ErrorCode.NONE, *FENCED}
                if not code:
                    told.append(values)

        def delete() -> None:
            """Takes the locks of topics and groups meanwhile."""
            while not is_over.is_set():
                broker.topics.create("u", 1, {}, 0)
                topics = [Message(name="u", topic_id=bytes(16))]
                ask(broker, ApiKey.DeleteTopics, 6, Message(topics=topics))

        with ThreadPoolExecutor(5) as threads:
            deleting = threads.submit(delete)
            producing = [threads.submit(produce, number) for number in range(4)]
            try:
                for one in producing:
                    one.result(PATIENCE)
            finally:
                is_over.set()
            deleting.result(PATIENCE)
        for name in ("x", "y"):
            assert Producing(broker, name).begin() is ErrorCode.NONE
        found = [set(committed(broker, at)) for at in PLACES]
        assert all(is_stable(broker, at) for at in PLACES)
        for at in range(len(PLACES)):
            assert {values[at] for values in told} == found[at] - {None}
        assert told
