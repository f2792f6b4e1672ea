"""Requests that convert records: on the network thread, or on a converting thread."""

import threading
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from downconvert import ConversionPolicy, LazyRecodedRecords
from downconvert.broker.fetch.contribution import Reading
from downconvert.broker.fetch.reading_converted import read_converted
from downconvert.protocol.schemas import ApiKey, Message
from downconvert.serving.appending import prepare_ordinary
from records import Codec
from records.formats import V1, V2
from records.units import KiB
from tests.downconvert.broker.fetching import broker_of
from tests.downconvert.broker.talking import TOPIC, Talk, fetch, serving_broker
from tests.downconvert.broker.writable import writable_broker
from tests.downconvert.storage.logs import batch
from tests.waiting import wait_for


def reading_threads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The kinds of the threads that read partitions for old clients from now on."""
    threads: list[str] = []

    def counted(*args: Any, **fields: Any) -> Reading:
        threads.append(threading.current_thread().name.partition("-")[0])
        return read_converted(*args, **fields)

    monkeypatch.setattr("downconvert.broker.fetch.fetch_reader.read_converted", counted)
    return threads


def test_small_fetches_of_old_clients_that_wait_need_no_other_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads = reading_threads(monkeypatch)
    with (
        writable_broker(tmp_path, TOPIC) as broker,
        serving_broker(broker) as server,
        ExitStack() as stack,
    ):
        waiting = [stack.enter_context(Talk(server.address)) for _ in range(40)]
        for number, talk in enumerate(waiting):
            talk.send(ApiKey.Fetch, number % 4, fetch(wait=60_000))
        wait_for(lambda: len(broker.purgatory) == len(waiting))
        assert not threads, "there is nothing to convert"
        with Talk(server.address) as producer:
            data = [Message(index=0, records=batch(0, 1, codec=Codec.GZIP))]
            topics = [Message(name=TOPIC, partition_data=data)]
            body = Message(acks=1, timeout_ms=1000, topic_data=topics)
            producer.ask(ApiKey.Produce, 9, body)
        for talk in waiting:
            assert talk.receive()
    assert threads == ["network"] * len(waiting)


@pytest.mark.parametrize(
    ("sizes", "codec", "then"),
    [
        ([64 * KiB - 200], Codec.NONE, "network"),
        ([64 * KiB + 200], Codec.NONE, "converting"),
        ([30 * KiB, 30 * KiB], Codec.NONE, "network"),
        ([40 * KiB, 40 * KiB], Codec.NONE, "converting"),
        ([60 * KiB], Codec.GZIP, "network"),
        ([100 * KiB], Codec.GZIP, "network"),  # it stays compressed, and small
    ],
)
@pytest.mark.parametrize("version", [0, 3])
def test_an_old_client_moves_to_a_converting_thread_after_a_large_conversion(
    sizes: list[int],
    codec: Codec,
    then: str,
    version: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    threads = reading_threads(monkeypatch)
    topics = {f"t{n}": {0: [batch(0, size=size, codec=codec)]} for n, size in enumerate(sizes)}
    body = fetch(wait=0)
    body.topics = [Message(topic=name, partitions=body.topics[0].partitions) for name in topics]
    with (
        broker_of(tmp_path, topics) as broker,
        serving_broker(broker) as server,
        Talk(server.address) as talk,
    ):
        for _ in range(2):
            for topic in talk.ask(ApiKey.Fetch, version, body).responses:
                assert topic.partitions[0].records
    assert threads == ["network"] * len(sizes) + [then] * len(sizes)


def test_a_small_batch_that_becomes_a_large_response_moves_its_client(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads = reading_threads(monkeypatch)
    policy = ConversionPolicy(recode={"gzip": "none"})
    topics = {TOPIC: {0: [batch(0, size=100 * KiB, codec=Codec.GZIP)]}}
    with (
        broker_of(tmp_path, topics, policy=policy) as broker,
        serving_broker(broker) as server,
        Talk(server.address) as talk,
    ):
        for _ in range(2):
            assert talk.ask(ApiKey.Fetch, 2, fetch()).responses[0].partitions[0].records
    assert threads == ["network", "converting"]


@pytest.mark.parametrize(
    ("own", "version", "codec", "thread"),
    [
        ({"compression.type": "gzip"}, 9, Codec.LZ4, "converting"),
        ({"compression.type": "gzip"}, 9, Codec.NONE, "converting"),
        ({"compression.type": "gzip"}, 9, Codec.GZIP, "network"),
        ({}, 9, Codec.LZ4, "network"),
        ({}, 2, Codec.LZ4, "converting"),
    ],
)
def test_records_are_recompressed_in_threads_without_other_clients(
    own: dict[str, str],
    version: int,
    codec: Codec,
    thread: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    threads: list[str] = []

    def prepared(*args: Any, **more: Any) -> Any:
        threads.append(threading.current_thread().name)
        return prepare_ordinary(*args, **more)

    for module in ("produce", "fast_produce"):
        monkeypatch.setattr(f"downconvert.broker.handlers.{module}.prepare_ordinary", prepared)
    with writable_broker(tmp_path, TOPIC) as broker:
        broker.topics.configure(TOPIC, own)
        magic = V2 if version > 2 else V1
        with serving_broker(broker) as server, Talk(server.address) as talk:
            for _ in range(2):
                records = batch(0, magic=magic, codec=codec)
                topics = [Message(name=TOPIC, partition_data=[Message(index=0, records=records)])]
                body = Message(acks=1, timeout_ms=1000, topic_data=topics)
                (topic,) = talk.ask(ApiKey.Produce, version, body).responses
                assert topic.partition_responses[0].error_code == 0
    assert len(threads) >= 2
    assert {name.partition("-")[0] for name in threads} == {thread}


def test_a_client_that_needs_another_codec_moves_to_where_nobody_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[str] = []

    to_send = LazyRecodedRecords.to_send

    def recoded(lazy: LazyRecodedRecords) -> Any:
        threads.append(threading.current_thread().name.partition("-")[0])
        return to_send(lazy)

    monkeypatch.setattr(LazyRecodedRecords, "to_send", recoded)
    with (
        broker_of(tmp_path, {TOPIC: {0: [batch(0, codec=Codec.ZSTD)]}}) as broker,
        serving_broker(broker) as server,
        Talk(server.address) as talk,
    ):
        for _ in range(3):
            (topic,) = talk.ask(ApiKey.Fetch, 9, fetch()).responses
            assert len(topic.partitions[0].records)
    assert threads == ["network", "converting", "converting"]
