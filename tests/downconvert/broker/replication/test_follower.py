"""A follower and its leader, by bytes: what it gets, what it cuts off, what it does not believe."""

from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from random import Random
from typing import Any

import pytest

from downconvert.broker import BadRequestError, Broker, BrokerConfig
from downconvert.broker.partition import Partition
from downconvert.broker.replication import follower as followers
from downconvert.broker.replication.follower import Follower
from downconvert.broker.replication.leader_epochs import EpochEnd
from downconvert.broker.replication.replica import Leadership
from downconvert.broker.replication.replica_manager import Replication
from downconvert.protocol.decoder import Cursor, decode, reader
from downconvert.protocol.encoder import encode
from downconvert.protocol.errors import ErrorCode
from downconvert.protocol.schemas import ApiKey, Message
from downconvert.storage import LogDir, TopicPartition
from tests.downconvert.broker.asking import someone
from tests.downconvert.broker.test_partition import produce
from tests.downconvert.storage.logs import batch

NAMES = [TopicPartition("t", 0), TopicPartition("t", 1)]
NOW = 1000.0


def says(leader: int | None, epoch: int, version: int) -> dict[TopicPartition, Leadership]:
    both = frozenset({0, 1})
    said = Leadership(
        leader=leader, leader_epoch=epoch, replicas=(0, 1), isr=both, alive=both, version=version
    )
    return dict.fromkeys(NAMES, said)


class Pair:
    """Two brokers with two partitions, led by the first."""

    def __init__(self, paths: list[Path]) -> None:
        self.log_dirs = [LogDir.open(path, writable=True) for path in paths]
        for log_dir in self.log_dirs:
            for name in NAMES:
                log_dir.logs.create(name)
        self.brokers = [
            Broker(log_dir, BrokerConfig(node_id=node))
            for node, log_dir in enumerate(self.log_dirs)
        ]
        self.sides = [Replication(broker) for broker in self.brokers]
        self.lead(0, 1, 1)

    def lead(self, leader: int, epoch: int, version: int) -> None:
        for side in self.sides:
            side.assign(says(leader, epoch, version), NOW)

    def partition(self, node: int, index: int = 0) -> Partition:
        found = self.brokers[node].topics.partition("t", index)
        assert found is not None
        return found

    def answer(self, follower: Follower, now: float = NOW) -> bytes:
        """The leader's answer to the next request; without its length."""
        request = follower.request(now)
        assert request is not None
        leader = self.brokers[follower.leader]
        exchange = leader.handle(someone(), memoryview(request), now)
        leader.tick(now + 1)  # it does not wait for more
        assert exchange.send is not None
        channel = BytesIO()
        while not exchange.send.completed:
            exchange.send.write_to(channel)
        return channel.getvalue()[4:]

    def step(self, node: int = 1, now: float = NOW) -> None:
        (follower,) = self.sides[node].followers.values()
        follower.response(memoryview(self.answer(follower, now)), now)

    def ends(self, index: int = 0) -> tuple[int, int]:
        return self.partition(0, index).end_offset, self.partition(1, index).end_offset

    def high_watermarks(self, index: int = 0) -> tuple[int, int]:
        return self.partition(0, index).high_watermark, self.partition(1, index).high_watermark

    def close(self) -> None:
        for log_dir in self.log_dirs:
            log_dir.close()


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    paths = [tmp_path / "0", tmp_path / "1"]
    for path in paths:
        path.mkdir()
    made = Pair(paths)
    yield made
    made.close()


def stored(partition: Partition) -> bytes:
    return (partition.log.path / "00000000000000000000.log").read_bytes()


def test_one_record_is_committed_in_four_steps_by_bytes(pair: Pair) -> None:
    produce(pair.partition(0))
    assert (pair.ends(), pair.high_watermarks()) == ((1, 0), (0, 0))
    pair.step()
    assert (pair.ends(), pair.high_watermarks()) == ((1, 1), (0, 0))
    pair.step()  # it waited, and was read again when its time was up: it has the new one
    assert (pair.ends(), pair.high_watermarks()) == ((1, 1), (1, 1))
    assert stored(pair.partition(0)) == stored(pair.partition(1))


