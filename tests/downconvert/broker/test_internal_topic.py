"""A topic of the broker's own: which partition has a key, and how records come there.

Not here: the number of its partitions (groups/test_offsets_topic.py), what is in the records
(groups/test_offsets.py, transactions)."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from downconvert.broker import Broker, BrokerConfig, ErrorCode
from downconvert.broker.groups.offsets_topic import OffsetsTopic
from downconvert.broker.internal_topic import partition_of
from downconvert.broker.partition import Partition
from downconvert.broker.topics import OFFSETS_TOPIC
from downconvert.protocol.errors import ApiError
from downconvert.storage import DiskFullError, Log, LogDir, StorageError, TopicPartition
from downconvert.storage.disk.files import WritableFile
from records import BatchHeader, RecordsError
from records.kernel import Buffer
from tests.downconvert.storage.logs import UnsyncedDisk, UnsyncedFile

from .fetching import fetched, fetching
from .late_lock import Late
from .two_replicas import decision

LOGGER: Final = "downconvert.broker.internal_topic"
NOW, SHIFT = 1000.5, 7.25  # seconds: of the broker's clock, and of the system's beyond it
NOW_MS = 1_007_750
RECORD: Final = [(b"k", b"v")]


class FullFile(UnsyncedFile):
    """Has no room while its directory is named in `full`."""

    full: set[str]

    def write_at(self, data: Buffer, position: int) -> None:
        if self.path.parent.name in self.full:
            raise DiskFullError(str(self.path))
        super().write_at(data, position)


class FullDisk(UnsyncedDisk):
    def __init__(self) -> None:
        self.full: set[str] = set()

    def open(self, path: Path) -> WritableFile:
        file = FullFile(path)
        file.full = self.full
        return file


def of(broker: Broker) -> OffsetsTopic:
    return OffsetsTopic(broker.config, broker.topics, broker.purgatory, broker.time_of_day)


@contextmanager
def topic_of(
    path: Path, *partitions: int, disk: UnsyncedDisk | None = None, **config: Any
) -> Iterator[tuple[Broker, OffsetsTopic]]:
    """A broker with these partitions of the topic, created in this order."""
    files = UnsyncedDisk() if disk is None else disk
    path.mkdir(exist_ok=True)
    with LogDir.open(path, writable=True, files=files) as log_dir:
        broker = Broker(log_dir, BrokerConfig(is_writable=True, **config))
        broker.time_of_day.shift = SHIFT
        if partitions:
            broker.topics.create(OFFSETS_TOPIC, 0, {}, 0)
            broker.topics.add_partitions(OFFSETS_TOPIC, partitions)
        yield broker, of(broker)


def headers(topic: OffsetsTopic, index: int) -> list[BatchHeader]:
    return [header for _, header in dict(topic.partitions())[index].log.batches()]


# --- which partition


@pytest.mark.parametrize(
    ("key", "hashed"),
    [
        ("", 0),
        ("a", 97),
        ("ab", 97 * 31 + 98),
        ("ä", 0xE4),
        ("\u20ac", 0x20AC),
        ("\U0001f600", 0xD83D * 31 + 0xDE00),  # two units of UTF-16
        ("polygenelubricants", 0),  # Java's smallest int, whose absolute value is negative
    ],
)
def test_a_key_is_hashed_as_java_does(key: str, hashed: int) -> None:
    assert partition_of(key, 2**31) == hashed
    assert partition_of(key, 7) == hashed % 7


def test_a_negative_hash_loses_its_sign_before_it_chooses_a_partition() -> None:
    total = 0
    for letter in "zzzzzz":
        total = (31 * total + ord(letter)) & 0xFFFF_FFFF
    assert total >= 2**31
    assert partition_of("zzzzzz", 2**31) == total - 2**31
    assert partition_of("zzzzzz", 50) == (total - 2**31) % 50
    assert partition_of("zzzzzz", 50) != total % 50


@pytest.mark.parametrize("leader", [9, None])
def test_a_key_is_led_elsewhere_if_its_own_partition_is(tmp_path: Path, leader: int | None) -> None:
    with topic_of(tmp_path, 0, 1, 2, node_id=4) as (broker, topic):
        keys = {index: key for key in "abcdef" for index in [topic.partition_of(key)]}
        assert not any(topic.is_led_elsewhere(key) for key in keys.values())
        broker.topics[OFFSETS_TOPIC].partitions[1].assign(decision(1, leader), NOW)
        found = {index: topic.is_led_elsewhere(key) for index, key in keys.items()}
        assert found == {0: False, 1: True, 2: False}
        broker.topics[OFFSETS_TOPIC].partitions[1].assign(decision(2, 4), NOW)
        assert not any(topic.is_led_elsewhere(key) for key in keys.values())


def test_a_topic_that_is_not_here_has_no_partitions(tmp_path: Path) -> None:
    with topic_of(tmp_path) as (_, topic):
        assert (topic.partitions(), topic.missing, topic.count) == ([], [], 1)
        assert not topic.is_led_elsewhere("a")
        read: list[int] = []
        topic.read_each(lambda index, _log: read.append(index))
        assert read == []


# --- reading


@pytest.mark.parametrize("error", [RecordsError, StorageError, OSError])
def test_damage_in_one_partition_keeps_no_other_from_being_read(
    tmp_path: Path, error: type[Exception], caplog: pytest.LogCaptureFixture
) -> None:
    with topic_of(tmp_path, 2, 0, 1) as (broker, topic):
        read: list[tuple[int, Log]] = []

        def take(index: int, log: Log) -> None:
            read.append((index, log))
            if index == 1:
                raise error("a bad sector")

        topic.read_each(take)
        partitions = broker.topics[OFFSETS_TOPIC].partitions
        assert read == [(index, partitions[index].log) for index in (0, 1, 2)]
        assert "__consumer_offsets-1 is read up to its damage: a bad sector" in caplog.text


def test_a_defect_is_no_damage(tmp_path: Path) -> None:
    def fail(index: int, log: Log) -> None:
        raise ValueError(index, log)

    with topic_of(tmp_path, 0) as (_, topic), pytest.raises(ValueError, match="0"):
        topic.read_each(fail)


# --- creating


def test_missing_partitions_are_created_once_and_highest_first(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    with topic_of(tmp_path, 1, offsets_topic_num_partitions=5) as (broker, topic):
        logs, made = broker.topics.log_dir.logs, []
        create = logs.create

        def noted(partition: TopicPartition) -> Log:
            made.append(partition.partition)
            return create(partition)

        monkeypatch.setattr(logs, "create", noted)
        key = next(key for key in "abcdef" if topic.partition_of(key) == 3)
        for _ in range(2):
            assert topic.ensure(key, NOW) == (ErrorCode.NONE, 3)
        assert made == [4, 3, 2, 0]
        assert [index for index, _ in topic.partitions()] == list(range(5))
        assert caplog.text.count("4 partitions were missing, and begin empty") == 1


def test_a_new_topic_is_compacted_in_small_segments(tmp_path: Path) -> None:
    with topic_of(tmp_path) as (broker, topic):
        assert topic.ensure("a", NOW) == (ErrorCode.NONE, 0)
        own = broker.topics[OFFSETS_TOPIC].config
        assert own == {"cleanup.policy": "compact", "segment.bytes": "104857600"}


def test_a_new_topics_id_comes_from_the_time_of_day(tmp_path: Path) -> None:
    """Else a topic that is deleted and created again after a restart might get its old one."""
    ways: list[Callable[[OffsetsTopic], object]] = [
        lambda topic: topic.ensure("a", NOW),
        lambda topic: topic.append_to(0, RECORD, NOW),
    ]
    with topic_of(tmp_path / "other") as (other, _):
        expected = other.topics.create(OFFSETS_TOPIC, 1, {}, NOW_MS).id
    for number, make in enumerate(ways):
        with topic_of(tmp_path / str(number)) as (broker, topic):
            make(topic)
            assert broker.topics[OFFSETS_TOPIC].id == expected


def test_a_partition_that_another_thread_creates_first_is_not_created_again(tmp_path: Path) -> None:
    made: list[Partition] = []
    with topic_of(tmp_path) as (broker, topic):

        def create() -> None:
            of(broker).ensure("a", NOW)
            made.append(broker.topics[OFFSETS_TOPIC].partitions[0])

        lock: Any = Late(broker.topics.lock, 1, create)
        broker.topics.lock = lock
        assert topic.ensure("a", NOW) == (ErrorCode.NONE, 0)
        assert [partition for _, partition in topic.partitions()] == made


def test_a_partition_that_cannot_be_created_has_no_index(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    disk = FullDisk()
    with topic_of(tmp_path, disk=disk) as (broker, topic):
        disk.full.add("__consumer_offsets-0")
        assert topic.ensure("a", NOW) == (ErrorCode.NOT_COORDINATOR, -1)
        assert OFFSETS_TOPIC not in broker.topics
        assert "__consumer_offsets-0 cannot be written: no space left" in caplog.text
        disk.full.clear()
        assert topic.ensure("a", NOW) == (ErrorCode.NONE, 0)


# --- appending


def test_a_batch_has_the_time_of_day_and_the_offset_of_its_first_record(tmp_path: Path) -> None:
    with topic_of(tmp_path, 0, 1) as (_, topic):
        records = [(b"k", b"v"), (b"l", None), (b"m", b"w")]
        assert topic.append_to(1, records, NOW) == (ErrorCode.NONE, 0)
        assert topic.append_to(1, records[:2], NOW + 1) == (ErrorCode.NONE, 3)
        log = dict(topic.partitions())[1].log
        found = [(one.offset, one.timestamp, one.key, one.value) for one in log.records()]
        assert found[:3] == [(at, NOW_MS, *one) for at, one in enumerate(records)]
        assert found[3:] == [(3 + at, NOW_MS + 1000, *one) for at, one in enumerate(records[:2])]
        assert [one.records_count for one in headers(topic, 1)] == [3, 2]
        assert headers(topic, 0) == []


def test_an_append_wakes_those_that_fetch_the_topic(tmp_path: Path) -> None:
    with topic_of(tmp_path, 0) as (broker, topic):
        waiting = fetching(broker, 4, OFFSETS_TOPIC, 0, now=NOW, max_wait_ms=500, min_bytes=1)
        assert not waiting.is_done
        topic.append_to(0, RECORD, NOW)
        broker.complete_due(NOW)
        assert len(fetched(waiting).records)


@pytest.mark.parametrize("producer", [None, (2**40 + 1, 3)])
def test_a_batch_belongs_to_its_transaction_in_the_format_that_has_any(
    tmp_path: Path, producer: tuple[int, int] | None
) -> None:
    checked: list[BatchHeader] = []
    with topic_of(tmp_path, 0) as (broker, topic):
        broker.topics.configure(OFFSETS_TOPIC, {"message.format.version": "0.9.0"})
        topic.append_to(0, RECORD, NOW, producer=producer, check=checked.append)
        (header,) = headers(topic, 0)
        assert (header.magic, header.is_transactional) == (2, producer is not None)
        assert (header.producer_id, header.producer_epoch) == (producer or (-1, -1))
        assert [(one.producer_id, one.producer_epoch) for one in checked] == (
            [producer] if producer else []
        )


def test_a_batch_that_its_check_refuses_is_not_written(tmp_path: Path) -> None:
    def refuse(_header: BatchHeader) -> None:
        raise ApiError(ErrorCode.INVALID_PRODUCER_EPOCH)

    with topic_of(tmp_path, 0) as (_, topic):
        found = topic.append_to(0, RECORD, NOW, producer=(1, 0), check=refuse)
        assert found == (ErrorCode.INVALID_PRODUCER_EPOCH, -1)
        assert headers(topic, 0) == []


@pytest.mark.parametrize(
    ("code", "told"),
    [
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.INVALID_TXN_STATE, ErrorCode.INVALID_TXN_STATE),
    ],
)
def test_a_client_looks_for_another_coordinator_if_the_log_is_led_elsewhere_or_offline(
    tmp_path: Path, code: ErrorCode, told: ErrorCode, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(_header: BatchHeader) -> None:
        raise ApiError(code)

    with topic_of(tmp_path, 0) as (_, topic):
        found = topic.append_to(0, RECORD, NOW, producer=(1, 0), check=refuse)
        assert found == (told, -1)
        assert caplog.text == ""


def test_a_partition_that_fails_is_logged_once_until_it_can_be_written_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("WARNING", LOGGER)
    disk = FullDisk()
    with topic_of(tmp_path, 0, 1, disk=disk) as (_, topic):

        def lines(*indices: int) -> list[str]:
            """The log lines while these partitions are written to."""
            caplog.clear()
            for index in indices:
                topic.append_to(index, RECORD, NOW)
            own = [one.getMessage() for one in caplog.records if one.name == LOGGER]
            return [one.partition(":")[0].removeprefix("__consumer_offsets-") for one in own]

        disk.full |= {"__consumer_offsets-0", "__consumer_offsets-1"}
        assert lines(0, 1, 0, 1, 0) == ["0 cannot be written", "1 cannot be written"]
        disk.full.discard("__consumer_offsets-0")
        assert lines(0, 1, 0, 1) == ["0 can be written again"]
        disk.full.clear()
        assert lines(1, 0, 1) == ["1 can be written again"]
        disk.full.add("__consumer_offsets-1")
        assert lines(0, 1, 0, 1) == ["1 cannot be written"]
        disk.full.clear()
