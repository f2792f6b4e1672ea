"""A request's owner takes steps and turns, keeps deadlines, and leaves nothing at its end."""

from collections.abc import Iterator
from functools import partial
from math import inf
from pathlib import Path
from typing import Any, Final

import pytest

from downconvert.broker import BadRequestError, Broker, Client, Exchange, Owner
from downconvert.broker.fetch.chunk_budget import LARGE_MAX
from downconvert.broker.state import BrokerState
from downconvert.protocol.schemas import ApiKey, Message
from downconvert.serving.planning_slots import SLOTS
from tests.downconvert.storage.logs import batch

from .asking import begin, frame, sent, someone, value
from .fetching import fetched, fetching, produce, records_of, request
from .writable import writable_broker

WAITS: Final[dict[str, Any]] = {"min_bytes": 1, "max_wait_ms": 500}
HEARTBEAT = Message(group_id="g", generation_id=1, member_id="m")
KEY = ("partition", "events", 0)


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    with writable_broker(tmp_path, "events") as made:
        yield made


class Held:
    """A send without bytes, which holds something until it is closed."""

    size = 0
    completed = True

    def __init__(self) -> None:
        self.closed = 0

    def write_to(self, channel: Any, budget: int | None = None) -> int:  # noqa: ARG002
        return 0

    def close(self) -> None:
        self.closed += 1


def heartbeat(broker: Broker, handler: Any, owner: Owner | None = None) -> Exchange:
    """A request that is handled so."""
    before = broker.apis[ApiKey.Heartbeat]
    broker.apis = {**broker.apis, ApiKey.Heartbeat: type(before)(handler, before.versions)}
    return begin(broker, ApiKey.Heartbeat, 0, HEARTBEAT, owner=owner)


def wait(_broker: BrokerState, _exchange: Exchange, _now: float) -> None:
    """Responses nothing yet."""


def append(broker: Broker, *batches: bytes) -> None:
    """As a leader does it. No thread has looked yet at the waiting requests."""
    partition = broker.topics["events"].partitions[0]
    for one in batches:
        with partition.lock:
            partition.log.writer.append(one)
    broker.purgatory.notify(KEY)


# --- errors of handlers


@pytest.mark.parametrize(("error", "defects"), [(ValueError, 1), (BadRequestError, 0)])
def test_only_an_error_that_is_no_clients_fault_counts_as_a_defect(
    broker: Broker, error: type[Exception], defects: int
) -> None:
    handled = []

    def fail(_broker: BrokerState, exchange: Exchange, _now: float) -> None:
        handled.append(exchange)
        raise error("in a handler")

    with pytest.raises(error, match="in a handler"):
        heartbeat(broker, fail)
    assert handled[0].is_abandoned
    assert isinstance(handled[0].defect, error) is bool(defects)
    assert value(broker, "failed_requests_total", api="Heartbeat") == defects


def test_a_handler_that_fails_leaves_nothing_that_waits(broker: Broker) -> None:
    def fail(_broker: BrokerState, exchange: Exchange, now: float) -> None:
        class Never:
            def is_due(self) -> bool:
                return False

            def complete(self, now: float, *, timed_out: bool) -> None:
                raise AssertionError((now, timed_out))

        broker.purgatory.watch(Never(), [KEY], now, now + 10, exchange)
        raise ValueError

    with pytest.raises(ValueError, match=r"^$"):
        heartbeat(broker, fail)
    assert (len(broker.purgatory), list(broker.purgatory.notified)) == (0, [])


# --- owners, steps and turns


@pytest.mark.parametrize("waits", [False, True])
def test_the_callback_is_called_once_when_a_request_is_answered(
    broker: Broker, waits: bool
) -> None:
    produce(broker, batch(0))
    body = request(broker, {"events": int(waits)}, **WAITS)
    told: list[Exchange] = []
    data = memoryview(frame(ApiKey.Fetch, 4, body))
    exchange = broker.handle(someone(), data, 0.0, told.append)
    assert told == ([] if waits else [exchange])
    produce(broker, batch(0))
    broker.tick(0.5)
    assert told == [exchange]


