"""OffsetForLeaderEpoch: where what one leader wrote ends."""

from pathlib import Path

import pytest

from downconvert.broker import Broker, ErrorCode
from downconvert.protocol.schemas import ApiKey, Message
from tests.downconvert.broker.asking import ask
from tests.downconvert.broker.fetching import broker_of
from tests.downconvert.broker.writable import writable_broker
from tests.downconvert.storage.logs import batch

UNKNOWN = (-1, -1)


@pytest.mark.parametrize("version", range(5))
@pytest.mark.parametrize(
    ("epoch", "end"),
    [(0, (0, 2)), (3, (0, 2)), (4, (4, 3)), (7, (7, 4)), (8, UNKNOWN), (-1, UNKNOWN)],
)
def test_an_epoch_ends_where_the_next_begins(
    version: int, epoch: int, end: tuple[int, int], tmp_path: Path
) -> None:
    epochs = tmp_path / "t-0" / "leader-epoch-checkpoint"
    epochs.parent.mkdir()
    epochs.write_text("0\n3\n0 0\n4 2\n7 3\n")
    segments = {0: [batch(offset) for offset in range(4)]}
    with broker_of(tmp_path, {"t": segments}) as broker:
        asked = Message(partition=0, leader_epoch=epoch)
        body = Message(topics=[Message(topic="t", partitions=[asked])])
        response = ask(broker, ApiKey.OffsetForLeaderEpoch, version, body).topics[0].partitions[0]
    assert response.error_code == 0
    assert (response.leader_epoch if version else end[0], response.end_offset) == end


def test_an_epoch_whose_records_are_deleted_ends_where_the_log_begins(tmp_path: Path) -> None:
    """As in Kafka [LeaderEpochFileCache.truncateFromStart]."""
    with writable_broker(tmp_path, "t") as broker:
        produced = Message(index=0, records=batch(0, 1, 2))
        topic = Message(name="t", partition_data=[produced])
        body = Message(acks=1, timeout_ms=0, topic_data=[topic])
        assert (
            not ask(broker, ApiKey.Produce, 9, body).responses[0].partition_responses[0].error_code
        )
        deleted = Message(name="t", partitions=[Message(partition_index=0, offset=1)])
        ask(broker, ApiKey.DeleteRecords, 0, Message(topics=[deleted], timeout_ms=0))
        asked = [Message(partition=0, leader_epoch=epoch) for epoch in (-2, 0)]
        body = Message(topics=[Message(topic="t", partitions=asked)])
        ends = ask(broker, ApiKey.OffsetForLeaderEpoch, 4, body).topics[0].partitions
    assert [(one.leader_epoch, one.end_offset) for one in ends] == [(-2, 1), (0, 3)]


def test_errors_are_returned_for_each_partition(tmp_path: Path) -> None:
    with broker_of(tmp_path, {"t": {0: [batch(0)]}}) as broker:
        asked = [
            Message(partition=0, leader_epoch=0, current_leader_epoch=9),
            Message(partition=5, leader_epoch=0),
        ]
        body = Message(topics=[Message(topic="t", partitions=asked)])
        response = ask(broker, ApiKey.OffsetForLeaderEpoch, 4, body)
    assert [one.error_code for one in response.topics[0].partitions] == [75, 3]


def test_the_leaders_epoch_begins_before_anything_is_written(tmp_path: Path) -> None:
    def ends(broker: Broker) -> list[tuple[int, int]]:
        asked = [Message(partition=0, leader_epoch=epoch) for epoch in (-1, 0, 1)]
        body = Message(topics=[Message(topic="t", partitions=asked)])
        response = ask(broker, ApiKey.OffsetForLeaderEpoch, 4, body)
        return [(one.leader_epoch, one.end_offset) for one in response.topics[0].partitions]

    def earliest(broker: Broker, timestamp: int) -> tuple[int, int, int]:
        asked = Message(partition_index=0, timestamp=timestamp, current_leader_epoch=-1)
        body = Message(replica_id=-1, topics=[Message(name="t", partitions=[asked])])
        (one,) = ask(broker, ApiKey.ListOffsets, 9, body).topics[0].partitions
        return one.error_code, one.offset, one.leader_epoch

    with writable_broker(tmp_path, "t") as broker:
        assert ends(broker) == [UNKNOWN, (0, 0), UNKNOWN]
        assert [earliest(broker, timestamp) for timestamp in (-1, -2, -4)] == [(0, 0, 0)] * 3
        broker.topics["t"].partitions[0].log.writer.append(batch(0, 1, leader_epoch=0))
        assert ends(broker) == [UNKNOWN, (0, 2), UNKNOWN]
        broker.topics["t"].partitions[0].log.writer.delete_records(2)
        assert ends(broker) == [UNKNOWN, (0, 2), UNKNOWN]
        assert earliest(broker, -2) == (0, 2, 0)


@pytest.mark.parametrize(
    ("offset", "last_epoch", "code", "diverging"),
    [(0, 0, 0, None), (1, 0, 0, (0, 0)), (0, 1, 1, None), (0, -1, 0, None), (1, -1, 1, None)],
)
def test_a_client_that_knows_the_epoch_may_fetch_from_an_empty_log(
    tmp_path: Path, offset: int, last_epoch: int, code: int, diverging: tuple[int, int] | None
) -> None:
    with writable_broker(tmp_path, "t") as broker:
        asked = Message(partition=0, fetch_offset=offset, last_fetched_epoch=last_epoch)
        asked.partition_max_bytes = 100
        topics = [Message(topic="t", partitions=[asked])]
        body = Message(replica_id=-1, max_wait_ms=0, max_bytes=100, topics=topics)
        (one,) = ask(broker, ApiKey.Fetch, 12, body).responses[0].partitions
        assert one.error_code == code
        found = one.diverging_epoch
        assert ((found.epoch, found.end_offset) if found.epoch >= 0 else None) == diverging


def test_a_log_whose_files_cannot_be_read_is_an_error_of_the_storage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with writable_broker(tmp_path, "t", partitions=2) as broker:
        partition = broker.topics["t"].partitions[1]

        def fails(*_: object) -> None:
            raise OSError(5, "Input/output error")

        monkeypatch.setattr(type(partition), "end_of_epoch", fails)
        asked = Message(partition=1, current_leader_epoch=-1, leader_epoch=0)
        body = Message(replica_id=-1, topics=[Message(topic="t", partitions=[asked])])
        (topic,) = ask(broker, ApiKey.OffsetForLeaderEpoch, 3, body).topics
        (one,) = topic.partitions
        assert one.error_code == ErrorCode.KAFKA_STORAGE_ERROR


@pytest.mark.parametrize("api", [ApiKey.OffsetForLeaderEpoch, ApiKey.ListOffsets])
def test_every_epoch_but_the_one_that_means_none_is_compared(api: ApiKey, tmp_path: Path) -> None:
    epochs = {-(2**31): 74, -2: 74, -1: 0, 0: 0, 1: 75}
    with broker_of(tmp_path, {"t": {0: [batch(0)]}}) as broker:
        for epoch, code in epochs.items():
            asked = Message(partition=0, partition_index=0, leader_epoch=0, timestamp=-1)
            asked.current_leader_epoch = epoch
            topic = Message(topic="t", name="t", partitions=[asked])
            body = Message(replica_id=-1, topics=[topic])
            assert ask(broker, api, 4, body).topics[0].partitions[0].error_code == code