def test_an_answer_at_once_has_the_high_watermark_of_before_the_fetch(pair: Pair) -> None:
    produce(pair.partition(0))
    pair.step()
    produce(pair.partition(0))
    pair.step()
    assert (pair.ends(), pair.high_watermarks()) == ((2, 2), (1, 0))


def test_all_partitions_of_a_leader_are_fetched_at_once(pair: Pair) -> None:
    for index in (0, 1):
        produce(pair.partition(0, index), 2 + index)
    pair.step()
    assert (pair.ends(0), pair.ends(1)) == ((2, 2), (3, 3))


def test_a_follower_that_leads_by_now_asks_nobody(pair: Pair) -> None:
    pair.lead(1, 2, 2)
    assert pair.sides[1].followers == {}
    assert list(pair.sides[0].followers) == [1]


def test_an_old_leader_truncates_uncommitted_records(pair: Pair) -> None:
    produce(pair.partition(0), 3)
    pair.step()
    produce(pair.partition(0), 4)
    pair.lead(1, 2, 2)
    produce(pair.partition(1), 2)
    assert pair.ends() == (7, 5)
    pair.step(0)
    assert pair.ends() == (3, 5)
    pair.step(0)
    assert pair.ends() == (5, 5)
    assert stored(pair.partition(0)) == stored(pair.partition(1))


def test_an_old_leader_without_a_record_in_its_epoch_follows_the_next(pair: Pair) -> None:
    produce(pair.partition(0), 3)
    pair.step()
    pair.lead(0, 2, 2)  # nothing is written in epoch 2, and nobody else has it
    pair.lead(1, 3, 3)
    produce(pair.partition(1), 2)
    for _ in range(2):
        pair.step(0)
    assert pair.ends() == (5, 5)


def test_logs_that_parted_more_than_once_come_together_again(pair: Pair) -> None:
    produce(pair.partition(0), 2)
    pair.step()
    produce(pair.partition(0))
    pair.lead(1, 2, 2)
    produce(pair.partition(1), 3)  # without the other
    pair.lead(0, 3, 3)
    produce(pair.partition(0))
    produce(pair.partition(0))
    pair.lead(1, 4, 4)
    produce(pair.partition(1))
    for _ in range(6):
        pair.step(0)
    assert pair.ends() == (6, 6)
    assert stored(pair.partition(0)) == stored(pair.partition(1))


def test_an_answer_that_comes_when_the_leader_has_changed_is_left_aside(pair: Pair) -> None:
    produce(pair.partition(0), 3)
    (follower,) = pair.sides[1].followers.values()
    late = pair.answer(follower)
    pair.lead(1, 2, 2)
    follower.response(memoryview(late), NOW)
    assert pair.ends() == (3, 0)


def test_a_leader_that_does_not_know_the_epoch_yet_is_asked_again_in_a_while(pair: Pair) -> None:
    produce(pair.partition(0), 3)
    pair.sides[1].assign(says(0, 2, 2), NOW)
    pair.step()
    (follower,) = pair.sides[1].followers.values()
    assert follower.request(NOW) is None
    assert follower.request(NOW + 0.9) is None
    assert follower.request(NOW + 1) is not None
    pair.sides[0].assign(says(0, 2, 2), NOW)
    pair.step(now=NOW + 1)
    assert pair.ends() == (3, 3)


def test_a_follower_that_the_leader_s_log_does_not_reach_begins_again_where_that_does(
    pair: Pair,
) -> None:
    produce(pair.partition(0), 3)
    writer = pair.partition(0).log.writer
    writer.roll()
    produce(pair.partition(0), 2)
    writer.delete_records(3)
    for second in range(3):
        pair.step(now=NOW + 2 * second)
    follower = pair.partition(1)
    assert (follower.start_offset, follower.end_offset) == (3, 5)


def test_a_follower_lets_go_of_what_its_leader_has_let_go_of(pair: Pair) -> None:
    produce(pair.partition(0), 3)
    produce(pair.partition(0), 3)
    pair.step()
    pair.step()
    pair.partition(0).log.writer.delete_records(3)
    pair.step()
    assert pair.partition(1).start_offset == 3