def test_a_request_of_an_owner_wakes_those_that_wait_for_what_it_changed(broker: Broker) -> None:
    """Their own owners complete them, at their deadline only if the timekeeper has come."""
    theirs, mine = Owner(), Owner()
    exchange = fetching(broker, 4, "events", 0, now=0.0, owner=theirs, **WAITS)
    begin(broker, ApiKey.Heartbeat, 0, HEARTBEAT, owner=mine, now=100.0)
    assert not theirs.has_work
    append(broker, batch(0))
    assert not theirs.has_work
    begin(broker, ApiKey.Heartbeat, 0, HEARTBEAT, owner=mine, now=101.0)
    assert (theirs.has_work, mine.has_work, exchange.is_done) == (True, False, False)
    assert broker.run_due(theirs, 101.0)
    assert records_of(fetched(exchange))


@pytest.mark.parametrize("kind", ["a request", "a step", "a turn", "a pass"])
def test_a_deadline_is_noticed_by_the_timekeeper_only(broker: Broker, kind: str) -> None:
    """The others would look at all deadlines each time."""
    owner = Owner()
    exchange = fetching(broker, 4, "events", 0, now=0.0, owner=owner, **WAITS)
    append(broker, b"")
    if kind == "a request":
        begin(broker, ApiKey.Heartbeat, 0, HEARTBEAT, owner=Owner(), now=1.0)
    elif kind == "a step":
        broker.run_due(Owner(), 1.0)
    elif kind == "a turn":
        broker.run_turn(Owner(), 1.0)
    else:
        broker.complete_due(1.0)
    while broker.run_due(owner, 1.0):
        pass
    assert not exchange.is_done
    assert broker.keep_time(1.0) == inf
    assert broker.run_due(owner, 1.0)
    assert fetched(exchange).records == b""


@pytest.mark.parametrize("kind", ["step", "turn"])
def test_a_step_and_a_turn_wake_those_that_wait_for_what_they_changed(
    broker: Broker, kind: str
) -> None:
    owner, theirs = Owner(), Owner()
    exchange = fetching(broker, 4, "events", 0, now=0.0, owner=theirs, **WAITS)
    if kind == "step":
        owner.post(lambda _now: append(broker, batch(0)))
        assert broker.run_due(owner, 0.0)
        assert not broker.run_due(owner, 0.0)
    else:
        owner.post_turn(lambda _now: append(broker, batch(0)))
        assert broker.run_turn(owner, 0.0)
        assert not broker.run_turn(owner, 0.0)
    assert broker.run_due(theirs, 0.0)
    assert records_of(fetched(exchange))


def test_the_timekeeper_learns_the_next_deadline(broker: Broker) -> None:
    owner = Owner()
    assert broker.keep_time(0.0) == inf
    for wait_ms in (900, 300, 600):
        fields = WAITS | {"max_wait_ms": wait_ms}
        fetching(broker, 4, "events", 0, now=10.0, owner=owner, **fields)
    for now, following in ((10.0, 10.3), (10.3, 10.6), (10.5, 10.6), (10.7, 10.9), (11.0, inf)):
        assert broker.keep_time(now) == pytest.approx(following)
        while broker.run_due(owner, now):
            pass


def test_a_caller_without_an_owner_completes_what_is_due_by_its_next_request(
    broker: Broker,
) -> None:
    exchange = fetching(broker, 4, "events", 0, now=0.0, **WAITS)
    produce(broker, batch(0))
    assert records_of(fetched(exchange))


def test_a_tick_runs_one_turn_of_each_and_asks_to_be_called_again(broker: Broker) -> None:
    ran: list[tuple[str, float]] = []

    def work(name: str, exchange: Exchange, turns: int, now: float) -> None:
        ran.append((name, now))
        if turns > 1:
            exchange.post_turn(partial(work, name, exchange, turns - 1))
        else:
            exchange.reply(Message(error_code=0))

    for name, turns in (("a", 1), ("b", 3), ("c", 2)):
        exchange = heartbeat(broker, wait)
        exchange.post_turn(partial(work, name, exchange, turns))
    fetching(broker, 4, "events", 0, now=0.0, **WAITS)
    assert broker.tick(0.1) == 0.1
    assert ran == [("a", 0.1), ("b", 0.1), ("c", 0.1)]
    assert broker.tick(0.2) == 0.2
    assert ran[3:] == [("b", 0.2), ("c", 0.2)]
    assert broker.tick(0.3) == 0.5
    assert ran[5:] == [("b", 0.3)]
    assert broker.tick(0.5) is None


