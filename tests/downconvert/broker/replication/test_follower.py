"""A follower and its leader, by bytes: what it fetches, what it truncates, and which responses it
rejects."""

from pathlib import Path
from random import Random

import pytest

from downconvert.broker import BadRequestError, Broker, BrokerConfig
from downconvert.broker.replication.replica import Leadership
from downconvert.broker.replication.replica_manager import Replication
from downconvert.storage import LogDir
from tests.downconvert.broker.test_partition import produce

from .following import (
    NAMES,
    NOW,
    Pair,
    says,
    stored,
)


def test_one_record_is_committed_in_four_steps_by_bytes(pair: Pair) -> None:
    produce(pair.partition(0))
    assert (pair.ends(), pair.high_watermarks()) == ((1, 0), (0, 0))
    pair.step()
    assert (pair.ends(), pair.high_watermarks()) == ((1, 1), (0, 0))
    pair.step()  # it waited, and was read again when its time was up: it has the new one
    assert (pair.ends(), pair.high_watermarks()) == ((1, 1), (1, 1))
    assert stored(pair.partition(0)) == stored(pair.partition(1))


def test_a_response_at_once_has_the_high_watermark_of_before_the_fetch(pair: Pair) -> None:
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


def test_a_response_that_comes_when_the_leader_has_changed_is_left_aside(pair: Pair) -> None:
    produce(pair.partition(0), 3)
    (follower,) = pair.sides[1].followers.values()
    late = pair.response(follower)
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


def test_a_follower_deletes_records_that_its_leader_has_deleted(pair: Pair) -> None:
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


def test_mutated_responses_leave_a_log_that_can_be_read(pair: Pair) -> None:
    random = Random(8)
    produce(pair.partition(0), 5)
    (follower,) = pair.sides[1].followers.values()
    for round_ in range(400):
        response = bytearray(pair.response(follower, NOW + 2 * round_))
        for _ in range(random.randint(1, 4)):
            response[random.randrange(4, len(response))] = random.randrange(256)
        try:
            follower.response(memoryview(response), NOW + 2 * round_)
        except BadRequestError:
            continue
        partition = pair.partition(1)
        assert len(list(partition.log.records())) <= 5
        if partition.end_offset:
            partition.log.writer.truncate_fully_and_start_at(0)


@pytest.mark.parametrize("cut", [0, 3, 4, 5, 20])
def test_half_a_response_ends_the_connection(pair: Pair, cut: int) -> None:
    (follower,) = pair.sides[1].followers.values()
    with pytest.raises(BadRequestError):
        follower.response(memoryview(pair.response(follower)[:cut]), NOW)


def test_a_replica_without_records_names_no_epoch_though_it_has_led_one(pair: Pair) -> None:
    pair.lead(1, 2, 2)
    pair.lead(0, 3, 3)
    produce(pair.partition(0))
    assert pair.partition(1).end_offset == 0
    pair.step()
    assert pair.ends() == (1, 1)
