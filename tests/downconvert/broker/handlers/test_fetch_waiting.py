"""Fetches that wait: for records, for as many bytes as they ask for, for their time to be up."""

import tracemalloc
from collections import Counter
from pathlib import Path
from threading import Thread, get_ident
from typing import Any

import pytest

from downconvert.access.rights import Access
from downconvert.broker import Broker, Client, Owner
from downconvert.broker.fetch.chunk_budget import LARGE, LARGE_MAX
from downconvert.broker.fetch.contribution import Reading
from downconvert.broker.fetch.reading_converted import read_converted
from downconvert.broker.partition import Partition
from downconvert.protocol.errors import ErrorCode
from downconvert.protocol.schemas import ApiKey, Message
from records import Codec
from tests.downconvert.broker.asking import begin, frame, someone
from tests.downconvert.broker.fetching import (
    OLD_VERSIONS,
    VERSIONS,
    broker_of,
    fetched,
    fetching,
    marker,
    produce,
    records_of,
    request,
)
from tests.downconvert.broker.writable import writable_broker
from tests.downconvert.storage.logs import batch


def append(broker: Broker, *batches: bytes, now: float = 0.0) -> None:
    """As a leader does it."""
    partition = broker.topics["events"].partitions[0]
    for one in batches:
        with partition.lock:
            partition.log.writer.append(one)
    broker.purgatory.notify(("partition", "events", 0))
    broker.tick(now)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_fetch_at_the_end_waits_for_records(version: int, tmp_path: Path) -> None:
    with writable_broker(tmp_path, "events") as broker:
        exchange = fetching(broker, version, "events", 0, now=0, max_wait_ms=500, min_bytes=1)
        assert not exchange.is_done
        append(broker, batch(0, 1), now=0.2)
        assert [one.offset for one in records_of(fetched(exchange))] == [0, 1]
        assert not len(broker.purgatory)


@pytest.mark.parametrize(("partitions", "seconds"), [(1, 60.0), (999, 60.0), (3999, 15.0)])
def test_a_fetch_of_many_partitions_waits_for_a_shorter_time(
    tmp_path: Path, partitions: int, seconds: float
) -> None:
    """It takes memory meanwhile. The topic counts as an element, too."""
    with writable_broker(tmp_path, "events") as broker:
        body = request(broker, {"events": 0}, max_wait_ms=2**31 - 1, min_bytes=1)
        body.topics[0].partitions *= partitions
        exchange = begin(broker, ApiKey.Fetch, 4, body)
        assert not exchange.is_done
        assert broker.purgatory.next_deadline == seconds


@pytest.mark.parametrize("version", VERSIONS)
def test_a_fetch_that_has_waited_long_enough_is_answered(version: int, tmp_path: Path) -> None:
    with writable_broker(tmp_path, "events") as broker:
        exchange = fetching(broker, version, "events", 0, now=7, max_wait_ms=500, min_bytes=1)
        assert broker.tick(7.4) == pytest.approx(7.5)
        assert not exchange.is_done
        broker.tick(7.5)
        assert fetched(exchange).records == b""


def test_a_fetch_waits_for_a_minute_at_most(tmp_path: Path) -> None:
    with writable_broker(tmp_path, "events") as broker:
        fetching(broker, 11, "events", 0, now=7, max_wait_ms=2**31 - 1, min_bytes=1)
        assert broker.tick(7) == pytest.approx(67)
        broker.tick(67)
        assert not len(broker.purgatory)


def test_a_fetch_that_waits_holds_no_more_of_its_request_than_it_needs(tmp_path: Path) -> None:
    with writable_broker(tmp_path, "events") as broker:
        body = request(broker, {"events": 0}, max_wait_ms=500, min_bytes=1)
        body.topics += [Message(topic="", partitions=[])] * 20_000
        data = memoryview(frame(ApiKey.Fetch, 4, body))
        tracemalloc.start()
        exchange = broker.handle(someone(), data, 0.0)
        held, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert not exchange.is_done
        assert held < most / 10
        append(broker, batch(0))
        assert len(records_of(fetched(exchange))) == 1


def test_a_fetch_waits_for_as_many_bytes_as_it_asks_for(tmp_path: Path) -> None:
    one = batch(0, size=100)
    with writable_broker(tmp_path, "events") as broker:
        size = 2 * len(one)
        exchange = fetching(broker, 11, "events", 0, now=0, max_wait_ms=500, min_bytes=size)
        append(broker, one)
        assert not exchange.is_done
        append(broker, batch(1, size=100))
        assert len(fetched(exchange).records) == size


