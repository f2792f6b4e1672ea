"""Metrics: what was asked, sent and converted."""

from pathlib import Path

import pytest

from downconvert.broker import Broker
from downconvert.protocol.schemas import ApiKey, Message
from records import Codec
from tests.downconvert.broker.asking import begin, sent, value
from tests.downconvert.broker.fetching import broker_of, request
from tests.downconvert.storage.logs import batch


def fetched(broker: Broker, version: int, *topics: str) -> int:
    """Bytes of the response."""
    body = request(broker, dict.fromkeys(topics, 0))
    exchange = begin(broker, ApiKey.Fetch, version, body)
    size = len(sent(exchange))
    broker.metrics.finished(exchange, None)
    return size


def test_records_that_were_converted_are_counted_by_topic(tmp_path: Path) -> None:
    topics = {"a": {0: [batch(0, 1, 2)]}, "b": {0: [batch(0, 1, codec=Codec.LZ4)]}}
    with broker_of(tmp_path, topics) as broker:
        fetched(broker, 2, "a", "b")
        fetched(broker, 2, "a")
        assert value(broker, "converted_records_total", api="Fetch", topic="a") == 6
        assert value(broker, "converted_records_total", api="Fetch", topic="b") == 2
        assert value(broker, "conversion_duration_seconds_count", api="Fetch") == 2
        assert value(broker, "conversion_memory_bytes_sum", api="Fetch") > 3 * len(batch(0))
        assert value(broker, "filler_bytes_total") == 0


def test_unconverted_records_count_as_bytes_only(tmp_path: Path) -> None:
    with broker_of(tmp_path, {"a": {0: [batch(0, 1, 2)]}}) as broker:
        size = fetched(broker, 12, "a")
        assert value(broker, "response_bytes_total", api="Fetch") == size
        assert value(broker, "converted_records_total", api="Fetch", topic="a") == 0
        assert value(broker, "conversion_duration_seconds_count", api="Fetch") == 0


def test_requests_are_counted_by_their_version(tmp_path: Path) -> None:
    with broker_of(tmp_path, {"a": {0: [batch(0)]}}) as broker:
        for version in (0, 1, 1):
            begin(broker, ApiKey.Metadata, version, Message(topics=[]))
        assert value(broker, "requests_total", api="Metadata", version="1") == 2
        assert value(broker, "request_bytes_total", api="Metadata") > 30


def test_a_response_that_was_cut_off_counts_as_far_as_it_came(tmp_path: Path) -> None:
    with broker_of(tmp_path, {"a": {0: [batch(*range(5000), size=100)]}}) as broker:
        exchange = begin(broker, ApiKey.Fetch, 2, request(broker, {"a": 0}))
        broker.tick(0.0)
        assert exchange.send is not None
        taken = bytearray()

        class Channel:
            def write(self, data: memoryview) -> int:
                taken.extend(data)
                return len(data)

        channel = Channel()
        for _ in range(2):
            exchange.send.write_to(channel)
        broker.metrics.finished(exchange, None)
        assert value(broker, "response_bytes_total", api="Fetch") == len(taken)
        assert 0 < value(broker, "converted_records_total", api="Fetch", topic="a") < 5000


def test_each_broker_counts_for_itself(tmp_path: Path) -> None:
    for name in "12":
        (tmp_path / name).mkdir()
    with (
        broker_of(tmp_path / "1", {"a": {0: [batch(0)]}}) as one,
        broker_of(tmp_path / "2", {"a": {0: [batch(0)]}}) as other,
    ):
        begin(one, ApiKey.Metadata, 0, Message(topics=[]))
        assert value(other, "requests_total", api="Metadata", version="0") == 0


def test_waiting_requests_and_kept_chunks_have_metrics(tmp_path: Path) -> None:
    with broker_of(tmp_path, {"a": {0: [batch(0)]}}) as broker:
        body = request(broker, {"a": 1}, session_epoch=0)
        begin(broker, ApiKey.Fetch, 11, body)
        body = request(broker, {"a": 1}, max_wait_ms=100, min_bytes=1)
        begin(broker, ApiKey.Fetch, 3, body)
        found = [value(broker, name) for name in ("fetch_sessions", "fetch_session_partitions")]
        assert (*found, value(broker, "waiting_requests")) == (1, 1, 1)


def test_conversions_of_what_was_produced_are_counted(tmp_path: Path) -> None:
    with broker_of(tmp_path, {"a": {0: [batch(0)]}}) as broker:
        broker.metrics.produced("a", 10, 0.5, 1000)
        assert value(broker, "converted_records_total", api="Produce", topic="a") == 10
        assert value(broker, "conversion_duration_seconds_sum", api="Produce") == (
            pytest.approx(0.5)
        )


def test_a_request_that_a_defect_ended_is_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise ValueError("a defect")

    with broker_of(tmp_path, {"a": {0: [batch(0)]}}) as broker:
        body = request(broker, {"a": 1}, max_wait_ms=100, min_bytes=1)
        waiting = begin(broker, ApiKey.Fetch, 3, body)
        monkeypatch.setattr("downconvert.broker.handlers.fetch.Fetch.resume", fail)
        broker.tick(0.1)
        assert waiting.close_after_reply
        broker.finished(waiting)
        with pytest.raises(ValueError, match="a defect"):
            begin(broker, ApiKey.Fetch, 3, request(broker, {"a": 0}))
        assert value(broker, "failed_requests_total", api="Fetch") == 2
        assert not len(broker.purgatory)
