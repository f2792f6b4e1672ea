"""OffsetForLeaderEpoch: where what one leader wrote ends."""

from pathlib import Path

import pytest

from downconvert.broker.wire.schemas import ApiKey, Message
from tests.downconvert.broker.asking import ask
from tests.downconvert.broker.fetching import broker_of
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
        answer = ask(broker, ApiKey.OffsetForLeaderEpoch, version, body).topics[0].partitions[0]
    assert answer.error_code == 0
    assert (answer.leader_epoch if version else end[0], answer.end_offset) == end


def test_errors_are_told_for_each_partition(tmp_path: Path) -> None:
    with broker_of(tmp_path, {"t": {0: [batch(0)]}}) as broker:
        asked = [
            Message(partition=0, leader_epoch=0, current_leader_epoch=9),
            Message(partition=5, leader_epoch=0),
        ]
        body = Message(topics=[Message(topic="t", partitions=asked)])
        answer = ask(broker, ApiKey.OffsetForLeaderEpoch, 4, body)
    assert [one.error_code for one in answer.topics[0].partitions] == [75, 3]