@pytest.mark.parametrize("version", [4, 9, 11])
def test_a_fetch_that_ends_with_its_segment_does_not_wait_for_more_bytes(
    version: int, tmp_path: Path
) -> None:
    """A response has records of one segment, so it would get no more of them later."""
    first, second = [batch(0), batch(1)], [batch(2)]
    with broker_of(tmp_path, {"events": {0: first, 2: second}}) as broker:
        waits = {"max_wait_ms": 500, "min_bytes": 10_000}
        exchange = fetching(broker, version, "events", 0, now=0, **waits)
        broker.tick(0.0)
        assert [one.offset for one in records_of(fetched(exchange))] == [0, 1]
        assert not fetching(broker, version, "events", 2, now=0, **waits).is_done
        assert not fetching(broker, version, "events", 3, now=0, **waits).is_done


@pytest.mark.parametrize("version", [4, 9, 11])
def test_a_fetch_from_the_last_record_of_a_segment_on_does_not_wait_either(
    version: int, tmp_path: Path
) -> None:
    with broker_of(tmp_path, {"events": {0: [batch(0, 1)], 2: [batch(2)]}}) as broker:
        waits = {"max_wait_ms": 500, "min_bytes": 10_000}
        exchange = fetching(broker, version, "events", 1, now=0, **waits)
        broker.tick(0.0)
        assert exchange.is_done
        assert 1 in [one.offset for one in records_of(fetched(exchange))]


def test_bytes_beyond_a_partitions_limit_do_not_count(tmp_path: Path) -> None:
    """The client would get no more than that limit, and ask again at once."""
    one = batch(0, size=100)
    with writable_broker(tmp_path, "events") as broker:
        fields = {"min_bytes": 2 * len(one), "max_wait_ms": 500}
        body = request(broker, {"events": 0}, len(one), **fields)
        append(broker, one)
        exchange = begin(broker, ApiKey.Fetch, 11, body)
        for offset in range(1, 4):
            append(broker, batch(offset, size=100), now=0.1)
            assert not exchange.is_done
        broker.tick(0.5)
        assert len(records_of(fetched(exchange))) == 1


def test_a_marker_does_not_wake_an_old_client(tmp_path: Path) -> None:
    """It would be answered with nothing, and ask again at once."""
    with writable_broker(tmp_path, "events") as broker:
        append(broker, batch(0))
        exchange = fetching(broker, 3, "events", 1, now=0, max_wait_ms=500, min_bytes=1)
        append(broker, marker(1), now=0.1)
        assert not exchange.is_done
        append(broker, batch(2), now=0.2)
        assert [one.offset for one in records_of(fetched(exchange))] == [2]


