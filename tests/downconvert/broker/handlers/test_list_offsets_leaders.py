"""ListOffsets: epochs, who is served, and the offsets that are not committed yet."""

from pathlib import Path
from typing import Any

import pytest

from downconvert.access.rights import Access
from downconvert.broker import Broker
from downconvert.broker.partition import Partition
from downconvert.broker.replication.replica import Leadership
from downconvert.protocol.errors import ErrorCode
from downconvert.protocol.schemas import ApiKey, Message
from downconvert.storage import LogDirOfflineError
from records import CorruptRecordsError
from tests.downconvert.broker.asking import ask, someone
from tests.downconvert.broker.fetching import broker_of
from tests.downconvert.broker.writable import writable_broker
from tests.downconvert.storage.logs import batch, indexed_segment, segment

SEGMENTS = {0: [batch(0, 1), batch(2)], 3: [batch(3), batch(4, 5)]}
CONSUMER, DEBUG_CONSUMER, FOLLOWER = -1, -2, 1
BROKER = Access(follower_ids=frozenset({FOLLOWER}))
LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL = -1, -2, -3, -4


def listed(broker: Broker, version: int, timestamp: int, **fields: Any) -> Message:
    epoch = fields.pop("epoch", -1)
    asked = Message(partition_index=0, timestamp=timestamp, max_num_offsets=9)
    asked.current_leader_epoch = epoch
    body = Message(
        **{"replica_id": CONSUMER} | fields, topics=[Message(name="t", partitions=[asked])]
    )
    response = ask(
        broker, ApiKey.ListOffsets, version, body, now=2e9, client=someone(access=BROKER)
    )
    found = response.topics[0].partitions[0]
    assert isinstance(found, Message)
    return found


def partition_of(broker: Broker) -> Partition:
    return broker.topics["t"].partitions[0]


def replicated(broker: Broker) -> Partition:
    """This broker leads, and another one, which has nothing yet, is in sync."""
    partition = partition_of(broker)
    both = frozenset({0, FOLLOWER})
    leadership = Leadership(
        leader=0, leader_epoch=1, replicas=(0, FOLLOWER), isr=both, alive=both, version=1
    )
    partition.assign(leadership, 0.0)
    return partition


def test_a_response_has_the_epoch_of_its_offset(tmp_path: Path) -> None:
    epochs = tmp_path / "t-0" / "leader-epoch-checkpoint"
    epochs.parent.mkdir()
    epochs.write_text("0\n3\n0 1\n4 2\n7 3\n")
    with broker_of(tmp_path, {"t": SEGMENTS}) as broker:
        partition_of(broker).leader_epoch = 9  # nothing is written in it yet
        found = {time: listed(broker, 9, time) for time in (-1, -2, -4, 0, 10, 20, -3, 99)}
        codes = [listed(broker, 4, LATEST, epoch=epoch).error_code for epoch in (-1, 8, 9, 10)]
    assert {time: (one.offset, one.leader_epoch) for time, one in found.items()} == {
        LATEST: (6, 9),
        EARLIEST: (0, -1),
        EARLIEST_LOCAL: (0, -1),
        0: (0, -1),
        10: (1, 0),
        20: (2, 4),
        MAX_TIMESTAMP: (5, 7),
        99: (-1, -1),
    }
    assert found[EARLIEST].timestamp == found[EARLIEST_LOCAL].timestamp == -1
    fenced, unknown = ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.UNKNOWN_LEADER_EPOCH
    assert codes == [0, fenced, 0, unknown]


@pytest.mark.parametrize(("version", "timestamp"), [(9, -5), (11, -6), (10, -5)])
def test_tiered_storage_has_no_offsets(tmp_path: Path, version: int, timestamp: int) -> None:
    with broker_of(tmp_path, {"t": SEGMENTS}) as broker:
        one = listed(broker, version, timestamp)
    assert (one.error_code, one.offset, one.timestamp, one.leader_epoch) == (0, -1, -1, -1)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (OSError(5, "Input/output error"), ErrorCode.KAFKA_STORAGE_ERROR),
        (LogDirOfflineError("offline", "x"), ErrorCode.KAFKA_STORAGE_ERROR),
        (CorruptRecordsError("bad", 7), ErrorCode.CORRUPT_MESSAGE),
    ],
)
def test_a_log_that_cannot_be_read_is_reported_with_its_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, code: ErrorCode
) -> None:
    def fail(*_: object) -> None:
        raise error

    with broker_of(tmp_path, {"t": SEGMENTS}) as broker:
        monkeypatch.setattr(partition_of(broker).log, "find_timestamp", fail)
        assert listed(broker, 5, 10).error_code == code


def test_version_0_answers_a_partition_as_often_as_it_is_named(tmp_path: Path) -> None:
    with broker_of(tmp_path, {"t": SEGMENTS}) as broker:
        asked = [
            Message(partition_index=0, timestamp=time, max_num_offsets=9)
            for time in (LATEST, EARLIEST)
        ]
        body = Message(replica_id=CONSUMER, topics=[Message(name="t", partitions=asked)])
        (topic,) = ask(broker, ApiKey.ListOffsets, 0, body, now=2e9).topics
    assert [list(one.old_style_offsets) for one in topic.partitions] == [[6, 3, 0], [0]]


