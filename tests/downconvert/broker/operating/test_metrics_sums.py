"""Metrics add up: over requests, over the parts of a response, and by client."""

from pathlib import Path

import pytest

from downconvert import ConversionStats
from downconvert.broker.endings import End
from downconvert.broker.exchange import Client
from downconvert.broker.operating import metrics
from downconvert.protocol.schemas import ApiKey, Message
from tests.downconvert.broker.asking import begin, frame, response_of, sent, value
from tests.downconvert.broker.fetching import broker_of, request
from tests.downconvert.storage.logs import batch

SEGMENTS = {0: [batch(0, 1, 2)]}


def test_requests_and_their_bytes_are_counted_by_client(tmp_path: Path) -> None:
    body = Message(topics=[])
    size = len(frame(ApiKey.Metadata, 1, body))
    with broker_of(tmp_path, {}) as broker:
        for address, count in (("10.0.0.1", 3), ("10.0.0.2", 2)):
            for _ in range(count):
                begin(broker, ApiKey.Metadata, 1, body, client=Client(1, address))
        name = "client_requests_total"
        assert value(broker, name, client_id="test", address="10.0.0.1") == 3
        assert value(broker, name, client_id="test", address="10.0.0.2") == 2
        assert value(broker, "request_bytes_total", api="Metadata") == 5 * size
        assert value(broker, "requests_total", api="Metadata", version="1") == 5


def test_a_request_lasts_from_its_arrival_to_the_end_of_its_response(tmp_path: Path) -> None:
    with broker_of(tmp_path, {"a": SEGMENTS}) as broker:
        body = request(broker, {"a": 3}, max_wait_ms=2000, min_bytes=1)
        exchange = begin(broker, ApiKey.Fetch, 4, body, now=10.0)
        broker.tick(12.0)
        response_of(exchange)
        exchange.throttle = 2.5
        broker.finished(exchange, 17.0)
        assert value(broker, "request_duration_seconds_sum", api="Fetch") == 7.0
        assert value(broker, "request_duration_seconds_count", api="Fetch") == 1
        assert value(broker, "throttled_seconds_total", api="Fetch") == 2.5


def test_each_error_of_a_response_is_counted(tmp_path: Path) -> None:
    with broker_of(tmp_path, {"a": SEGMENTS}) as broker:
        asked = [Message(partition_index=index, timestamp=-1) for index in (0, 5, 6)]
        body = Message(replica_id=-1, topics=[Message(name="a", partitions=asked)])
        for count in (2, 4):
            exchange = begin(broker, ApiKey.ListOffsets, 5, body)
            size = len(sent(exchange))
            broker.finished(exchange, 1.0)
            labels = {"api": "ListOffsets", "code": "UNKNOWN_TOPIC_OR_PARTITION"}
            assert value(broker, "errors_total", **labels) == count
            labels = {"api": "ListOffsets"}
            assert value(broker, "response_bytes_total", **labels) == size * count / 2


def test_the_parts_of_a_response_are_added(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = [
        ConversionStats(
            records_converted=3, seconds_converting=0.25, temporary_bytes=100, filler_bytes=7
        ),
        ConversionStats(
            records_converted=4, seconds_converting=0.5, temporary_bytes=300, filler_bytes=11
        ),
        ConversionStats(),
    ]
    monkeypatch.setattr(metrics, "stats_of", lambda _send: made)
    with broker_of(tmp_path, {"a": SEGMENTS}) as broker:
        exchange = begin(broker, ApiKey.Fetch, 2, request(broker, {"a": 0}))
        sent(exchange)
        broker.metrics.finished(exchange, None)
        fetch = {"api": "Fetch"}
        found = {
            "converted_records_total": value(broker, "converted_records_total", topic="a", **fetch),
            "client_converted_records_total": value(
                broker, "client_converted_records_total", client_id="test", address="127.0.0.1"
            ),
            "conversion_duration_seconds_sum": value(
                broker, "conversion_duration_seconds_sum", **fetch
            ),
            "conversion_duration_seconds_count": value(
                broker, "conversion_duration_seconds_count", **fetch
            ),
            "conversion_memory_bytes_sum": value(broker, "conversion_memory_bytes_sum", **fetch),
            "filler_bytes_total": value(broker, "filler_bytes_total"),
        }
        broker.finished(exchange)
    assert found == {
        "converted_records_total": 7,
        "client_converted_records_total": 7,
        "conversion_duration_seconds_sum": 0.75,
        "conversion_duration_seconds_count": 1,
        "conversion_memory_bytes_sum": 400,
        "filler_bytes_total": 18,
    }


def test_records_that_were_converted_before_count_for_each_client(tmp_path: Path) -> None:
    with broker_of(tmp_path, {"a": SEGMENTS}) as broker:
        for number, address in enumerate(("10.0.0.1", "10.0.0.2", "10.0.0.3"), start=1):
            client = Client(number, address)
            exchange = begin(broker, ApiKey.Fetch, 2, request(broker, {"a": 0}), client=client)
            sent(exchange)
            broker.finished(exchange, 1.0)
            labels = {"client_id": "test", "address": address}
            assert value(broker, "client_converted_records_total", **labels) == 3
        assert broker.conversion_cache.hits == 1


def test_conversions_for_producers_and_ends_of_connections_are_summed(tmp_path: Path) -> None:
    with broker_of(tmp_path, {}) as broker:
        broker.metrics.produced("a", 10, 0.5, 1000)
        broker.metrics.produced("a", 20, 0.25, 500)
        for end in (End.LOGIN, End.LOGIN, End.TIMEOUT):
            broker.metrics.ended(end)
        produce = {"api": "Produce"}
        assert value(broker, "converted_records_total", topic="a", **produce) == 30
        assert value(broker, "conversion_duration_seconds_sum", **produce) == 0.75
        assert value(broker, "conversion_memory_bytes_sum", **produce) == 1500
        assert value(broker, "connections_ended_total", reason="failed_login") == 2
        assert value(broker, "connections_ended_total", reason="timed_out") == 1


def test_waiting_requests_and_kept_chunks_have_metrics_of_their_own(tmp_path: Path) -> None:
    topics = {name: {0: [batch(0)]} for name in "abc"}
    with broker_of(tmp_path, topics) as broker:
        begin(broker, ApiKey.Fetch, 11, request(broker, dict.fromkeys(topics, 1), session_epoch=0))
        for _ in range(2):
            waits = request(broker, {"a": 1}, max_wait_ms=100, min_bytes=1)
            begin(broker, ApiKey.Fetch, 3, waits)
        names = ("fetch_sessions", "fetch_session_partitions", "waiting_requests")
        assert [value(broker, name) for name in names] == [1, 3, 2]