class Work:
    """Counts conversions, by the threads in which they are made."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.by_thread = Counter[int]()
        monkeypatch.setattr(
            "downconvert.broker.fetch.fetch_reader.read_converted", self._read_converted
        )

    def _read_converted(self, *args: Any, **fields: Any) -> Reading:
        self.by_thread[get_ident()] += 1
        return read_converted(*args, **fields)


def test_a_producer_converts_nothing_for_those_who_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with writable_broker(tmp_path, "events") as broker:
        owner = Owner()
        waiting = [
            fetching(
                broker,
                version,
                "events",
                0,
                now=0,
                client=Client(number, "127.0.0.1"),
                owner=owner,
                max_wait_ms=500,
                min_bytes=1,
            )
            for number, version in enumerate([*OLD_VERSIONS] * 25)
        ]
        work = Work(monkeypatch)
        looks = Counter[int]()
        monkeypatch.setattr(
            "downconvert.broker.handlers.fetch.Fetch.is_due",
            lambda _: looks.update([get_ident()]) or 1,
        )
        producer = Thread(target=produce, args=(broker, batch(0, 1, codec=Codec.GZIP)))
        producer.start()
        producer.join()
        assert not work.by_thread
        assert not looks
        assert not any(one.is_done for one in waiting)
        while broker.run_due(owner, 0.1):
            pass
        assert work.by_thread == looks == {get_ident(): len(waiting)}
        for exchange in waiting:
            assert [one.offset for one in records_of(fetched(exchange))] == [0, 1]
            broker.finished(exchange)


@pytest.mark.parametrize("version", OLD_VERSIONS)
def test_too_few_records_are_not_converted_before_the_wait_ends(
    version: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = batch(0, size=500, codec=Codec.GZIP)
    work = Work(monkeypatch)
    with writable_broker(tmp_path, "events") as broker:
        append(broker, one)
        enough, never = (
            fetching(
                broker, version, "events", 0, now=0, max_wait_ms=500, min_bytes=size * len(one)
            )
            for size in (2, 1000)
        )
        append(broker, marker(1), now=0.1)
        assert not enough.is_done
        assert not work.by_thread
        append(broker, batch(2, size=500, codec=Codec.GZIP), now=0.2)
        assert [one.offset for one in records_of(fetched(enough))] == [0, 2]
        assert work.by_thread.total() == 1
        assert not never.is_done
        broker.tick(0.5)
        assert [one.offset for one in records_of(fetched(never))] == [0, 2]
        assert work.by_thread.total() == 2


def test_waiting_fetches_hold_no_large_chunks_and_unconverted_ones_take_none(
    tmp_path: Path,
) -> None:
    with writable_broker(tmp_path, "events") as broker:
        append(broker, batch(0), marker(1))
        for version, offset in ((2, 2), (3, 1), (4, 0)):  # at the end, before a marker, new
            for number in range(LARGE_MAX):
                client = Client(100 * version + number, "127.0.0.1")
                fetching(
                    broker,
                    version,
                    "events",
                    offset,
                    now=0,
                    client=client,
                    max_wait_ms=500,
                    min_bytes=1,
                )
            assert broker.chunk_budget.policy_for(1).chunk_size == LARGE
            broker.chunk_budget.release(1)


def test_a_fetch_for_no_bytes_waits_too(tmp_path: Path) -> None:
    """Otherwise a client without room would ask all the time."""
    with writable_broker(tmp_path, "events") as broker:
        exchange = fetching(
            broker, 12, "events", 0, now=0, max_wait_ms=500, min_bytes=1, max_bytes=0
        )
        assert not exchange.is_done
        broker.tick(0.5)
        assert exchange.is_done


def test_a_fetch_waits_for_no_more_bytes_than_it_can_get(tmp_path: Path) -> None:
    with writable_broker(tmp_path, "events", fetch_max_bytes=len(batch(0, 1))) as broker:
        append(broker, batch(0, 1), batch(2))
        exchange = fetching(broker, 12, "events", 0, now=0, max_wait_ms=500, min_bytes=10_000)
        assert exchange.is_done


def test_a_fetch_waits_no_longer_where_another_broker_leads(tmp_path: Path) -> None:
    with writable_broker(tmp_path, "events") as broker:
        exchange = fetching(broker, 9, "events", 0, now=0, max_wait_ms=500, min_bytes=1)
        partition = broker.topics["events"].partitions[0]
        broker.purgatory.notify(partition.key)
        broker.tick(0.1)
        assert not exchange.is_done
        partition.leader, partition.leader_epoch = 7, 3
        broker.purgatory.notify(partition.key)
        broker.tick(0.2)
        assert fetched(exchange).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_only_bytes_that_a_partition_may_send_count(tmp_path: Path) -> None:
    with writable_broker(tmp_path, "events") as broker:
        exchange = fetching(
            broker, 12, "events", 0, now=0, max_wait_ms=500, min_bytes=1_000, max_bytes=400
        )
        append(broker, batch(0, size=2_000), now=0.1)
        assert not exchange.is_done
        broker.tick(0.5)
        assert exchange.is_done


def test_a_log_that_can_no_longer_be_read_is_reported_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with writable_broker(tmp_path, "events") as broker:
        append(broker, batch(0))
        exchange = fetching(broker, 12, "events", 0, now=0, max_wait_ms=500, min_bytes=1_000)
        assert not exchange.is_done

        def fails(*_: object) -> None:
            raise OSError("gone")

        monkeypatch.setattr(Partition, "read", fails)
        append(broker, batch(1), now=0.1)
        assert fetched(exchange).error_code == ErrorCode.KAFKA_STORAGE_ERROR


def test_a_follower_that_waits_has_fetched_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its fetch is read again at the end, and says nothing more about what it has."""
    noted: list[tuple[int, float]] = []

    def note(_: Partition, id_: int, offset: int, now: float, _epoch: int) -> bool:
        noted.append((offset, now))
        return id_ < 0

    monkeypatch.setattr(Partition, "follower_fetched", note)
    with writable_broker(tmp_path, "events") as broker:
        client = someone(access=Access(follower_ids=frozenset({5})))
        exchange = fetching(
            broker,
            12,
            "events",
            0,
            now=1.0,
            max_wait_ms=500,
            min_bytes=1,
            replica_id=5,
            client=client,
        )
        broker.tick(1.5)
        assert exchange.is_done
    assert noted == [(0, 1.0)]