def test_the_same_partition_of_two_topics_is_no_repetition(tmp_path: Path) -> None:
    with broker_of(tmp_path, {"t": SEGMENTS, "u": SEGMENTS}) as broker:
        topics = [
            Message(name=name, partitions=[Message(partition_index=0, timestamp=LATEST)])
            for name in "tu"
        ]
        response = ask(
            broker, ApiKey.ListOffsets, 5, Message(replica_id=CONSUMER, topics=topics)
        ).topics
    assert [(one.name, one.partitions[0].offset) for one in response] == [("t", 6), ("u", 6)]


def test_version_0_goes_by_the_time_of_day(tmp_path: Path) -> None:
    """The log's end counts as changed now, by the system's clock."""
    with broker_of(tmp_path, {"t": SEGMENTS}) as broker:
        before = listed(broker, 0, int((2e9 + 3) * 1000)).old_style_offsets
        broker.time_of_day.shift = 5.0
        after = listed(broker, 0, int((2e9 + 3) * 1000)).old_style_offsets
    assert (before, after) == ([6, 3, 0], [3, 0])


def test_version_0_of_a_log_without_records_and_of_one_whose_start_has_moved(
    tmp_path: Path,
) -> None:
    with writable_broker(tmp_path, "t") as broker:
        assert listed(broker, 0, LATEST).old_style_offsets == [0]
        writer = partition_of(broker).log.writer
        writer.append(batch(0, 1, 2))
        writer.delete_records(1)
        assert listed(broker, 0, LATEST).old_style_offsets == [3, 1]
        assert listed(broker, 0, EARLIEST).old_style_offsets == [1]
        assert listed(broker, 1, EARLIEST).offset == 1


def test_a_follower_serves_only_debugging_consumers(tmp_path: Path) -> None:
    with broker_of(tmp_path, {"t": SEGMENTS}) as broker:
        partition_of(broker).leader = 9
        codes = [
            listed(broker, version, LATEST, replica_id=replica).error_code
            for version in (0, 5)
            for replica in (CONSUMER, DEBUG_CONSUMER, FOLLOWER)
        ]
    elsewhere = ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert codes == [elsewhere, 0, elsewhere] * 2


def test_consumers_get_no_offset_that_is_not_committed(tmp_path: Path) -> None:
    with writable_broker(tmp_path, "t") as broker:
        partition = replicated(broker)
        partition.log.writer.append(batch(0, 1, 2))
        everyone = (CONSUMER, DEBUG_CONSUMER, FOLLOWER)
        partition.follower_fetched(FOLLOWER, 0, 1.0)
        for version, latest, first in ((1, [0, 3, 3], [-1, 0, 0]), (7, [0, 3, 3], [-1, 0, 0])):
            asked = [listed(broker, version, LATEST, replica_id=one).offset for one in everyone]
            found = [listed(broker, version, 0, replica_id=one).offset for one in everyone]
            assert (asked, found) == (latest, first)
        old = [listed(broker, 0, LATEST, replica_id=one).old_style_offsets for one in everyone]
        assert old == [[0, 0], [3, 0], [3, 0]]
        partition.follower_fetched(FOLLOWER, 2, 2.0)
        assert [listed(broker, 5, time).offset for time in (LATEST, 10, 20)] == [2, 1, -1]
        assert listed(broker, 0, LATEST).old_style_offsets == [2, 0]


@pytest.mark.parametrize(
    ("version", "code"),
    [(1, 5), (4, 5), (5, ErrorCode.OFFSET_NOT_AVAILABLE), (9, ErrorCode.OFFSET_NOT_AVAILABLE)],
)
def test_a_consumer_asks_again_while_a_new_leader_does_not_know_what_is_committed(
    tmp_path: Path, version: int, code: int
) -> None:
    """A follower gets the end of the log. The start is known in any case."""
    with writable_broker(tmp_path, "t") as broker:
        partition_of(broker).log.writer.append(batch(0, 1, 2))
        partition = replicated(broker)
        asked = (LATEST, 0, EARLIEST)
        assert [listed(broker, version, time).error_code for time in asked] == [code, code, 0]
        for other in (DEBUG_CONSUMER, FOLLOWER):
            responses = [listed(broker, version, time, replica_id=other) for time in (LATEST, 99)]
            assert [(one.error_code, one.offset) for one in responses] == [(0, 3), (0, -1)]
        partition.follower_fetched(FOLLOWER, 3, 1.0)
        assert [listed(broker, version, time).error_code for time in asked] == [0, 0, 0]


@pytest.mark.parametrize("youngest", range(5))
def test_the_youngest_record_is_found_whatever_the_indexes_cover(
    tmp_path: Path, youngest: int
) -> None:
    """The last segment's index covers its beginning, so its rest is read."""
    times = [100, 50, 60, 70, 80]
    times[youngest] = 900
    made = [batch(offset, timestamp=time) for offset, time in enumerate(times)]
    directory = tmp_path / "t-0"
    indexed_segment(directory, 0, made[0], made[1])
    segment(directory, 2, made[2])
    indexed_segment(directory, 3, made[3])
    with (directory / f"{3:020d}.log").open("ab") as log:
        log.write(made[4])
    with broker_of(tmp_path, {}) as broker:
        one = listed(broker, 7, MAX_TIMESTAMP)
    assert (one.offset, one.timestamp) == (youngest, 900)
