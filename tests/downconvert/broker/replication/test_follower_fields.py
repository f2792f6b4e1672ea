"""A follower's requests and its leader's responses, field by field."""

import pytest

from downconvert.broker import Broker
from downconvert.broker.partition import Partition
from downconvert.broker.replication import follower as followers
from downconvert.broker.replication.follower import Follower
from downconvert.broker.replication.leader_epochs import EpochEnd, latest
from downconvert.broker.replication.replica import Leadership
from downconvert.protocol.decoder import decode
from downconvert.protocol.encoder import encode
from downconvert.protocol.errors import ErrorCode
from downconvert.protocol.schemas import ApiKey, Message
from tests.downconvert.broker.test_partition import produce
from tests.downconvert.storage.logs import batch

from .following import (
    NAMES,
    NOW,
    Pair,
    answered,
    asked,
    partitions_of,
    says,
)


def test_a_request_says_what_the_replica_has(pair: Pair) -> None:
    follower = Follower(pair.brokers[1], 0, broker_epoch=70, max_wait_ms=250, max_bytes=1234)
    produce(pair.partition(0), 3)
    produce(pair.partition(0), 4)
    for _ in range(2):
        pair.step()
    pair.partition(1).log.writer.delete_records(2)
    for side in pair.sides:
        side.assign({NAMES[0]: says(0, 4, 2)[NAMES[0]]}, NOW)
    header, body = asked(follower.request(NOW))
    assert header.client_id == "follower-1"
    assert (body.replica_state.replica_id, body.replica_state.replica_epoch) == (1, 70)
    assert (body.max_wait_ms, body.min_bytes, body.max_bytes) == (250, 1, 1234)
    assert body.session_epoch == -1
    (topic,) = body.topics
    assert topic.topic_id == pair.brokers[1].topics["t"].id
    first, second = topic.partitions
    assert (first.partition, first.fetch_offset, first.log_start_offset) == (0, 7, 2)
    assert (first.current_leader_epoch, first.last_fetched_epoch) == (4, 1)
    assert first.partition_max_bytes == 1234
    assert (second.partition, second.fetch_offset, second.log_start_offset) == (1, 0, 0)
    assert (second.current_leader_epoch, second.last_fetched_epoch) == (1, -1)


def test_a_replica_without_records_names_no_epoch(pair: Pair) -> None:
    """It may have begun one as a leader, which its new leader never knew."""
    pair.partition(1).log.writer.begin_epoch(1)
    assert latest(pair.partition(1).epochs()) == 1
    _, body = asked(Follower(pair.brokers[1], 0).request(NOW))
    assert [one.last_fetched_epoch for one in body.topics[0].partitions] == [-1, -1]


