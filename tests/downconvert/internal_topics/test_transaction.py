"""The steps of a transactional id, and what each keeps of the state before it."""

from dataclasses import replace

import pytest

from downconvert.internal_topics.transaction import EPOCH_MAX, NO_EPOCH, NO_TIME, State, Transaction
from downconvert.storage import TopicPartition

PLACES = frozenset({TopicPartition("t", 0), TopicPartition("u", 1)})
MORE = TopicPartition("v", 2)
NEW = Transaction(transactional_id="x", producer_id=7, epoch=3, last_epoch=2, timeout_ms=500)
OPEN = NEW.with_partitions(PLACES, 100)


def test_a_transaction_begins_with_its_first_partition() -> None:
    assert (OPEN.state, OPEN.start_time, OPEN.update_time) == (State.ONGOING, 100, 100)
    assert OPEN.last_epoch == NO_EPOCH
    later = OPEN.with_partitions([MORE], 150)
    assert (later.start_time, later.update_time) == (100, 150)
    assert later.partitions == PLACES | {MORE}


def test_the_next_transaction_begins_anew() -> None:
    ended = OPEN.prepared(200, commits=True).completed(210)
    assert (ended.state, ended.partitions) == (State.COMPLETE_COMMIT, frozenset())
    again = ended.with_partitions([MORE], 300)
    assert (again.start_time, again.partitions) == (300, {MORE})


@pytest.mark.parametrize(("open_ms", "is_over"), [(499, False), (500, False), (501, True)])
def test_a_transaction_may_be_open_for_its_timeout(open_ms: int, is_over: bool) -> None:
    later = OPEN.with_partitions([MORE], 400)
    assert (later.has_timed_out(open_ms), later.start_time) == (is_over, OPEN.start_time)
    assert not later.prepared(600, commits=True).has_timed_out(open_ms + 1000)


@pytest.mark.parametrize("commits", [True, False])
@pytest.mark.parametrize("epoch", [3, EPOCH_MAX - 1, EPOCH_MAX])
def test_an_outcome_without_the_producer_fences_it(commits: bool, epoch: int) -> None:
    one = replace(OPEN, epoch=epoch, last_epoch=1)
    own = one.prepared(200, commits=commits)
    assert (own.epoch, own.last_epoch) == (epoch, 1)
    fenced = one.prepared(200, commits=commits, fences=True)
    assert (fenced.epoch, fenced.last_epoch) == (min(epoch + 1, EPOCH_MAX), NO_EPOCH)
    assert (fenced.partitions, fenced.start_time) == (PLACES, 100)


def test_a_new_producer_brings_its_own_timeout() -> None:
    ended = OPEN.prepared(200, commits=False).completed(210)
    begun = ended.with_epoch(4, 3, 900, 300)
    assert (begun.state, begun.epoch, begun.last_epoch) == (State.EMPTY, 4, 3)
    assert (begun.timeout_ms, begun.start_time, begun.update_time) == (900, NO_TIME, 300)
    other = ended.with_producer_id(8, 3, 700, 300)
    assert (other.producer_id, other.previous_producer_id, other.epoch) == (8, 7, 0)
    assert (other.timeout_ms, other.last_epoch) == (700, 3)


@pytest.mark.parametrize(("now", "is_over"), [(309, False), (310, True)])
def test_an_id_expires_after_its_last_use(now: int, is_over: bool) -> None:
    ended = OPEN.prepared(200, commits=True).completed(210)
    assert ended.has_expired(now, 100) == is_over
    assert not OPEN.has_expired(10**9, 100)
    assert not OPEN.prepared(200, commits=True).has_expired(10**9, 100)
