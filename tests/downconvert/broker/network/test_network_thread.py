"""The network thread: answers of other threads, defects, hand-overs, and clients that go."""

import logging
import threading
import time
from contextlib import ExitStack
from pathlib import Path

import pytest

from downconvert.access.rights import Access
from downconvert.broker import Broker
from downconvert.broker.exchange import Exchange
from downconvert.broker.handlers.fetch import Fetch
from downconvert.broker.state import BrokerState
from downconvert.protocol.schemas import ApiKey, Message
from downconvert.storage import LogDir
from tests.downconvert.broker.guarding import guard_of
from tests.downconvert.broker.talking import (
    API_VERSIONS,
    SECONDS,
    TOPIC,
    Talk,
    fetch,
    serving,
    serving_broker,
)
from tests.downconvert.broker.writable import writable_broker
from tests.downconvert.storage.logs import batch
from tests.waiting import wait_for


def test_a_response_that_another_thread_gives_goes_out_at_once(tmp_path: Path) -> None:
    held: list[Exchange] = []
    broker = Broker(LogDir.open(tmp_path))

    def hold(_broker: BrokerState, exchange: Exchange, _now: float) -> None:
        held.append(exchange)

    api = broker.apis[ApiKey.Metadata]
    broker.apis = {**broker.apis, ApiKey.Metadata: type(api)(hold, api.versions)}
    with serving_broker(broker) as server, Talk(server.address) as talk:
        talk.send(ApiKey.Metadata, 0, Message(topics=[]))
        while not held:
            time.sleep(0.001)
        held[0].reply(Message(brokers=[], topics=[]))
        assert talk.receive()


@pytest.mark.parametrize("delay", [0.0, 0.0001, 0.001])
def test_a_response_may_be_given_while_its_request_is_handled(tmp_path: Path, delay: float) -> None:
    """Whenever another thread answers, the response goes out, and once."""
    broker = Broker(LogDir.open(tmp_path))

    def answer_elsewhere(_broker: BrokerState, exchange: Exchange, _now: float) -> None:
        def response() -> None:
            time.sleep(delay)
            exchange.reply(Message(brokers=[], topics=[]))

        threading.Thread(target=response).start()
        time.sleep(0.0001)

    api = broker.apis[ApiKey.Metadata]
    broker.apis = {**broker.apis, ApiKey.Metadata: type(api)(answer_elsewhere, api.versions)}
    with serving_broker(broker) as server, Talk(server.address) as talk:
        for _ in range(50):
            talk.send(ApiKey.Metadata, 0, Message(topics=[]))
            assert talk.receive()
        assert talk.is_served()


def test_a_defect_ends_one_connection_and_is_logged_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    broker = Broker(LogDir.open(tmp_path))

    def fail(_broker: BrokerState, _exchange: Exchange, _now: float) -> None:
        raise KeyError("a defect")

    api = broker.apis[ApiKey.Metadata]
    broker.apis = {**broker.apis, ApiKey.Metadata: type(api)(fail, api.versions)}
    with serving_broker(broker) as server, Talk(server.address) as other:
        with Talk(server.address) as talk:
            talk.send(ApiKey.Metadata, 0, Message(topics=[]))
            assert talk.has_ended()
        assert other.is_served()
    assert [r.getMessage() for r in caplog.records if r.exc_info] == [
        "a defect: 127.0.0.1 is disconnected"
    ]


def test_a_defect_in_a_waiting_request_ends_that_one_and_not_the_one_that_woke_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(_fetch: Fetch, _now: float) -> None:
        raise ValueError("a defect")

    with (
        writable_broker(tmp_path, TOPIC) as broker,
        serving_broker(broker, network_threads=1) as server,
        ExitStack() as stack,
    ):
        waiting = [stack.enter_context(Talk(server.address)) for _ in range(6)]
        for version, talk in enumerate(waiting):
            talk.send(ApiKey.Fetch, version, fetch(wait=60_000))
        wait_for(lambda: len(broker.purgatory) == len(waiting))
        for version in (2, 4):  # both threads have done with those that wait once they answer this
            with Talk(server.address) as talk:
                talk.ask(ApiKey.Fetch, version, fetch())
        monkeypatch.setattr("downconvert.broker.handlers.fetch.Fetch.resume", fail)
        with Talk(server.address) as producer:
            for _ in range(3):
                data = [Message(index=0, records=batch(0))]
                topics = [Message(name=TOPIC, partition_data=data)]
                body = Message(acks=1, timeout_ms=1000, topic_data=topics)
                (topic,) = producer.ask(ApiKey.Produce, 9, body).responses
                assert topic.partition_responses[0].error_code == 0
            assert all(talk.has_ended() for talk in waiting)
            assert producer.is_served()
        wait_for(lambda: len(server.places) == 0)
    lines = [r.getMessage() for r in caplog.records if r.levelno >= logging.ERROR]
    assert lines == ["a defect: Fetch of 127.0.0.1 is not answered"] * len(waiting)


