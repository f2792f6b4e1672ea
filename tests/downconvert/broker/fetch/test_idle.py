"""A session of many partitions costs what happens in it, not what it names: counted, not timed."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from downconvert.broker import Broker, BrokerConfig
from downconvert.broker.fetch import idle
from downconvert.broker.partition import Partition
from downconvert.protocol.errors import ErrorCode
from downconvert.protocol.schemas import ApiKey, Message
from downconvert.storage import Log, LogDir
from records.backend import file_stamps
from tests.downconvert.broker.asking import ask, begin, response_of
from tests.downconvert.broker.writable import writable_broker
from tests.downconvert.storage.logs import batch

COUNT = 20
VERSION = 11


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The partitions that are looked at closely, one name for each time."""
    found: list[str] = []
    check, read = Partition.check, Log.read

    def checked(self: Partition, *args: Any, **kwargs: Any) -> None:
        found.append(str(self.name))
        check(self, *args, **kwargs)

    def reads(self: Log, *args: Any, **kwargs: Any) -> Any:
        found.append(f"read {self.path.name}")
        return read(self, *args, **kwargs)

    monkeypatch.setattr(Partition, "check", checked)
    monkeypatch.setattr(Log, "read", reads)
    return found


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    with writable_broker(tmp_path, "t", partitions=COUNT) as one:
        yield one


class Consumer:
    """A session of all partitions of a topic."""

    def __init__(self, broker: Broker, now: float = 0.0, version: int = VERSION) -> None:
        self.broker, self.now, self.version = broker, now, version
        self.id = self.epoch = 0
        self.topic_id = broker.topics["t"].id
        assert [one.partition_index for one in self.ask(dict.fromkeys(range(COUNT), 0))]

    def body(self, offsets: dict[int, int], **fields: Any) -> Message:
        partitions = [
            Message(
                partition=index,
                fetch_offset=offset,
                partition_max_bytes=2**20,
                current_leader_epoch=-1,
                last_fetched_epoch=-1,
                log_start_offset=-1,
            )
            for index, offset in offsets.items()
        ]
        topics = [Message(topic="t", topic_id=self.topic_id, partitions=partitions)]
        start: dict[str, Any] = {
            "replica_id": -1,
            "max_wait_ms": 0,
            "min_bytes": 0,
            "max_bytes": 2**26,
        }
        start |= {"isolation_level": 0, "session_id": self.id, "session_epoch": self.epoch}
        start |= {"topics": topics if offsets else [], "forgotten_topics_data": []}
        return Message(**start | fields)

    def ask(self, offsets: dict[int, int], **fields: Any) -> list[Message]:
        body = self.body(offsets, **fields)
        response = ask(self.broker, ApiKey.Fetch, self.version, body, now=self.now)
        return self.partitions_in(response)

    def partitions_in(self, response: Message) -> list[Message]:
        assert response.error_code == ErrorCode.NONE
        self.id, self.epoch = response.session_id, self.epoch + 1
        return [one for topic in response.responses for one in topic.partitions]


def produce(broker: Broker, index: int, *offsets: int) -> None:
    data = [Message(index=index, records=batch(*offsets))]
    body = Message(
        transactional_id=None,
        acks=1,
        timeout_ms=1000,
        topic_data=[Message(name="t", partition_data=data)],
    )
    (topic,) = ask(broker, ApiKey.Produce, 8, body).responses
    assert topic.partition_responses[0].error_code == ErrorCode.NONE


@pytest.mark.parametrize("version", [7, VERSION, 13])
@pytest.mark.parametrize("isolation", [0, 1])
def test_partitions_in_which_nothing_is_new_are_not_looked_at(
    version: int, isolation: int, broker: Broker, looks: list[str]
) -> None:
    consumer = Consumer(broker, version=version)
    consumer.ask({}, isolation_level=isolation)
    looks.clear()
    assert consumer.ask({}, isolation_level=isolation) == []
    assert looks == []


def test_only_the_partition_with_new_records_is_read(broker: Broker, looks: list[str]) -> None:
    consumer = Consumer(broker)
    produce(broker, 7, 0, 1)
    looks.clear()
    (found,) = consumer.ask({})
    assert (found.partition_index, found.high_watermark, len(found.records)) == (
        7,
        2,
        len(batch(0, 1)),
    )
    assert set(looks) == {"t-7", "read t-7"}
    looks.clear()
    assert consumer.ask({7: 2}) == []
    assert set(looks) == {"t-7"}, "nothing is read where the client has everything"
    looks.clear()
    assert consumer.ask({}) == []
    assert looks == []


def test_a_partition_whose_records_found_no_room_is_read_again(broker: Broker) -> None:
    """Nothing was read of it, and it has not changed since. But there is something."""
    produce(broker, 3, 0, 1)
    produce(broker, 5, 0, 1)
    consumer = Consumer(broker)
    consumer.id = consumer.epoch = 0
    first = consumer.ask(dict.fromkeys(range(COUNT), 0), max_bytes=len(batch(0, 1)))
    assert [one.partition_index for one in first if len(one.records)] == [3]
    found = consumer.ask({3: 2})
    assert [one.partition_index for one in found if len(one.records)] == [5]


def test_another_isolation_level_looks_at_all_partitions_again(
    broker: Broker, looks: list[str]
) -> None:
    consumer = Consumer(broker)
    looks.clear()
    consumer.ask({}, isolation_level=1)
    assert len(looks) == COUNT