def test_the_leader_knows_the_replicas_in_sync_by_their_fetches(pair: Pair) -> None:
    pair.step()
    produce(pair.partition(0), 3)
    assert pair.sides[0].isr_changes(NOW + 29) == {}
    changes = pair.sides[0].isr_changes(NOW + 31)
    assert changes[NAMES[0]].isr == {0}
    assert NAMES[1] not in changes  # there is nothing that it has not got


def test_a_follower_that_was_registered_again_is_taken_in_as_what_it_is_now(pair: Pair) -> None:
    alone = Leadership(
        leader=0,
        leader_epoch=2,
        replicas=(0, 1),
        isr=frozenset({0}),
        alive=frozenset({0, 1}),
        version=2,
    )
    for side, epoch in zip(pair.sides, (70, 71), strict=True):
        side.register(epoch)
        side.assign(dict.fromkeys(NAMES, alone), NOW)
    pair.sides[1].register(75)
    pair.step()
    assert pair.sides[0].isr_changes(NOW)[NAMES[0]].broker_epochs == ((1, 75),)


def test_high_watermarks_are_known_after_a_restart(pair: Pair, tmp_path: Path) -> None:
    produce(pair.partition(0), 3)
    pair.step()
    pair.step()
    pair.sides[1].note_high_watermarks()
    log_dir = pair.log_dirs[1]
    log_dir.close()
    pair.log_dirs[1] = LogDir.open(tmp_path / "1", writable=True)
    pair.brokers[1] = Broker(pair.log_dirs[1], BrokerConfig(node_id=1))
    pair.sides[1] = Replication(pair.brokers[1])
    pair.sides[1].assign(says(0, 1, 1), NOW)
    assert pair.partition(1).high_watermark == 3


def test_mutated_answers_leave_a_log_that_can_be_read(pair: Pair) -> None:
    random = Random(8)
    produce(pair.partition(0), 5)
    (follower,) = pair.sides[1].followers.values()
    for round_ in range(400):
        answer = bytearray(pair.answer(follower, NOW + 2 * round_))
        for _ in range(random.randint(1, 4)):
            answer[random.randrange(4, len(answer))] = random.randrange(256)
        try:
            follower.response(memoryview(answer), NOW + 2 * round_)
        except BadRequestError:
            continue
        partition = pair.partition(1)
        assert len(list(partition.log.records())) <= 5
        if partition.end_offset:
            partition.log.writer.truncate_fully_and_start_at(0)


@pytest.mark.parametrize("cut", [0, 3, 4, 5, 20])
def test_half_an_answer_ends_the_connection(pair: Pair, cut: int) -> None:
    (follower,) = pair.sides[1].followers.values()
    with pytest.raises(BadRequestError):
        follower.response(memoryview(pair.answer(follower)[:cut]), NOW)


def test_a_replica_without_records_names_no_epoch_though_it_has_led_one(pair: Pair) -> None:
    pair.lead(1, 2, 2)
    pair.lead(0, 3, 3)
    produce(pair.partition(0))
    assert pair.partition(1).end_offset == 0
    pair.step()
    assert pair.ends() == (1, 1)


# --- requests and answers, field by field


def asked(request: bytes | None) -> tuple[Message, Message]:
    """A request's header and body."""
    assert request is not None
    cursor = Cursor(memoryview(request))
    header = reader("RequestHeader", 2)(cursor)
    name = f"{ApiKey(header.request_api_key).name}Request"
    return header, decode(name, header.request_api_version, memoryview(request)[cursor.position :])


def partitions_of(request: bytes | None) -> list[int]:
    _, body = asked(request)
    return [
        getattr(one, "partition", getattr(one, "partition_index", None))
        for topic in body.topics
        for one in topic.partitions
    ]