def test_requests_are_numbered_from_the_beginning_again(
    follower: Follower, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(followers, "CORRELATIONS", 3)
    numbers = [asked(follower.request(NOW))[0].correlation_id for _ in range(5)]
    assert numbers == [1, 2, 0, 1, 2]


def test_a_broker_that_is_no_longer_a_replica_sends_no_fetch(
    pair: Pair, follower: Follower
) -> None:
    gone = says(0, 2, 2)[NAMES[0]]
    others = Leadership(
        leader=0,
        leader_epoch=2,
        replicas=(0, 2),
        isr=gone.isr - {1},
        alive=gone.alive,
        version=2,
    )
    pair.sides[1].assign({NAMES[0]: others}, NOW)
    assert partitions_of(follower.request(NOW)) == [1]


def test_a_response_of_a_broker_that_leads_no_more_is_left_aside(
    pair: Pair, follower: Follower
) -> None:
    """The controller has named no other one, in the same epoch."""
    produce(pair.partition(0), 3)
    late = pair.response(follower)
    pair.sides[1].assign(says(None, 1, 2), NOW)
    follower.response(memoryview(late), NOW)
    assert pair.ends() == (3, 0)


def test_a_response_that_comes_when_the_log_has_changed_is_left_aside(
    pair: Pair, follower: Follower
) -> None:
    produce(pair.partition(0), 3)
    pair.step()
    produce(pair.partition(0), 2)
    late = pair.response(follower)
    pair.partition(1).truncate(EpochEnd(-1, -1))
    follower.response(memoryview(late), NOW)
    assert pair.ends() == (5, 0)
    assert partitions_of(follower.request(NOW)) == [0, 1]  # without a wait


OUT_OF_RANGE = {"error_code": ErrorCode.OFFSET_OUT_OF_RANGE}


def test_only_partitions_that_are_outside_of_the_leaders_log_begin_again(
    pair: Pair, follower: Follower
) -> None:
    for index in (0, 1):
        produce(pair.partition(0, index), 3 + index)
    pair.step()  # nothing is committed yet
    request = follower.request(NOW)
    response = bytearray(answered(request))
    _, body = asked(request)
    assert [one.partition for one in body.topics[0].partitions] == [0, 1]
    header = len(encode("ResponseHeader", 1, Message(correlation_id=0)))
    said = decode("FetchResponse", 17, memoryview(response)[header:])
    said.responses[0].partitions[1].error_code = ErrorCode.OFFSET_OUT_OF_RANGE
    follower.response(memoryview(bytes(response[:header]) + encode("FetchResponse", 17, said)), NOW)
    request = follower.request(NOW)
    assert asked(request)[0].request_api_key == ApiKey.ListOffsets
    assert partitions_of(request) == [1]
    follower.response(answered(request, offset=9), NOW)
    assert (pair.partition(1, 0).end_offset, pair.partition(1, 1).end_offset) == (3, 9)
    assert partitions_of(follower.request(NOW)) == [0]  # the other one in a while
    assert partitions_of(follower.request(NOW + 1)) == [0, 1]


def test_a_lost_offset_is_forgotten_with_its_leader(pair: Pair, follower: Follower) -> None:
    follower.response(answered(follower.request(NOW), **OUT_OF_RANGE), NOW)
    assert partitions_of(follower.request(NOW)) == [0, 1]  # and the response never comes
    pair.sides[1].assign({name: says(1, 2, 2)[name] for name in NAMES}, NOW)
    pair.sides[1].assign({NAMES[1]: says(0, 3, 3)[NAMES[1]]}, NOW)
    (follower,) = pair.sides[1].followers.values()
    assert asked(follower.request(NOW))[0].request_api_key == ApiKey.Fetch


def test_a_partition_that_another_broker_leads_by_now_keeps_none_from_its_fetch(
    pair: Pair, follower: Follower
) -> None:
    follower.response(answered(follower.request(NOW), **OUT_OF_RANGE), NOW)
    follower.response(answered(follower.request(NOW), offset=0), NOW)
    later = NOW + 1
    request = follower.request(later)
    assert asked(request)[0].request_api_key == ApiKey.Fetch
    follower.response(answered(request, **OUT_OF_RANGE), later)
    assert asked(follower.request(later))[0].request_api_key == ApiKey.ListOffsets
    pair.sides[1].assign({name: says(None, 2, 2)[name] for name in NAMES}, later)
    assert follower.request(later) is None
    pair.sides[1].assign({name: says(0, 3, 3)[name] for name in NAMES}, later)
    (again,) = pair.sides[1].followers.values()
    produce(pair.partition(0), 2)
    for side in pair.sides[:1]:
        side.assign(says(0, 3, 3), later)
    again.response(memoryview(pair.response(again, later)), later)
    assert pair.ends() == (2, 2)


@pytest.mark.parametrize(
    ("fields", "end"),
    [
        ({"offset": 2, "error_code": ErrorCode.UNKNOWN_SERVER_ERROR}, 3),
        ({"offset": 9, "error_code": ErrorCode.NOT_LEADER_OR_FOLLOWER}, 3),
        ({"offset": -1}, 3),
        ({"offset": 3}, 2),  # the leader's log begins where this one ends: it stays, as committed
        ({"offset": 4}, 4),
    ],
)
def test_the_log_start_that_a_leader_reports_is_checked(
    fields: dict[str, int], end: int, pair: Pair, follower: Follower
) -> None:
    produce(pair.partition(0), 2)
    for _ in range(2):
        pair.step()
    produce(pair.partition(0))
    pair.step()
    partition = pair.partition(1)
    assert (partition.high_watermark, partition.end_offset) == (2, 3)
    follower.response(answered(follower.request(NOW), **OUT_OF_RANGE), NOW)
    follower.response(answered(follower.request(NOW), **fields), NOW)
    assert partition.end_offset == end
    assert partition.start_offset == (4 if end == 4 else 0)


@pytest.mark.parametrize(
    "records",
    [
        batch(0)[:-1] + b"?",
        bytes(100),
    ],
)
def test_records_that_cannot_be_appended_are_fetched_again_in_a_while(
    records: bytes, pair: Pair, follower: Follower
) -> None:
    follower.response(answered(follower.request(NOW), records=records), NOW)
    assert pair.partition(1).end_offset == 0
    assert follower.request(NOW + 0.9) is None
    assert partitions_of(follower.request(NOW + 1)) == [0, 1]


class Looks:
    """Waits for a partition, and counts how often it is looked at."""

    def __init__(self, broker: Broker, partition: Partition) -> None:
        self.count = 0
        broker.purgatory.watch(self, [partition.key], NOW, NOW + 60, None)
        self.count = 0

    def is_due(self) -> bool:
        self.count += 1
        return False

    def complete(self, now: float, *, timed_out: bool) -> None:
        """It never is."""


def test_a_waiting_follower_is_woken_by_each_change_and_by_nothing_else(pair: Pair) -> None:
    produce(pair.partition(0))
    looks = Looks(pair.brokers[1], pair.partition(1))
    counts = []
    for _ in range(3):
        pair.step()
        pair.brokers[1].tick(NOW)
        counts.append(looks.count)
    # The records, the high watermark, and nothing.
    assert 0 < counts[0] < counts[1] == counts[2]


def test_records_are_deleted_up_to_the_high_watermark_of_the_same_response(
    pair: Pair, follower: Follower
) -> None:
    """The leader has deleted them, so this response says that they were committed."""
    produce(pair.partition(0), 6)
    pair.step()
    partition = pair.partition(1)
    assert (partition.start_offset, partition.end_offset, partition.high_watermark) == (0, 6, 0)
    response = answered(follower.request(NOW), high_watermark=6, log_start_offset=5)
    follower.response(response, NOW)
    assert (partition.start_offset, partition.high_watermark) == (5, 6)
