"""The files of the logs that a broker writes: gone ones are noticed, and idle ones closed."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from downconvert.broker import Broker, BrokerConfig
from downconvert.broker.operating.log_files import IDLE_MAX, RELEASED_MAX, LogFiles
from downconvert.broker.partition import Partition
from downconvert.protocol.errors import ErrorCode
from downconvert.storage import LogDir, TopicPartition
from tests.downconvert.broker.test_offline import described, fetched, made, produced
from tests.downconvert.storage.logs import UNSYNCED, batch

LOG_FILE = "00000000000000000000.log"


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    made(tmp_path)
    with LogDir.open(tmp_path, writable=True, files=UNSYNCED) as log_dir:
        yield Broker(log_dir, BrokerConfig(is_writable=True))


def one(broker: Broker, index: int) -> Partition:
    found = broker.topics.partition("t", index)
    assert found is not None
    return found


@pytest.mark.parametrize("how", ["moved", "replaced", "cut", "directory", "dangling"])
@pytest.mark.parametrize("is_open", [False, True])
def test_a_partition_whose_active_segment_is_gone_is_offline(
    broker: Broker, tmp_path: Path, how: str, is_open: bool
) -> None:
    if is_open:
        assert produced(broker, 1) is ErrorCode.NONE
    files = LogFiles(broker)
    files.look(0.0)
    assert one(broker, 1).log.offline_reason is None
    path = tmp_path / "t-1" / LOG_FILE
    before = path.read_bytes()
    if how == "directory":
        path.parent.rename(tmp_path / "away")
    elif how == "cut":
        path.write_bytes(before[:-1])
    else:
        path.rename(tmp_path / "away")
    if how == "replaced":
        path.write_bytes(before)
    if how == "dangling":
        path.symlink_to("nowhere")
    files.look(1.0)
    assert str(path) in (one(broker, 1).log.offline_reason or "")
    assert produced(broker, 1) is fetched(broker, 1) is ErrorCode.KAFKA_STORAGE_ERROR
    assert described(broker)[1][0] == ErrorCode.LEADER_NOT_AVAILABLE
    assert produced(broker, 0) is fetched(broker, 0) is ErrorCode.NONE


def test_changes_by_the_broker_itself_take_no_log_offline(broker: Broker) -> None:
    files, writer = LogFiles(broker), one(broker, 0).log.writer
    for now, change in enumerate(
        (
            lambda: writer.append(batch(1, 2)),
            writer.roll,
            lambda: writer.append(batch(3)),
            lambda: writer.truncate_to(2),
            lambda: writer.truncate_fully_and_start_at(100),
            lambda: writer.append(batch(100)),
            writer.release,
        )
    ):
        change()
        files.look(float(now))
        assert one(broker, 0).log.offline_reason is None
    broker.topics.delete("t")
    files.look(99.0)


def test_files_that_nobody_writes_to_are_closed_and_opened_again(broker: Broker) -> None:
    files = LogFiles(broker)
    for index in range(2):
        produced(broker, index)
    files.look(0.0)
    files.look(IDLE_MAX - 1)
    assert [one(broker, index).log.writer.active.is_open for index in range(2)] == [True, True]
    produced(broker, 1)
    files.look(IDLE_MAX)
    assert [one(broker, index).log.writer.active.is_open for index in range(2)] == [False, True]
    files.look(IDLE_MAX + IDLE_MAX)
    assert [one(broker, index).log.writer.active.is_open for index in range(2)] == [False, False]
    assert one(broker, 0).log.writer.flushed_offset == one(broker, 0).log.end_offset
    assert produced(broker, 0) is fetched(broker, 0) is ErrorCode.NONE


def test_a_clock_that_was_set_back_closes_nothing_and_keeps_nothing_open(broker: Broker) -> None:
    files = LogFiles(broker)
    produced(broker, 0)
    for now in (1e6, 5.0, 5.0 + IDLE_MAX - 1):
        files.look(now)
        assert one(broker, 0).log.writer.active.is_open
    files.look(5.0 + IDLE_MAX)
    assert not one(broker, 0).log.writer.active.is_open


def test_a_limited_number_of_files_is_closed_at_a_time(tmp_path: Path) -> None:
    count = RELEASED_MAX + 3
    with LogDir.open(tmp_path, writable=True, files=UNSYNCED) as log_dir:
        for index in range(count):
            log_dir.logs.create(TopicPartition("t", index)).writer.append(batch(0))
        broker = Broker(log_dir, BrokerConfig(is_writable=True))
        files = LogFiles(broker)
        left = []
        for now in (0.0, IDLE_MAX, IDLE_MAX + 1):
            files.look(now)
            left.append(sum(one(broker, index).log.writer.active.is_open for index in range(count)))
        assert left == [count, 3, 0]