def answered(request: bytes | None, **fields: Any) -> memoryview:
    """An answer with the same fields for each partition that was asked for."""
    header, body = asked(request)
    topics = []
    if header.request_api_key == ApiKey.Fetch:
        filled = {"high_watermark": 0, "log_start_offset": 0, "records": b""} | fields
        for topic in body.topics:
            parts = [Message(partition_index=one.partition, **filled) for one in topic.partitions]
            topics.append(Message(topic_id=topic.topic_id, partitions=parts))
        answer = Message(responses=topics)
    else:
        for topic in body.topics:
            parts = [
                Message(partition_index=one.partition_index, **fields) for one in topic.partitions
            ]
            topics.append(Message(name=topic.name, partitions=parts))
        answer = Message(topics=topics)
    name, version = ApiKey(header.request_api_key).name, header.request_api_version
    start = encode("ResponseHeader", 1, Message(correlation_id=header.correlation_id))
    return memoryview(start + encode(f"{name}Response", version, answer))


@pytest.fixture
def follower(pair: Pair) -> Follower:
    (found,) = pair.sides[1].followers.values()
    return found


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


def test_requests_are_numbered_from_the_beginning_again(
    follower: Follower, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(followers, "CORRELATIONS", 3)
    numbers = [asked(follower.request(NOW))[0].correlation_id for _ in range(5)]
    assert numbers == [1, 2, 0, 1, 2]


def test_a_broker_that_is_no_replica_any_more_asks_nobody(pair: Pair, follower: Follower) -> None:
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


def test_an_answer_of_a_broker_that_leads_no_more_is_left_aside(
    pair: Pair, follower: Follower
) -> None:
    """The controller has named no other one, in the same epoch."""
    produce(pair.partition(0), 3)
    late = pair.answer(follower)
    pair.sides[1].assign(says(None, 1, 2), NOW)
    follower.response(memoryview(late), NOW)
    assert pair.ends() == (3, 0)


def test_an_answer_that_comes_when_the_log_has_changed_is_left_aside(
    pair: Pair, follower: Follower
) -> None:
    produce(pair.partition(0), 3)
    pair.step()
    produce(pair.partition(0), 2)
    late = pair.answer(follower)
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
    answer = bytearray(answered(request))
    _, body = asked(request)
    assert [one.partition for one in body.topics[0].partitions] == [0, 1]
    header = len(encode("ResponseHeader", 1, Message(correlation_id=0)))
    said = decode("FetchResponse", 17, memoryview(answer)[header:])
    said.responses[0].partitions[1].error_code = ErrorCode.OFFSET_OUT_OF_RANGE
    follower.response(memoryview(bytes(answer[:header]) + encode("FetchResponse", 17, said)), NOW)
    request = follower.request(NOW)
    assert asked(request)[0].request_api_key == ApiKey.ListOffsets
    assert partitions_of(request) == [1]
    follower.response(answered(request, offset=9), NOW)
    assert (pair.partition(1, 0).end_offset, pair.partition(1, 1).end_offset) == (3, 9)
    assert partitions_of(follower.request(NOW)) == [0]  # the other one in a while
    assert partitions_of(follower.request(NOW + 1)) == [0, 1]


def test_a_lost_offset_is_forgotten_with_its_leader(pair: Pair, follower: Follower) -> None:
    follower.response(answered(follower.request(NOW), **OUT_OF_RANGE), NOW)
    assert partitions_of(follower.request(NOW)) == [0, 1]  # and the answer never comes
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
    again.response(memoryview(pair.answer(again, later)), later)
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
def test_what_a_leader_says_of_its_start_is_checked(
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


def test_who_waits_for_records_is_woken_by_each_change_and_by_nothing_else(pair: Pair) -> None:
    produce(pair.partition(0))
    looks = Looks(pair.brokers[1], pair.partition(1))
    counts = []
    for _ in range(3):
        pair.step()
        pair.brokers[1].tick(NOW)
        counts.append(looks.count)
    # The records, the high watermark, and nothing.
    assert 0 < counts[0] < counts[1] == counts[2]


def test_records_are_deleted_up_to_the_high_watermark_of_the_same_answer(
    pair: Pair, follower: Follower
) -> None:
    """The leader has deleted them, so this answer says that they were committed."""
    produce(pair.partition(0), 6)
    pair.step()
    partition = pair.partition(1)
    assert (partition.start_offset, partition.end_offset, partition.high_watermark) == (0, 6, 0)
    answer = answered(follower.request(NOW), high_watermark=6, log_start_offset=5)
    follower.response(answer, NOW)
    assert (partition.start_offset, partition.high_watermark) == (5, 6)