def test_a_client_that_hangs_up_is_not_waited_for(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        purgatory = server.broker.purgatory
        for version in (2, 4):
            with Talk(server.address) as talk:
                talk.send(ApiKey.Fetch, version, fetch(offset=30, wait=60_000))
                wait_for(lambda: len(purgatory) == 1)
            wait_for(lambda: len(purgatory) == 0)


def test_a_thread_leaves_a_connection_alone_that_it_handed_over(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Its exchange is done, and it goes to another thread, in a turn that has seen its next request
    already."""
    broker = Broker(LogDir.open(tmp_path))
    waiting: list[Exchange] = []
    is_busy, goes_on, is_answered = threading.Event(), threading.Event(), threading.Event()

    def hold(_broker: BrokerState, exchange: Exchange, _now: float) -> None:
        waiting.append(exchange)

    def keep_busy(_broker: BrokerState, exchange: Exchange, _now: float) -> None:
        is_busy.set()
        assert goes_on.wait(SECONDS)
        exchange.reply_nothing()

    def finish(_broker: BrokerState, exchange: Exchange, _now: float) -> None:
        waiting[0].reply(Message(topics=[]))
        exchange.reply_nothing()

    def wait_for_response(_broker: BrokerState, exchange: Exchange, _now: float) -> None:
        assert is_answered.wait(SECONDS)
        exchange.reply_nothing()

    handlers = {
        ApiKey.CreateTopics: hold,
        ApiKey.ListGroups: keep_busy,
        ApiKey.Metadata: finish,
        ApiKey.DescribeGroups: wait_for_response,
    }
    made = type(broker.apis[ApiKey.Metadata])
    broker.apis = dict(broker.apis) | {
        api: made(handler, broker.apis[api].versions) for api, handler in handlers.items()
    }
    with (
        serving_broker(broker, network_threads=1) as server,
        Talk(server.address) as old,
        Talk(server.address) as busy,
        Talk(server.address) as finishing,
        Talk(server.address) as slow,
    ):
        old.send(ApiKey.CreateTopics, 2, Message(topics=[], timeout_ms=1000, validate_only=False))
        while not waiting:
            time.sleep(0.001)
        busy.send(ApiKey.ListGroups, 0, Message())
        assert is_busy.wait(SECONDS)
        finishing.send(ApiKey.Metadata, 0, Message(topics=[]))
        slow.send(ApiKey.DescribeGroups, 0, Message(groups=[]))
        old.send(*API_VERSIONS)
        goes_on.set()
        assert old.receive()  # from the other thread
        assert old.receive()
        is_answered.set()
        for _ in range(20):
            with Talk(server.address) as other:
                assert other.is_served()
        assert old.is_served()
    assert len(server.places) == 0
    assert [r.getMessage() for r in caplog.records if r.levelno >= logging.WARNING] == []


def test_a_client_that_leaves_while_it_is_muted_is_forgotten(tmp_path: Path) -> None:
    """Otherwise, clients that connect again and again would leave more and more state while they
    owe time."""
    with serving(tmp_path, size=1000) as server:
        server.broker.guard = guard_of(None, Access(consumer_byte_rate=0.001))
        for _ in range(3):
            with Talk(server.address) as talk:
                response = talk.ask(ApiKey.Fetch, 4, fetch())
                assert response.throttle_time_ms > 3_600_000
        assert server.muted_clients > 0
        wait_for(lambda: len(server.places) == 0)
        wait_for(lambda: server.muted_clients == 0)


@pytest.mark.parametrize(
    "api",
    [
        ApiKey.CreateTopics,
        ApiKey.DeleteTopics,
        ApiKey.DeleteRecords,
        ApiKey.AlterConfigs,
        ApiKey.IncrementalAlterConfigs,
        ApiKey.CreatePartitions,
    ],
)
def test_a_slow_change_of_topics_keeps_no_other_client_waiting(tmp_path: Path, api: ApiKey) -> None:
    """Neither on any network thread nor on a converting one. Changes wait for each other."""
    began, may_end = threading.Event(), threading.Event()

    def change_slowly(_broker: BrokerState, exchange: Exchange, _now: float) -> None:
        began.set()
        assert may_end.wait(SECONDS)
        exchange.reply_nothing()

    with serving(tmp_path, network_threads=2) as server, ExitStack() as stack:
        broker = server.broker
        served = broker.apis[api]
        broker.apis = {**broker.apis, api: type(served)(change_slowly, served.versions)}
        first, old = stack.enter_context(Talk(server.address)), Talk(server.address)
        others = [stack.enter_context(old)]
        others += [stack.enter_context(Talk(server.address)) for _ in range(4)]
        assert old.ask(ApiKey.Fetch, 2, fetch())
        empty = bytes(20)
        first.send_frame(api.to_bytes(2) + empty)
        assert began.wait(SECONDS)
        assert all(other.is_served() for other in others)
        assert old.ask(ApiKey.Fetch, 2, fetch())
        began.clear()
        old.send_frame(api.to_bytes(2) + empty)  # from a converting thread
        assert all(other.is_served() for other in others[1:])
        assert not began.is_set()
        may_end.set()
        assert began.wait(SECONDS)
        assert first.is_served()
        assert old.is_served()