# --- the end of an exchange


def test_a_client_that_goes_while_it_waits_is_forgotten(broker: Broker) -> None:
    exchange = fetching(broker, 4, "events", 0, now=0.0, **WAITS)
    assert len(broker.purgatory) == 1
    broker.finished(exchange)
    assert exchange.is_abandoned
    assert (len(broker.purgatory), list(broker.purgatory.notified)) == (0, [])
    produce(broker, batch(0))
    assert not exchange.is_done


def test_a_request_that_ended_with_a_defect_waits_no_more(broker: Broker) -> None:
    """It is answered, but what waited for it was not taken out."""

    class Bad:
        def is_due(self) -> bool:
            raise ValueError("a defect")

        def complete(self, now: float, *, timed_out: bool) -> None:
            raise AssertionError((now, timed_out))

    exchange = heartbeat(broker, wait)
    with pytest.raises(ValueError, match="a defect"):
        broker.purgatory.watch(Bad(), [KEY], 0.0, 10.0, exchange)
    broker.purgatory.notify(KEY)
    broker.complete_due(0.0)
    assert (exchange.is_done, exchange.close_after_reply) == (True, True)
    broker.finished(exchange)
    assert (len(broker.purgatory), list(broker.purgatory.notified)) == (0, [])


def test_work_in_progress_is_closed_when_its_client_goes(broker: Broker) -> None:
    closed = []

    def work() -> Iterator[None]:
        try:
            while True:
                yield
        finally:
            closed.append(True)

    exchange = heartbeat(broker, wait)
    exchange.work_on(work(), 0.0)  # type: ignore[arg-type]
    broker.finished(exchange)
    assert closed == [True]
    assert broker.tick(0.0) is None


def test_an_exchange_that_was_answered_is_not_abandoned(broker: Broker) -> None:
    exchange = begin(broker, ApiKey.Heartbeat, 0, HEARTBEAT)
    broker.finished(exchange, 0.5)
    assert not exchange.is_abandoned
    labels = {"api": "Heartbeat"}
    assert value(broker, "request_duration_seconds_sum", **labels) == 0.5
    assert value(broker, "request_duration_seconds_count", **labels) == 1
    broker.finished(begin(broker, ApiKey.Heartbeat, 0, HEARTBEAT))
    assert value(broker, "request_duration_seconds_count", **labels) == 1


@pytest.mark.parametrize("is_sent", [True, False])
def test_a_finished_fetch_gives_its_chunks_to_the_next_client(
    broker: Broker, is_sent: bool
) -> None:
    produce(broker, batch(0, 1))
    held = []
    for number in range(LARGE_MAX):
        client = Client(number, "127.0.0.1")
        held.append(fetching(broker, 2, "events", 0, now=0.0, client=client))
    budget = broker.chunk_budget
    assert budget.policy_for(100) is not budget.policy_for(0)
    if is_sent:
        sent(held[3])
    broker.finished(held[3])
    assert budget.policy_for(100) is budget.policy_for(0)
    assert budget.policy_for(101) is not budget.policy_for(0)


def test_a_client_that_goes_gives_its_planning_slot_to_the_next(broker: Broker) -> None:
    produce(broker, batch(0, 1))
    exchange = fetching(broker, 2, "events", 0, now=0.0, client=Client(0, "127.0.0.1"))
    slots, woken = broker.planning_slots, []
    for number in range(SLOTS):
        assert slots.take(number, lambda: None)
    assert not slots.take(100, lambda: woken.append(100))
    broker.finished(exchange)
    assert woken == [100]
    assert len(slots) == SLOTS


@pytest.mark.parametrize("is_sent", [True, False])
def test_records_are_closed_unless_all_are_sent(broker: Broker, is_sent: bool) -> None:
    """A send releases its resources with its last byte."""
    produce(broker, batch(0, 1))
    exchange = fetching(broker, 2, "events", 0, now=0.0)
    if is_sent:
        sent(exchange)
    assert exchange.send is not None
    held = Held()
    exchange.send.records.append(held)
    broker.finished(exchange)
    assert held.closed == (0 if is_sent else 1)