def test_a_session_that_waits_is_woken_by_what_comes(broker: Broker, looks: list[str]) -> None:
    consumer = Consumer(broker)
    body = consumer.body({}, max_wait_ms=1000, min_bytes=1)
    looks.clear()
    exchange = begin(broker, ApiKey.Fetch, VERSION, body)
    assert not exchange.is_done
    assert looks == []
    produce(broker, 3, 0)
    broker.tick(0.1)
    (found,) = consumer.partitions_in(response_of(exchange))
    assert (found.partition_index, found.high_watermark) == (3, 1)
    assert {look.removeprefix("read ") for look in looks} == {"t-3"}


def test_a_session_without_news_reads_nothing(broker: Broker, looks: list[str]) -> None:
    consumer = Consumer(broker)
    looks.clear()
    body = consumer.body({}, max_wait_ms=1000, min_bytes=1)
    exchange = begin(broker, ApiKey.Fetch, VERSION, body)
    assert not exchange.is_done
    broker.tick(1.1)
    assert consumer.partitions_in(response_of(exchange)) == []
    assert looks == []


def test_deleted_records_put_the_partition_into_the_response(broker: Broker) -> None:
    produce(broker, 5, 0, 1)
    consumer = Consumer(broker)
    assert consumer.ask({5: 2}) == []
    assert consumer.ask({}) == []
    partition = broker.topics["t"].partitions[5]
    partition.log.writer.delete_records(1)
    (found,) = consumer.ask({})
    assert (found.partition_index, found.log_start_offset) == (5, 1)


def test_a_topic_that_was_made_again_is_another(broker: Broker) -> None:
    consumer = Consumer(broker)
    assert consumer.ask({}) == []
    broker.topics.delete("t")
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert {one.error_code for one in consumer.ask({})} == {unknown}
    broker.topics.create("t", COUNT, {}, 5)
    assert {one.error_code for one in consumer.ask({})} == {ErrorCode.NONE}


def test_an_error_of_one_partition_leaves_the_others_idle(broker: Broker, looks: list[str]) -> None:
    consumer = Consumer(broker)
    assert [one.error_code for one in consumer.ask({4: 99})] == [ErrorCode.OFFSET_OUT_OF_RANGE]
    looks.clear()
    assert [one.partition_index for one in consumer.ask({})] == [4]
    assert {look.removeprefix("read ") for look in looks} == {"t-4"}


def test_a_directory_of_another_process_is_checked_by_its_files(
    tmp_path: Path, looks: list[str]
) -> None:
    with (
        writable_broker(tmp_path, "t", partitions=COUNT) as owner,
        LogDir.open(tmp_path) as log_dir,
    ):
        broker = Broker(log_dir, BrokerConfig())
        consumer = Consumer(broker, now=time.time() + 60)  # all files are old by then
        looks.clear()
        assert consumer.ask({}) == []
        assert looks == []
        produce(owner, 2, 0)
        (found,) = consumer.ask({})
        assert (found.partition_index, found.high_watermark) == (2, 1)
        assert {look.removeprefix("read ") for look in looks} == {"t-2"}


@pytest.mark.parametrize("set_back", [0.0, 3600.0])
def test_files_that_may_be_changing_are_looked_at_again(
    tmp_path: Path, looks: list[str], set_back: float
) -> None:
    """The same holds if the system's clock, from which files get their times, was set back
    meanwhile."""
    with writable_broker(tmp_path, "t", partitions=COUNT), LogDir.open(tmp_path) as log_dir:
        broker = Broker(log_dir, BrokerConfig())
        broker.time_of_day.shift = -set_back
        consumer = Consumer(broker, now=time.time() + set_back)
        looks.clear()
        assert consumer.ask({}) == []
        assert len(looks) == COUNT


def test_a_fetch_that_waits_looks_at_the_files_when_it_comes_and_when_it_is_late(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two files for each partition, and all of them by one call."""
    with writable_broker(tmp_path, "t", partitions=COUNT), LogDir.open(tmp_path) as log_dir:
        broker = Broker(log_dir, BrokerConfig())
        consumer = Consumer(broker, now=time.time() + 60)
        consumer.ask({})
        calls: list[int] = []

        def counted(paths: list[bytes]) -> bytes:
            calls.append(len(paths))
            return file_stamps(paths)

        monkeypatch.setattr(idle, "file_stamps", counted)
        body = consumer.body({}, max_wait_ms=1000, min_bytes=1)
        exchange = begin(broker, ApiKey.Fetch, VERSION, body, now=consumer.now)
        assert not exchange.is_done
        broker.tick(consumer.now + 1.1)
        assert consumer.partitions_in(response_of(exchange)) == []
    assert sum(calls) <= 2 * (2 * COUNT + 1)
    assert len([count for count in calls if count]) <= 2 * 2, "and one for the start offsets"


def test_records_that_another_process_wrote_are_returned_when_the_wait_ends(tmp_path: Path) -> None:
    with (
        writable_broker(tmp_path, "t", partitions=COUNT) as owner,
        LogDir.open(tmp_path) as log_dir,
    ):
        broker = Broker(log_dir, BrokerConfig())
        consumer = Consumer(broker, now=time.time() + 60)
        consumer.ask({})
        body = consumer.body({}, max_wait_ms=1000, min_bytes=1)
        exchange = begin(broker, ApiKey.Fetch, VERSION, body, now=consumer.now)
        produce(owner, 2, 0)
        broker.tick(consumer.now + 1.1)
        (found,) = consumer.partitions_in(response_of(exchange))
        assert (found.partition_index, found.high_watermark) == (2, 1)
